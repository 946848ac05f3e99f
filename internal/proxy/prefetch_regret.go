package proxy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/events"
	"mcpschedd/internal/predict"
)

// What a choice was worth is known when it is known which of the calls it was among
// came: then it is held against the best choice under the same bounds, and recorded.

// round is one choice, until that is known.
type round struct {
	at       time.Time
	until    time.Time // nothing asked for later could have been answered by it
	after    int64     // the call (Seq) whose answer it follows
	count    int       // candidates
	issued   int
	declined map[string]int // reason → how many
	slots    int
	budget   int
	thoughts []*thought
}

// thought is one candidate of a round.
type thought struct {
	exact
	p      float64
	reason string
	begun  *timing // of the prefetch, if it was begun; nil: it was not
	value  float64
	tokens int

	called bool
	void   bool          // something changed what it would have answered
	until  time.Time     // until when a call could have been answered by it
	lead   time.Duration // from the choice to the call
	took   time.Duration // of the call's own fetch; 0: not known, or it needed none
}

// Bounds of what is kept to be judged.
const (
	keepRounds   = 6  // of a session with one upstream
	keepThoughts = 48 // of a round
	keepTop      = 5  // of a record
)

// begin opens a round for what an answer makes likely.
func (f *pairState) begin(now time.Time, after int64, n int, e *Enrichment, maxAge time.Duration) {
	f.round = nil
	if n == 0 {
		return
	}
	f.round = &round{at: now, until: now.Add(maxAge), after: after, count: n, budget: e.Budget, declined: make(map[string]int)}
	f.rounds = append(f.rounds, f.round)
}

// consider notes what has become of one candidate of the newest round.
func (f *pairState) consider(g *predict.Candidate, why enrich.Reason, begun *timing, whole int) {
	r := f.round
	if r == nil {
		return
	}
	if begun == nil {
		r.declined[string(why)]++
	} else {
		r.issued++
		r.slots = max(r.slots, r.issued)
	}
	if why == enrich.InFlight || why == enrich.Stored { // an earlier choice has it
		return
	}
	size := g.Bytes
	if g.Model != nil && size == 0 {
		size = int(g.Model.Cost.TypicalKB * 1024)
	}
	t := &thought{
		exact: exact{g.Key.Tool, g.Key.Arguments}, p: g.P, reason: string(why), begun: begun, until: r.until,
		value: ms(g.Latency.Mean()), tokens: int(estimate(size)),
	}
	if g.Model != nil && g.Model.Cost.Freshness > 0 {
		t.until = r.at.Add(g.Model.Cost.Freshness)
	}
	if whole > 0 {
		t.tokens = min(t.tokens, whole)
	}
	if len(r.thoughts) < keepThoughts {
		r.thoughts = append(r.thoughts, t)
		return
	}
	least := 0
	for i, other := range r.thoughts {
		if other.begun == nil && (r.thoughts[least].begun != nil || other.p < r.thoughts[least].p) {
			least = i
		}
	}
	if r.thoughts[least].begun == nil && (begun != nil || r.thoughts[least].p < g.P) {
		r.thoughts[least] = t
	}
}

// came notes a call: of the rounds that thought of it the one that had it begun, else
// the newest, is told. It returns the candidate that it was, which is to hear how long the call took.
func (f *pairState) came(tool, arguments string, at time.Time) *thought {
	var best *thought
	for _, r := range slices.Backward(f.rounds) {
		for _, t := range r.thoughts {
			if t.tool != tool || t.arguments != arguments || t.called || t.void || at.After(t.until) {
				continue
			}
			if best == nil || best.begun == nil && t.begun != nil {
				best = t
				best.lead = at.Sub(r.at)
			}
		}
	}
	if best != nil {
		best.called = true
	}
	return best
}

// void takes back what a write makes stale.
func (f *pairState) void(stale func(tool, arguments string) bool) {
	for _, r := range f.rounds {
		for _, t := range r.thoughts {
			t.void = t.void || !t.called && stale(t.tool, t.arguments)
		}
	}
}

// open is until when the guesses of the round may be of use.
func (r *round) open() time.Time {
	open := r.until
	for _, t := range r.thoughts {
		if t.begun != nil && !t.called && !t.void && t.until.After(open) {
			open = t.until
		}
	}
	return open
}

// judge records the rounds of which everything is known, the oldest first; all if the
// session has ended.
func (f *pairState) judge(v *sessionState, now time.Time, all bool, record func(events.Event)) {
	n := 0
	for _, r := range f.rounds {
		if !all && now.Before(r.open()) && len(f.rounds)-n <= keepRounds {
			break
		}
		record(r.event(v.s.name, f.at.Name(), now))
		for id, t := range f.called {
			if slices.Contains(r.thoughts, t) {
				delete(f.called, id) // its answer was not seen
			}
		}
		n++
	}
	f.rounds = slices.Delete(f.rounds, 0, n)
}

// event is what the record says of the round.
func (r *round) event(session, upstream string, now time.Time) events.Event {
	e := events.Event{
		Kind: events.Choice, At: r.at, Session: session, Upstream: upstream, After: r.after,
		Candidates: r.count, Issued: r.issued, Reasons: r.declined, Unresolved: now.Before(r.until), Top: r.top(),
	}
	open := r.count - r.issued
	for _, n := range r.declined {
		open -= n
	}
	if open > 0 { // they never got a place
		r.declined[string(enrich.Cap)] += open
	}
	var seen []enrich.Seen
	for _, t := range r.thoughts {
		seen = append(seen, t.seen())
		if t.called && t.begun == nil {
			e.LateCalled++
		}
	}
	e.BestMS, e.AchievedMS = enrich.Hindsight(seen, enrich.Bounds{Budget: r.budget, Slots: r.slots})
	e.AchievedMS = min(e.AchievedMS, e.BestMS) // slots that came free later are none of the choice's
	return e
}

// top are the likeliest candidates.
func (r *round) top() (top []events.Decision) {
	slices.SortStableFunc(r.thoughts, func(a, b *thought) int {
		return cmp.Or(cmp.Compare(b.p, a.p), strings.Compare(a.arguments, b.arguments))
	})
	for _, t := range r.thoughts[:min(keepTop, len(r.thoughts))] {
		top = append(top, events.Decision{
			Tool: clipped(t.tool), P: t.p, Reason: t.reason, ValueMS: t.value, Tokens: int64(t.tokens), Called: t.called,
		})
	}
	return top
}

// seen is the thought as it looks now.
func (t *thought) seen() enrich.Seen {
	took := t.took
	if t.begun != nil {
		took = t.begun.upstream()
	}
	return enrich.Seen{
		HidesMS: ms(min(took, t.lead)), Tokens: t.tokens, Called: t.called,
		Issued: t.begun != nil, Barred: t.begun == nil && barred(enrich.Reason(t.reason)),
	}
}

// barred reports whether a candidate that was declined for that reason could not have
// been chosen, however right it was.
func barred(why enrich.Reason) bool {
	switch why {
	case enrich.Gate, enrich.LowProbability, enrich.Budget, enrich.Cap, enrich.Throttled, enrich.Shadow:
		return false
	}
	return true
}
