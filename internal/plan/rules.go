package plan

import (
	"fmt"
	"slices"
)

// skipReason returns the reason why a step must be skipped because of its dependencies, or "".
// benign means that none of them failed.
func (r *Report) skipReason(s *Step) (why string, benign bool) {
	for _, i := range s.After {
		st, refers := r.Steps[i], slices.Contains(s.Needs, i)
		d := st.Step
		switch {
		case slices.Contains(s.Order, i) || st.State == OK:
		case st.Benign: // continue, as another dependency may have failed
			if refers && !s.toleratesMissing(d) && why == "" {
				why, benign = fmt.Sprintf("Skipped because dependency '%s' was skipped", d.ID), true
			}
		case d.OnError == Default || d.OnError == Continue || d.OnError == Skip && !refers:
		case st.State == Skipped:
			return fmt.Sprintf("Skipped because dependency '%s' was skipped", d.ID), false
		default:
			return fmt.Sprintf("Skipped because dependency '%s' failed", d.ID), false
		}
	}
	if why == "" && s.Writes {
		return r.failedWrite(s), false
	}
	return why, benign
}

// failedWrite returns the reason why a writing step must not run after a failed write: one
// earlier in the plan, or one that it waits for.
func (r *Report) failedWrite(s *Step) string {
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

// stopsWrites reports whether a failure of the step prevents later writes: it may leave a change
// half done.
func (s *Step) stopsWrites() bool { return s.Writes && s.OnError != Continue }

// toleratesMissing reports whether all references of a step to another step have a default.
func (s *Step) toleratesMissing(d *Step) bool {
	return !slices.ContainsFunc(s.refs, func(r *Ref) bool { return r.Step == d.ID && r.Default == nil })
}
