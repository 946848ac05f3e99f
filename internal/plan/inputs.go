package plan

import (
	"fmt"
	"strconv"
	"sync"
)

// look is the value of a step that has ended, or the parameters. Where there is no
// result, the default of the reference counts.
func (x *execution) look(r *Ref) (Value, error) {
	if r.Step == params && x.plan.Params != nil {
		return Value{JSON: x.plan.Params}, nil
	}
	i := x.plan.index(r.Step)
	if i < 0 {
		return Value{}, fmt.Errorf("unknown step %q", r.Step)
	}
	switch st := x.report.Steps[i]; {
	case st.State == OK:
		return Value{st.Result.JSON, st.Result.Text}, nil
	case st.Benign:
	case st.Step.OnError == Default:
		return Value{JSON: st.Step.Default}, nil
	case st.Step.OnError == Continue:
		return Value{}, nil // null, wherever the reference points
	}
	return Value{}, fmt.Errorf("step %q has no result", r.Step)
}

// inputs are what the references in a step's arguments stand for, each found once, by the
// first call that asks for it and on that call's goroutine: reading a large result to its
// middle for each of thousands of items takes seconds.
func (x *execution) inputs(s *Step) Resolver {
	found := make(map[*Ref]func() (Value, error))
	if s.Arguments != nil {
		for _, r := range s.Arguments.Refs() {
			if s.ForEach == nil || r.Step != item && r.Step != index {
				v, err := x.look(r)
				found[r] = sync.OnceValues(func() (Value, error) {
					return resolveRef(r, func(*Ref) (Value, error) { return v, err })
				})
			}
		}
	}
	return func(r *Ref) (Value, error) { return found[r]() }
}

// forItem adds what item and index stand for in one call of a step with for_each.
func (in Resolver) forItem(value []byte, place int) Resolver {
	return func(r *Ref) (Value, error) {
		v := Value{JSON: value}
		switch r.Step {
		case item:
		case index:
			v.JSON = strconv.AppendInt(nil, int64(place), 10)
		default:
			return in(r)
		}
		return resolveRef(r, func(*Ref) (Value, error) { return v, nil })
	}
}
