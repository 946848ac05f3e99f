package speculate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// What a decision was worth is known when it is known which of its candidates were called:
// then it is held against the best choice under the same bounds.

// Decision is what was made of the candidates that follow one answer.
type Decision struct {
	At         time.Time
	Session    string // in the record
	Upstream   string
	After      int64 // the call (Seq) whose answer it follows
	Candidates int
	Issued     int
	Declined   map[string]int // reason → how many
	Open       bool           // a candidate may still be called in time
	LateCalled int            // candidates that were called and had not been begun
	Top        []Option       // the likeliest
	BestMS     float64        // of waiting that the best choice would have hidden
	AchievedMS float64        // that this one has
}

// Option is one candidate of a decision.
type Option struct {
	Tool    string
	P       float64
	Reason  string // why it was not begun; "": it was
	ValueMS float64
	Tokens  int
	Called  bool

	Arguments string // canonical
}

// decisions are those of a session with one upstream of which it is not known yet what they
// were worth.
type decisions struct {
	report func(Decision)
	open   []*decision        // oldest first
	newest *decision          // nil: the last answer made nothing likely
	called map[uint64]*option // call under way → the candidate that it was
}

func newDecisions(tell func(Decision)) decisions {
	return decisions{report: tell, called: make(map[uint64]*option)}
}

// decision is one until that is known.
type decision struct {
	what    Decision
	until   time.Time // nothing called later could have been answered by it, but for candidates with a freshness
	bounds  enrich.Options
	slots   int
	options []*option
}

// option is one of its candidates.
type option struct {
	what  Option
	begun *Begun        // nil: it was not
	stale bool          // something changed what it would have answered
	until time.Time     // until when a call could have been answered by it
	lead  time.Duration // from the decision to the call
	took  time.Duration // of the call's own fetch; 0: not known, or it needed none
}

// Bounds of what is kept until it is known.
const (
	keepDecisions = 6  // of a session with one upstream
	keepOptions   = 48 // of a decision: the likeliest, and those that were begun
	keepTop       = 5
)

// begin begins a decision on what an answer makes likely, under these bounds. Answers to its
// candidates are of use until then.
func (b *decisions) begin(what Decision, until time.Time, bounds enrich.Options) {
	b.newest = nil
	if what.Candidates == 0 {
		return
	}
	what.Declined = make(map[string]int)
	b.newest = &decision{what: what, until: until, bounds: bounds}
	b.open = append(b.open, b.newest)
}

// found notes that the newest decision has more candidates.
func (b *decisions) found(candidates int) {
	if b.newest != nil {
		b.newest.what.Candidates += candidates
	}
}

// after is the call whose answer the newest decision follows; 0: there is none.
func (b *decisions) after() int64 {
	if b.newest == nil {
		return 0
	}
	return b.newest.what.After
}

// slots notes how many candidates of the newest decision could have been begun.
func (b *decisions) slots(n int) {
	if b.newest != nil {
		b.newest.slots = max(b.newest.slots, n)
	}
}

// consider notes what has become of one candidate of the newest decision.
func (b *decisions) consider(c *predict.Candidate, why enrich.Reason, begun *Begun) {
	d := b.newest
	if d == nil {
		return
	}
	if begun == nil {
		d.what.Declined[string(why)]++
	} else {
		d.what.Issued++
		d.slots = max(d.slots, d.what.Issued)
	}
	if why == enrich.InFlight || why == enrich.Stored { // an earlier decision has it
		return
	}
	o := &option{
		what:  Option{Tool: c.Key.Tool, P: c.P, Reason: string(why), ValueMS: ms(c.Latency.Mean()), Arguments: c.Key.Arguments},
		begun: begun, until: d.until,
	}
	size := c.Bytes
	if m := c.Model; m != nil {
		if size == 0 {
			size = int(m.Cost.TypicalKB * 1024)
		}
		if m.Cost.Freshness > 0 {
			o.until = d.what.At.Add(m.Cost.Freshness)
		}
	}
	o.what.Tokens = (size + bytesPerToken - 1) / bytesPerToken
	if d.bounds.MaxTokens > 0 {
		o.what.Tokens = min(o.what.Tokens, d.bounds.MaxTokens)
	}
	if d.options = append(d.options, o); len(d.options) > keepOptions {
		slices.SortStableFunc(d.options, func(a, b *option) int { return cmp.Compare(b.rank(), a.rank()) })
		d.options = d.options[:keepOptions]
	}
}

