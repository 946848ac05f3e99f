package plan

import (
	"context"
	"fmt"
	"slices"
)

// begin begins a step that all it waits for has ended for, or ends it if it must
// not run.
func (x *execution) begin(ctx context.Context, g *stage) {
	why, void := x.barred(g)
	if g.waived() && (why == "" || void && g.priced) {
		why, void = g.leftOut(), true
	}
	if why != "" {
		x.skip(g, why, void)
		return
	}
	look := x.look(nil, 0)
	if g.When != nil {
		holds, err := g.When.Holds(look)
		if err != nil {
			x.end(g, Failed, "when: "+err.Error())
			return
		}
		if !holds {
			x.skip(g, "when: false", true)
			return
		}
	}
	if g.ForEach != nil {
		x.beginItems(g, look)
		return
	}
	arguments, err := x.arguments(g, look)
	if err != nil {
		x.end(g, Failed, err.Error())
		return
	}
	x.call(ctx, g, -1, arguments)
	x.spend(g) // it is in the arguments now
}

// skip ends a step that does not run. void: nothing has failed.
func (x *execution) skip(g *stage, why string, void bool) {
	g.status.Void = void
	x.end(g, Skipped, why)
}

// barred is why a step must not run, "" if it may, judged by those of the steps it
// waits for that have ended. void: none of them failed.
func (x *execution) barred(g *stage) (why string, void bool) {
	for _, i := range g.After {
		d := x.stages[i]
		if _, order := slices.BinarySearch(g.Order, i); order || !d.done() || d.status.State == OK {
			continue
		}
		if d.status.Void {
			if g.needs(d) && !g.defaults(d) && why == "" {
				why, void = fmt.Sprintf("Skipped because dependency '%s' was skipped", d.ID), true
			}
			continue // another one may have failed
		}
		if d.OnError == Default || d.OnError == Continue || d.OnError == Skip && !g.needs(d) {
			continue
		}
		how := "failed"
		if d.status.State == Skipped {
			how = "was skipped"
		}
		return fmt.Sprintf("Skipped because dependency '%s' %s", d.ID, how), false
	}
	if why == "" {
		return x.after(g), false
	}
	return why, void
}

// after is why a writing step must not run after an earlier one that failed.
func (x *execution) after(g *stage) string {
	switch b := x.broken; {
	case b == nil || !g.Writes || b.Index > g.Index:
		return ""
	case b.status.Doubt:
		return fmt.Sprintf("Skipped because '%s' may have changed something", b.ID)
	default:
		return fmt.Sprintf("Skipped because '%s' failed", b.ID)
	}
}

// needs reports whether a step refers to the result of another.
func (g *stage) needs(d *stage) bool {
	_, ok := slices.BinarySearch(g.Needs, d.Index)
	return ok
}

// defaults reports whether all that a step refers to in the result of another may
// be missing.
func (g *stage) defaults(d *stage) bool {
	return !slices.ContainsFunc(g.refs(), func(r *Ref) bool { return r.Step == d.ID && r.Default == nil })
}

// refs are all references of a step.
func (g *stage) refs() []*Ref {
	var all []*Ref
	if g.Arguments != nil {
		all = append(all, g.Arguments.Refs()...)
	}
	if g.When != nil {
		all = append(all, g.When.Refs()...)
	}
	if g.ForEach != nil {
		all = append(all, g.ForEach)
	}
	return all
}

// arguments are those of one call of a step.
func (x *execution) arguments(g *stage, look Lookup) ([]byte, error) {
	if g.Arguments == nil {
		return []byte("{}"), nil
	}
	arguments, err := g.Arguments.Resolve(look, g.Tool.Input, x.Bytes)
	if err != nil {
		return nil, err
	}
	if !g.Writes && g.Tool.Writes != nil && g.Tool.Writes(arguments) {
		// Nobody was asked for it, and it has no place in the order of the writes.
		return nil, fmt.Errorf("with these arguments %s may change something, which was not known before", g.Tool.Name)
	}
	return arguments, nil
}
