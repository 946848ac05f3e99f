package plan

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// begin begins a step that all it waits for has ended for, or ends it if it must
// not run.
func (x *execution) begin(ctx context.Context, g *stage) {
	if why, void := x.barred(g); why != "" {
		x.skip(g, why, void)
		return
	}
	if g.When != nil {
		holds, err := g.When.Holds(x.look)
		switch {
		case err != nil:
			x.end(g, Failed, "when: "+err.Error())
			return
		case !holds:
			x.skip(g, "when: false", true)
			return
		}
	}
	if g.ForEach != nil {
		x.openItems(g)
		return
	}
	x.call(ctx, g, -1, x.inputs(g))
}

// skip ends a step that does not run. void: nothing has failed.
func (x *execution) skip(g *stage, why string, void bool) {
	g.status.Void = void
	x.end(g, Skipped, why)
}

// barred is why a step must not run, "" if it may: what became of those that it waits for.
// void: none of them failed.
func (x *execution) barred(g *stage) (why string, void bool) {
	for _, i := range g.After {
		d := x.stages[i]
		refers := slices.Contains(g.Needs, i)
		switch {
		case slices.Contains(g.Order, i) || d.status.State == OK:
		case d.status.Void: // another one may have failed
			if refers && !g.defaults(d) && why == "" {
				why, void = fmt.Sprintf("Skipped because dependency '%s' was skipped", d.ID), true
			}
		case d.OnError == Default || d.OnError == Continue || d.OnError == Skip && !refers:
		case d.status.State == Skipped:
			return fmt.Sprintf("Skipped because dependency '%s' was skipped", d.ID), false
		default:
			return fmt.Sprintf("Skipped because dependency '%s' failed", d.ID), false
		}
	}
	if why == "" {
		return x.afterBroken(g), false
	}
	return why, void
}

// afterBroken is why a writing step must not run after one that failed: one written before
// it, or one that it waits for.
func (x *execution) afterBroken(g *stage) string {
	for _, b := range x.stages {
		if !g.Writes || !b.broke() || b.Index > g.Index && !slices.Contains(g.After, b.Index) {
			continue
		}
		if b.status.Doubt {
			return fmt.Sprintf("Skipped because '%s' may have changed something", b.ID)
		}
		return fmt.Sprintf("Skipped because '%s' failed", b.ID)
	}
	return ""
}

// broke reports whether a step may have left half a change behind.
func (g *stage) broke() bool { return g.status.State == Failed && g.stopsWrites() }

// defaults reports whether all that a step refers to in the result of another may
// be missing.
func (g *stage) defaults(d *stage) bool {
	return !slices.ContainsFunc(g.refs(), func(r *Ref) bool { return r.Step == d.ID && r.Default == nil })
}

// refs are all references of a step.
func (s *Step) refs() []*Ref {
	var all []*Ref
	if s.Arguments != nil {
		all = append(all, s.Arguments.Refs()...)
	}
	if s.When != nil {
		all = append(all, s.When.Refs()...)
	}
	if s.ForEach != nil {
		all = append(all, s.ForEach)
	}
	return all
}

// look is the value of a step that has ended, or the parameters. Where there is no
// result, the default of the reference counts.
func (x *execution) look(r *Ref) (Value, error) {
	if r.Step == params && x.plan.Params != nil {
		return Value{JSON: x.plan.Params}, nil
	}
	d := x.named[r.Step]
	switch {
	case d == nil:
		return Value{}, fmt.Errorf("unknown step %q", r.Step)
	case d.status.State == OK:
		return d.result, nil
	case d.status.Void:
	case d.OnError == Default:
		return Value{JSON: d.Default}, nil
	case d.OnError == Continue:
		return Value{}, nil // null, wherever the reference points
	}
	return Value{}, fmt.Errorf("step %q has no result", d.ID)
}

// inputs are what the references in a step's arguments stand for, each found once, by the
// first call that asks for it and on that call's goroutine: reading a large result to its
// middle for each of thousands of items takes seconds.
func (x *execution) inputs(g *stage) Lookup {
	found := make(map[*Ref]func() (Value, error))
	if g.Arguments != nil {
		for _, r := range g.Arguments.Refs() {
			if g.ForEach == nil || r.Step != item && r.Step != index {
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
func (in Lookup) forItem(value []byte, place int) Lookup {
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
