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
}

// decision is one until that is known.
type decision struct {
	at         time.Time
	until      time.Time // nothing called later could have been answered by it, but for candidates with a freshness
	after      int64
	count      int // candidates
	issued     int
	declined   map[string]int
	slots      int
	budget     int
	whole      int // tokens that an answer counts at most
	candidates []*candidate
}

// candidate is one of them.
type candidate struct {
	Option
	arguments string
	begun     *Begun // nil: it was not

	stale bool          // something changed what it would have answered
	until time.Time     // until when a call could have been answered by it
	lead  time.Duration // from the decision to the call
	took  time.Duration // of the call's own fetch; 0: not known, or it needed none
}

// Bounds of what is kept to be judged.
const (
	keepDecisions  = 6  // of a session with one upstream
	keepCandidates = 48 // of a decision
	keepTop        = 5
)

// begin opens a decision on what an answer makes likely.
func (p *pairState) begin(now time.Time, after int64, n int, r *Rules) {
	p.decision = nil
	if n == 0 {
		return
	}
	p.decision = &decision{
		at: now, until: now.Add(r.Age(p.at.Exclusive)), after: after, count: n, budget: r.Budget, whole: r.Pick().Whole, declined: make(map[string]int),
	}
	p.decisions = append(p.decisions, p.decision)
}

// consider notes what has become of one candidate of the newest decision.
func (p *pairState) consider(g *predict.Candidate, why enrich.Reason, begun *Begun) {
	d := p.decision
	if d == nil {
		return
	}
	if begun == nil {
		d.declined[string(why)]++
	} else {
		d.issued++
		d.slots = max(d.slots, d.issued)
	}
	if why == enrich.InFlight || why == enrich.Stored { // an earlier decision has it
		return
	}
	c := &candidate{
		Option: Option{Tool: g.Key.Tool, P: g.P, Reason: string(why), ValueMS: ms(g.Latency.Mean())}, arguments: g.Key.Arguments, begun: begun, until: d.until,
	}
	size := g.Bytes
	if m := g.Model; m != nil {
		if size == 0 {
			size = int(m.Cost.TypicalKB * 1024)
		}
		if m.Cost.Freshness > 0 {
			c.until = d.at.Add(m.Cost.Freshness)
		}
	}
	c.Tokens = (size + bytesPerToken - 1) / bytesPerToken
	if d.whole > 0 {
		c.Tokens = min(c.Tokens, d.whole)
	}
	d.keep(c)
}

const bytesPerToken = 4

// keep adds a candidate; of too many the likeliest stay, and those that were begun.
func (d *decision) keep(c *candidate) {
	if len(d.candidates) < keepCandidates {
		d.candidates = append(d.candidates, c)
		return
	}
	rank := func(a, b *candidate) int {
		switch {
		case (a.begun == nil) == (b.begun == nil):
			return cmp.Compare(a.P, b.P)
		case a.begun == nil:
			return -1
		}
		return 1
	}
	if least := slices.MinFunc(d.candidates, rank); rank(least, c) < 0 {
		d.candidates[slices.Index(d.candidates, least)] = c
	}
}

// came notes a call: of the decisions that had it as a candidate the one that began it,
// else the newest, is told. It returns the candidate that it was, which is to hear how long
// the call took.
func (p *pairState) came(tool, arguments string, at time.Time) *candidate {
	var best *candidate
	for _, d := range slices.Backward(p.decisions) {
		for _, c := range d.candidates {
			if c.Tool != tool || c.arguments != arguments || c.Called || c.stale || at.After(c.until) {
				continue
			}
			if best == nil || best.begun == nil && c.begun != nil {
				best = c
				best.lead = at.Sub(d.at)
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
		for _, c := range d.candidates {
			c.stale = c.stale || !c.Called && stale(c.Tool, c.arguments)
		}
	}
}

// open is until when the candidates may be of use.
func (d *decision) open() time.Time {
	open := d.until
	for _, c := range d.candidates {
		if c.begun != nil && !c.Called && !c.stale && c.until.After(open) {
			open = c.until
		}
	}
	return open
}

// judge tells of the decisions of which everything is known, the oldest first; of all if
// the session has ended.
func (p *pairState) judge(now time.Time, all bool) {
	n := 0
	for _, d := range p.decisions {
		if !all && now.Before(d.open()) && len(p.decisions)-n <= keepDecisions {
			break
		}
		told := d.judge(now)
		told.Session, told.Upstream = p.session.client.Name, p.at.Name
		p.w.Decided(told)
		for id, c := range p.called {
			if slices.Contains(d.candidates, c) {
				delete(p.called, id) // its answer was not seen
			}
		}
		n++
	}
	p.decisions = slices.Delete(p.decisions, 0, n)
}

// judge holds the decision against the best one.
func (d *decision) judge(now time.Time) Decision {
	out := Decision{
		At: d.at, After: d.after, Candidates: d.count, Issued: d.issued, Declined: d.declined, Open: now.Before(d.until),
	}
	var seen []enrich.Seen
	for _, c := range d.candidates {
		seen = append(seen, c.seen())
		if c.Called && c.begun == nil {
			out.LateCalled++
		}
	}
	out.BestMS, out.AchievedMS = enrich.Hindsight(seen, enrich.Bounds{Budget: d.budget, Slots: d.slots})
	out.AchievedMS = min(out.AchievedMS, out.BestMS) // slots that came free later are none of the decision's
	slices.SortStableFunc(d.candidates, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b.P, a.P), strings.Compare(a.arguments, b.arguments))
	})
	for _, c := range d.candidates[:min(keepTop, len(d.candidates))] {
		out.Top = append(out.Top, c.Option)
	}
	return out
}

// seen is the candidate as it looks now.
func (c *candidate) seen() enrich.Seen {
	took := c.took
	if c.begun != nil {
		took = c.begun.Took()
	}
	return enrich.Seen{
		HidesMS: ms(min(took, c.lead)), Tokens: c.Tokens, Called: c.Called,
		Issued: c.begun != nil, Barred: c.begun == nil && never(enrich.Reason(c.Reason)),
	}
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
