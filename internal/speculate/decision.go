package speculate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// The value of a decision is known once it is known which of its candidates were called. The
// decision is then compared with the best choice under the same limits.

// Decision is the choice among the candidates that follow one answer.
type Decision struct {
	At         time.Time
	Session    string // name in the record
	Upstream   string
	After      int64 // sequence number of the call whose answer it follows
	Candidates int
	Issued     int
	Declined   map[string]int // reason → count
	Open       bool           // a candidate may still be called in time
	LateCalled int            // candidates that were called and not prefetched
	Top        []Option       // the likeliest
	BestMS     float64        // latency that the best choice would have hidden
	AchievedMS float64        // latency that this choice has hidden
}

// Option is one candidate of a decision.
type Option struct {
	Tool    string
	P       float64
	Reason  string // why it was not prefetched; "" if it was
	ValueMS float64
	Tokens  int
	Called  bool

	Arguments string // canonical
}

// decisions are the decisions of a session with one upstream whose value is not known yet.
type decisions struct {
	report func(Decision)
	open   []*decision        // oldest first
	newest *decision          // nil if the last answer had no candidates
	called map[uint64]*option // call in progress → its candidate
}

func newDecisions(tell func(Decision)) decisions {
	return decisions{report: tell, called: make(map[uint64]*option)}
}

// decision is a Decision whose value is not known yet.
type decision struct {
	summary Decision
	until   time.Time // the latest time of a useful call, except for candidates with a freshness
	bounds  enrich.Options
	slots   int
	options []*option
}

// option is one candidate of a decision.
type option struct {
	summary Option
	begun   *Begun        // nil if it was not prefetched
	stale   bool          // its answer has been invalidated
	until   time.Time     // the latest time of a useful call
	lead    time.Duration // from the decision to the call
	took    time.Duration // duration of the call's own fetch; 0 if unknown or not needed
}

// Limits of open decisions.
const (
	keepDecisions = 6  // per session and upstream
	keepOptions   = 48 // per decision: the likeliest, and those prefetched
	keepTop       = 5
)

// begin begins the decision after an answer, under these limits. Answers to its candidates are
// useful until then.
func (b *decisions) begin(what Decision, until time.Time, bounds enrich.Options) {
	b.newest = nil
	if what.Candidates == 0 {
		return
	}
	what.Declined = make(map[string]int)
	b.newest = &decision{summary: what, until: until, bounds: bounds}
	b.open = append(b.open, b.newest)
}

// found adds candidates to the newest decision.
func (b *decisions) found(candidates int) {
	if b.newest != nil {
		b.newest.summary.Candidates += candidates
	}
}

// after is the call whose answer the newest decision follows; 0 for none.
func (b *decisions) after() int64 {
	if b.newest == nil {
		return 0
	}
	return b.newest.summary.After
}

// slots records how many candidates of the newest decision could have been prefetched.
func (b *decisions) slots(n int) {
	if b.newest != nil {
		b.newest.slots = max(b.newest.slots, n)
	}
}

// consider records what was decided about a candidate of the newest decision.
func (b *decisions) consider(c *predict.Candidate, why enrich.Reason, begun *Begun) {
	d := b.newest
	if d == nil {
		return
	}
	if begun == nil {
		d.summary.Declined[string(why)]++
	} else {
		d.summary.Issued++
		d.slots = max(d.slots, d.summary.Issued)
	}
	if why == enrich.InFlight || why == enrich.Stored { // an earlier decision has it
		return
	}
	o := &option{
		summary: Option{Tool: c.Key.Tool, P: c.P, Reason: string(why), ValueMS: ms(c.Latency.Mean()), Arguments: c.Key.Arguments},
		begun:   begun, until: d.until,
	}
	size := c.Bytes
	if m := c.Model; m != nil {
		if size == 0 {
			size = int(m.Cost.TypicalKB * 1024)
		}
		if m.Cost.Freshness > 0 {
			o.until = d.summary.At.Add(m.Cost.Freshness)
		}
	}
	o.summary.Tokens = (size + bytesPerToken - 1) / bytesPerToken
	if d.bounds.MaxTokens > 0 {
		o.summary.Tokens = min(o.summary.Tokens, d.bounds.MaxTokens)
	}
	if d.options = append(d.options, o); len(d.options) > keepOptions {
		slices.SortStableFunc(d.options, func(a, b *option) int { return cmp.Compare(b.rank(), a.rank()) })
		d.options = d.options[:keepOptions]
	}
}

