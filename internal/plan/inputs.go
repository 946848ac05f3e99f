package plan

import (
	"fmt"
	"strconv"
	"sync"
)

// look returns the result of a step that has ended, or the parameters. It returns an error if
// there is no result, so that the default of the reference is used.
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
		return Value{}, nil // null for any pointer
	}
	return Value{}, fmt.Errorf("step %q has no result", r.Step)
}

// inputs returns a resolver for the references in a step's arguments. Each is resolved once, by
// the first call that needs it and on its goroutine: evaluating a pointer into a large result for
// each of thousands of items would take seconds.
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

// forItem adds the values of item and index for one call of a step with for_each.
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