const bytesPerToken = 4

// rank is higher for what is rather kept.
func (o *option) rank() float64 {
	if o.begun != nil {
		return 1 + o.what.P
	}
	return o.what.P
}

// call notes a call: of the decisions that had it as a candidate the one that began it, else
// the newest, has come true.
func (b *decisions) call(id uint64, tool, arguments string, at time.Time) {
	var best *option
	for _, d := range slices.Backward(b.open) {
		for _, o := range d.options {
			if o.what.Tool != tool || o.what.Arguments != arguments || o.what.Called || o.stale || at.After(o.until) {
				continue
			}
			if best == nil || best.begun == nil && o.begun != nil {
				best = o
				best.lead = at.Sub(d.what.At)
			}
		}
	}
	if best != nil {
		best.what.Called = true
		b.called[id] = best
	}
}

// result notes how long the fetch of a call took; 0: it is not known, or it needed none.
func (b *decisions) result(id uint64, took time.Duration) {
	if o := b.called[id]; o != nil {
		o.took = took
		delete(b.called, id)
	}
}

// invalidate takes back what a write makes stale.
func (b *decisions) invalidate(stale func(tool, arguments string) bool) {
	for _, d := range b.open {
		for _, o := range d.options {
			o.stale = o.stale || !o.what.Called && stale(o.what.Tool, o.what.Arguments)
		}
	}
}

// settle tells of the decisions of which everything is known, the oldest first; of all if the
// session has ended.
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

// useful is until when the candidates may be of use.
func (d *decision) useful() time.Time {
	until := d.until
	for _, o := range d.options {
		if o.begun != nil && !o.what.Called && !o.stale {
			until = later(until, o.until)
		}
	}
	return until
}

// told is the decision as it is known now.
func (d *decision) report(now time.Time) Decision {
	out := d.what
	out.Open = now.Before(d.until)
	var seen []enrich.Outcome
	for _, o := range d.options {
		took := o.took
		if o.begun != nil {
			took = o.begun.Took()
		}
		seen = append(seen, enrich.Outcome{
			HiddenMS: ms(min(took, o.lead)), Tokens: o.what.Tokens, Called: o.what.Called,
			Issued: o.begun != nil, Barred: o.begun == nil && unavailable(enrich.Reason(o.what.Reason)),
		})
		if o.what.Called && o.begun == nil {
			out.LateCalled++
		}
	}
	out.BestMS, out.AchievedMS = enrich.Hindsight(seen, enrich.Bounds{Budget: d.bounds.Budget, Slots: d.slots})
	out.AchievedMS = min(out.AchievedMS, out.BestMS) // slots that came free later are none of the decision's
	slices.SortStableFunc(d.options, func(a, b *option) int {
		return cmp.Or(cmp.Compare(b.what.P, a.what.P), strings.Compare(a.what.Arguments, b.what.Arguments))
	})
	for _, o := range d.options[:min(keepTop, len(d.options))] {
		out.Top = append(out.Top, o.what)
	}
	return out
}

// never reports whether a candidate that was declined for that reason could not have
// been chosen, however right it was.
func unavailable(why enrich.Reason) bool {
	switch why {
	case enrich.Gate, enrich.LowProbability, enrich.Budget, enrich.Cap, enrich.Throttled, enrich.Shadow:
		return false
	}
	return true
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