const bytesPerToken = 4

// rank is the priority of keeping an option.
func (o *option) rank() float64 {
	if o.begun != nil {
		return 1 + o.summary.P
	}
	return o.summary.P
}

// call records a call: it matches the candidate of the decision that prefetched it, else of the
// newest decision that has it.
func (b *decisions) call(id uint64, tool, arguments string, at time.Time) {
	var best *option
	for _, d := range slices.Backward(b.open) {
		for _, o := range d.options {
			if o.summary.Tool != tool || o.summary.Arguments != arguments || o.summary.Called || o.stale || at.After(o.until) {
				continue
			}
			if best == nil || best.begun == nil && o.begun != nil {
				best = o
				best.lead = at.Sub(d.summary.At)
			}
		}
	}
	if best != nil {
		best.summary.Called = true
		b.called[id] = best
	}
}

// result records the duration of a call's fetch; 0 if unknown or not needed.
func (b *decisions) result(id uint64, took time.Duration) {
	if o := b.called[id]; o != nil {
		o.took = took
		delete(b.called, id)
	}
}

// invalidate marks the candidates that a write makes stale.
func (b *decisions) invalidate(stale func(tool, arguments string) bool) {
	for _, d := range b.open {
		for _, o := range d.options {
			o.stale = o.stale || !o.summary.Called && stale(o.summary.Tool, o.summary.Arguments)
		}
	}
}

// settle reports the decisions whose value is known, oldest first; if the session has ended, all.
func (b *decisions) settle(now time.Time, all bool) {
	n := 0
	for _, d := range b.open {
		if !all && now.Before(d.useful()) && len(b.open)-n <= keepDecisions {
			break
		}
		b.report(d.report(now))
		for id, o := range b.called {
			if slices.Contains(d.options, o) {
				delete(b.called, id) // its answer was not seen
			}
		}
		n++
	}
	b.open = slices.Delete(b.open, 0, n)
}

// useful is the latest time at which a candidate may be useful.
func (d *decision) useful() time.Time {
	until := d.until
	for _, o := range d.options {
		if o.begun != nil && !o.summary.Called && !o.stale {
			until = later(until, o.until)
		}
	}
	return until
}

// report returns the decision with its value so far.
func (d *decision) report(now time.Time) Decision {
	out := d.summary
	out.Open = now.Before(d.until)
	var seen []enrich.Outcome
	for _, o := range d.options {
		took := o.took
		if o.begun != nil {
			took = o.begun.Took()
		}
		seen = append(seen, enrich.Outcome{
			HiddenMS: ms(min(took, o.lead)), Tokens: o.summary.Tokens, Called: o.summary.Called,
			Issued: o.begun != nil, Barred: o.begun == nil && unavailable(enrich.Reason(o.summary.Reason)),
		})
		if o.summary.Called && o.begun == nil {
			out.LateCalled++
		}
	}
	out.BestMS, out.AchievedMS = enrich.Hindsight(seen, enrich.Bounds{Budget: d.bounds.Budget, Slots: d.slots})
	out.AchievedMS = min(out.AchievedMS, out.BestMS) // slots freed later do not belong to the decision
	slices.SortStableFunc(d.options, func(a, b *option) int {
		return cmp.Or(cmp.Compare(b.summary.P, a.summary.P), strings.Compare(a.summary.Arguments, b.summary.Arguments))
	})
	for _, o := range d.options[:min(keepTop, len(d.options))] {
		out.Top = append(out.Top, o.summary)
	}
	return out
}

// unavailable reports whether a candidate declined for that reason could not have been chosen,
// even if it was right.
func unavailable(why enrich.Reason) bool {
	switch why {
	case enrich.Gate, enrich.LowProbability, enrich.Budget, enrich.Cap, enrich.Throttled, enrich.Shadow:
		return false
	}
	return true
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
