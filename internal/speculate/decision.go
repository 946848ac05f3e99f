package speculate

import (
	"cmp"
	"slices"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/record"
)

// decision is the choice among the candidates that follow one answer. It is reported once it is known
// which of them were called in time.
type decision struct {
	event record.Event        // what is reported
	until time.Time           // the latest time of a useful call
	stale [maxCandidates]bool // by index in event.Top: its answer has been invalidated
}

// Limits of open decisions.
const (
	maxDecisions  = 6  // per session and upstream
	maxCandidates = 48 // per decision
	maxTop        = 5  // candidates reported of each
)

// decisions are the open decisions of a session with one upstream.
type decisions struct {
	open   []*decision // oldest first; without those that had no candidates
	newest *decision   // after the last answer; nil before the first
}

// begin begins the decision after an answer.
func (b *decisions) begin(d *decision) {
	d.event.Declined = make(map[string]int)
	if b.newest = d; d.event.Candidates > 0 {
		b.open = append(b.open, d)
	}
}

// add records what was decided about a candidate: why it is not prefetched, or "".
func (d *decision) add(c *predict.Candidate, why enrich.Reason) {
	if why == "" {
		d.event.Issued++
	} else {
		d.event.Declined[string(why)]++
	}
	earlier := why == enrich.InFlight || why == enrich.Stored || why == enrich.Delivered // an earlier decision has it
	if earlier || len(d.event.Top) >= maxCandidates {
		return
	}
	size := float64(c.Bytes)
	if c.Model != nil {
		size = cmp.Or(size, c.Model.Cost.TypicalKB*1024)
	}
	d.event.Top = append(d.event.Top, record.Candidate{
		Tool: c.Key.Tool, P: c.P, Reason: string(why), ValueMS: ms(c.Latency.Mean()),
		Tokens: int64(size / record.BytesPerToken), RawArguments: []byte(c.Key.Arguments),
	})
}

// call records a call: it matches the candidate of the newest decision that has it.
func (b *decisions) call(tool, arguments string, at time.Time) {
	for _, d := range slices.Backward(b.open) {
		for i := range d.event.Top {
			o := &d.event.Top[i]
			if o.Tool != tool || string(o.RawArguments) != arguments || o.Called || d.stale[i] || at.After(d.until) {
				continue
			}
			o.Called = true
			if o.Reason != "" {
				d.event.LateCalled++
			}
			return
		}
	}
}

// invalidate marks the candidates that a write makes stale.
func (b *decisions) invalidate(stale func(tool, arguments string) bool) {
	for _, d := range b.open {
		for i, o := range d.event.Top {
			d.stale[i] = d.stale[i] || !o.Called && stale(o.Tool, string(o.RawArguments))
		}
	}
}

// reportDue reports the decisions that are due, oldest first: their candidates cannot be called in time
// any more. The newest is not due, as some of its candidates may still wait for a slot. If the session has
// ended, all are due.
func (b *decisions) reportDue(now time.Time, ended bool, report func(record.Event)) {
	for len(b.open) > 0 && (ended || len(b.open) > maxDecisions || now.After(b.open[0].until) && b.open[0] != b.newest) {
		d := b.open[0]
		b.open = b.open[1:]
		slices.SortStableFunc(d.event.Top, func(a, b record.Candidate) int { return cmp.Compare(b.P, a.P) })
		d.event.Top = d.event.Top[:min(maxTop, len(d.event.Top))]
		report(d.event)
	}
}
