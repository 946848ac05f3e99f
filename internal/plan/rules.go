package plan

import (
	"fmt"
	"slices"
)

// barred is why a step must not run, "" if it may: what became of those that it waits for.
// void: none of them failed.
func (r *Report) barred(s *Step) (why string, void bool) {
	for _, i := range s.After {
		st, refers := r.Steps[i], slices.Contains(s.Needs, i)
		d := st.Step
		switch {
		case slices.Contains(s.Order, i) || st.State == OK:
		case st.Benign: // another one may have failed
			if refers && !s.doesWithout(d) && why == "" {
				why, void = fmt.Sprintf("Skipped because dependency '%s' was skipped", d.ID), true
			}
		case d.OnError == Default || d.OnError == Continue || d.OnError == Skip && !refers:
		case st.State == Skipped:
			return fmt.Sprintf("Skipped because dependency '%s' was skipped", d.ID), false
		default:
			return fmt.Sprintf("Skipped because dependency '%s' failed", d.ID), false
		}
	}
	if why == "" && s.Writes {
		return r.afterBroken(s), false
	}
	return why, void
}

// afterBroken is why a writing step must not run after one that failed: one written before
// it, or one that it waits for.
func (r *Report) afterBroken(s *Step) string {
	for i, st := range r.Steps {
		if st.State != Failed || !st.Step.stopsWrites() || i > s.Index && !slices.Contains(s.After, i) {
			continue
		}
		if st.InDoubt {
			return fmt.Sprintf("Skipped because '%s' may have changed something", st.Step.ID)
		}
		return fmt.Sprintf("Skipped because '%s' failed", st.Step.ID)
	}
	return ""
}

// stopsWrites reports whether a failure of the step keeps later writes from being run: it
// may have left half a change behind.
func (s *Step) stopsWrites() bool { return s.Writes && s.OnError != Continue }

// doesWithout reports whether all that a step refers to in the result of another may
// be missing.
func (s *Step) doesWithout(d *Step) bool {
	return !slices.ContainsFunc(s.refs, func(r *Ref) bool { return r.Step == d.ID && r.Default == nil })
}
