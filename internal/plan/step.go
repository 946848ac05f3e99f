package plan

import (
	"fmt"
	"slices"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// stepRun is the run of a step: its status and its calls.
type stepRun struct {
	*Status
	items  items
	inputs inputs // of its arguments
}

// items are the calls of a step, one for each element of its for_each, or a single one.
type items struct {
	values   [][]byte  // elements to call for, as written in the array; nil before the step has begun
	length   int       // of the array
	needed   bool      // a step or the client needs the results
	results  []Result  // of each item; without JSON if there is none
	next     int       // index of the next item to start
	inFlight int       // calls in flight
	failed   int       // items
	firstBad int       // lowest index of a failed item
	why      string    // error of that item, or why the step was cut short
	stopped  bool      // no further items start; the step fails
	began    time.Time // start of the first call
}

// open sets the items of a step. array is the value of its for_each; nil for a single call.
func (i *items) open(s *Step, array *Value) error {
	i.values, i.length = [][]byte{nil}, 1
	if array != nil {
		if array.missing != nil {
			return array.missing
		}
		if kind := kindOf(array.JSON); kind != "array" {
			return fmt.Errorf("want an array, have %s", kind)
		}
		i.values, i.length = nil, 0
		for element := range jsonrpc.Elements(array.JSON) {
			if i.length++; i.length <= s.MaxItems {
				i.values = append(i.values, element)
			}
		}
	}
	i.results = make([]Result, len(i.values))
	return nil
}

// more reports whether items are left to start.
func (i *items) more() bool { return !i.stopped && i.next < len(i.values) }

// done returns the number of items that have ended.
func (i *items) done() int { return i.next - i.inFlight }

// fails reports whether the step fails, once the calls in flight have ended: it was stopped, or
// each item that was called failed and on_error is "skip", which leaves no result.
func (run *stepRun) fails() bool {
	return run.items.stopped || run.Step.OnError == Skip && run.items.failed > 0 && run.items.failed == run.items.done()
}

// result returns the result of a step once its items have succeeded.
func (run *stepRun) result() (r Result) {
	if run.Step.ForEach == nil {
		return run.items.results[0]
	}
	var parts [][]byte
	for _, res := range run.items.results {
		parts = append(parts, res.JSON)
		r.Blocks = append(r.Blocks, res.Blocks...)
	}
	r.JSON = array(parts)
	return r
}

// reason describes the failed items and those that were not called.
func (run *stepRun) reason() string {
	why := run.items.why
	switch {
	case run.Step.ForEach == nil:
		return why
	case run.items.failed > 0:
		why = fmt.Sprintf("; %d failed; item %d: %s", run.items.failed, run.items.firstBad, why)
	case why != "":
		why = "; " + why
	case run.items.next == run.items.length:
		return ""
	}
	return fmt.Sprintf("%d of %d items tried", run.items.next, run.items.length) + why
}

// skipReason returns the reason why a step must be skipped because of the steps that it waits
// for, or "". benign means that none of them failed.
func (r *Report) skipReason(s *Step) (why string, benign bool) {
	for _, i := range s.Waits {
		st, refers := r.Steps[i], slices.Contains(s.Needs, i)
		d := st.Step
		switch {
		case st.State == OK:
		case st.Benign: // continue, as another step may have failed
			if refers && slices.ContainsFunc(s.refs, func(r *Ref) bool { return r.Step == d.ID && r.Default == nil }) {
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
// earlier in the plan, or one that it follows.
func (r *Report) failedWrite(s *Step) string {
	for i, st := range r.Steps {
		if st.State == Failed && st.Step.stopsWrites() && (i < s.Index || s.follows(i)) {
			return fmt.Sprintf(`Skipped because '%s' failed: a write after a failed write runs only if that has "on_error": "continue"`, st.Step.ID)
		}
	}
	return ""
}

// stopsWrites reports whether a failure of the step prevents later writes: it may leave a change
// half done.
func (s *Step) stopsWrites() bool { return s.Writes && s.OnError != Continue }

// follows reports whether a step waits for another one itself, not only through others.
func (s *Step) follows(i int) bool {
	return slices.Contains(s.Waits, i) || slices.Contains(s.OrderAfter, i)
}
