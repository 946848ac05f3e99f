package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
	if g.When != nil {
		holds, err := g.When.Holds(x.look)
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
		x.beginItems(g)
		return
	}
	in := x.inputs(g)
	large := x.inputBytes(g) > smallInputs
	x.call(ctx, g, -1, in.look(nil, 0), large)
	if !large {
		x.spend(g) // it is in the arguments as good as now
	}
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

// after is why a writing step must not run after one that failed: one written before
// it, or one that it waits for.
func (x *execution) after(g *stage) string {
	b := x.broken
	if b == nil || !g.Writes {
		return ""
	}
	if b.Index > g.Index {
		i := slices.IndexFunc(g.After, func(i int) bool { return x.stages[i].broke() })
		if i < 0 {
			return ""
		}
		b = x.stages[g.After[i]]
	}
	if b.status.Doubt {
		return fmt.Sprintf("Skipped because '%s' may have changed something", b.ID)
	}
	return fmt.Sprintf("Skipped because '%s' failed", b.ID)
}

// broke reports whether a step may have left half a change behind.
func (g *stage) broke() bool { return g.status.State == Failed && g.stopsWrites() }

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

// arguments are those of one call of a step. It may be called on any goroutine.
func (r *Runner) arguments(s *Step, look Lookup) ([]byte, error) {
	if s.Arguments == nil {
		return []byte("{}"), nil
	}
	arguments, err := s.Arguments.Resolve(look, s.Tool.Input, r.Bytes)
	if err != nil {
		return nil, err
	}
	if err := misfit(s, arguments); err != nil {
		return nil, err
	}
	if !s.Writes && s.Tool.Writes != nil && s.Tool.Writes(arguments) {
		// Nobody was asked for it, and it has no place in the order of the writes.
		return nil, fmt.Errorf("with these arguments %s may change something, which was not known before", s.Tool.Name)
	}
	return arguments, nil
}

// misfit is what is wrong with arguments that only the results have made what they
// are: a slip in a reference is null, and a tool that writes would write that. What
// is too much to be checked is sent.
func misfit(s *Step, arguments []byte) error {
	if s.Tool.Input == nil || s.Arguments.Constant() != nil {
		return nil
	}
	var wrong []string
	for _, f := range s.Tool.Input.FaultsOpen(arguments, nil) {
		wrong = append(wrong, f.Error())
	}
	if wrong == nil {
		return nil
	}
	return fmt.Errorf("not called: %s (input schema of %s)", strings.Join(wrong, "; "), s.Tool.Name)
}
