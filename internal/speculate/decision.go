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

// decision is one until that is known.
type decision struct {
	Decision
	until   time.Time // nothing called later could have been answered by it, but for candidates with a freshness
	bounds  enrich.Options
	slots   int
	options []*option
}

// option is one of its candidates.
type option struct {
	Option
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

// open begins a decision on what an answer makes likely.
func (p *pairState) open(now time.Time, after int64, n int, r *Rules) {
	p.decision = nil
	if n == 0 {
		return
	}
	p.decision = &decision{
		Decision: Decision{
			At: now, Session: p.session.client.Name, Upstream: p.at.Name, After: after, Candidates: n, Declined: make(map[string]int),
		},
		until: now.Add(r.Age(p.at.Exclusive)), bounds: r.Pick(),
	}
	p.decisions = append(p.decisions, p.decision)
}

// consider notes what has become of one candidate of the newest decision.
func (p *pairState) consider(c *predict.Candidate, why enrich.Reason, begun *Begun) {
	d := p.decision
	if d == nil {
		return
	}
	if begun == nil {
		d.Declined[string(why)]++
	} else {
		d.Issued++
		d.slots = max(d.slots, d.Issued)
	}
	if why == enrich.InFlight || why == enrich.Stored { // an earlier decision has it
		return
	}
	o := &option{
		Option: Option{Tool: c.Key.Tool, P: c.P, Reason: string(why), ValueMS: ms(c.Latency.Mean()), Arguments: c.Key.Arguments},
		begun:  begun, until: d.until,
	}
	size := c.Bytes
	if m := c.Model; m != nil {
		if size == 0 {
			size = int(m.Cost.TypicalKB * 1024)
		}
		if m.Cost.Freshness > 0 {
			o.until = d.At.Add(m.Cost.Freshness)
		}
	}
	o.Tokens = (size + bytesPerToken - 1) / bytesPerToken
	if d.bounds.Whole > 0 {
		o.Tokens = min(o.Tokens, d.bounds.Whole)
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
		return 1 + o.P
	}
	return o.P
}

// came notes a call: of the decisions that had it as a candidate the one that began it,
// else the newest, is told. It returns the candidate that it was, which is to hear how long
// the call took.
func (p *pairState) came(tool, arguments string, at time.Time) *option {
	var best *option
	for _, d := range slices.Backward(p.decisions) {
		for _, o := range d.options {
			if o.Tool != tool || o.Arguments != arguments || o.Called || o.stale || at.After(o.until) {
				continue
			}
			if best == nil || best.begun == nil && o.begun != nil {
				best = o
				best.lead = at.Sub(d.At)
			}
		}
	}
	if best != nil {
		best.Called = true
	}
	return best
}

// void takes back what a write makes stale.
func (p *pairState) void(stale func(tool, arguments string) bool) {
	for _, d := range p.decisions {
		for _, o := range d.options {
			o.stale = o.stale || !o.Called && stale(o.Tool, o.Arguments)
		}
	}
}

// tell tells of the decisions of which everything is known, the oldest first; of all if the
// session has ended.
func (p *pairState) tell(now time.Time, all bool) {
	n := 0
	for _, d := range p.decisions {
		if !all && now.Before(d.useful()) && len(p.decisions)-n <= keepDecisions {
			break
		}
		p.w.Decided(d.told(now))
		for id, o := range p.called {
			if slices.Contains(d.options, o) {
				delete(p.called, id) // its answer was not seen
			}
		}
		n++
	}
	p.decisions = slices.Delete(p.decisions, 0, n)
}

// useful is until when the candidates may be of use.
func (d *decision) useful() time.Time {
	until := d.until
	for _, o := range d.options {
		if o.begun != nil && !o.Called && !o.stale {
			until = later(until, o.until)
		}
	}
	return until
}

// told is the decision as it is known now.
func (d *decision) told(now time.Time) Decision {
	out := d.Decision
	out.Open = now.Before(d.until)
	var seen []enrich.Seen
	for _, o := range d.options {
		took := o.took
		if o.begun != nil {
			took = o.begun.Took()
		}
		seen = append(seen, enrich.Seen{
			HidesMS: ms(min(took, o.lead)), Tokens: o.Tokens, Called: o.Called,
			Issued: o.begun != nil, Barred: o.begun == nil && never(enrich.Reason(o.Reason)),
		})
		if o.Called && o.begun == nil {
			out.LateCalled++
		}
	}
	out.BestMS, out.AchievedMS = enrich.Hindsight(seen, enrich.Bounds{Budget: d.bounds.Budget, Slots: d.slots})
	out.AchievedMS = min(out.AchievedMS, out.BestMS) // slots that came free later are none of the decision's
	slices.SortStableFunc(d.options, func(a, b *option) int {
		return cmp.Or(cmp.Compare(b.P, a.P), strings.Compare(a.Arguments, b.Arguments))
	})
	for _, o := range d.options[:min(keepTop, len(d.options))] {
		out.Top = append(out.Top, o.Option)
	}
	return out
}

// never reports whether a candidate that was declined for that reason could not have
// been chosen, however right it was.
func never(why enrich.Reason) bool {
	switch why {
	case enrich.Gate, enrich.LowProbability, enrich.Budget, enrich.Cap, enrich.Throttled, enrich.Shadow:
		return false
	}
	return true
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
