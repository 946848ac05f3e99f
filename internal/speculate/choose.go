package speculate

import (
	"cmp"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// Chooser chooses what one session prefetches from one upstream. The worker has one for each
// such pair; replay uses the same Chooser.
type Chooser struct {
	Claims   *Claims // nil to ignore slots, levels and concurrency
	Upstream *Upstream

	waiting       []predict.Candidate // each with the reason why it was not begun at the last choice
	foundAt       time.Time           // when the last answer arrived, which the waiting candidates follow
	expectedCalls float64             // sum of the probabilities of the candidates found since then
	budget        int                 // tokens left for the answers to these candidates
}

// Environment checks and begins the candidates of a Chooser.
type Environment interface {
	// MayPrefetch returns the reason why a candidate must not be prefetched now, if any.
	MayPrefetch(c *predict.Candidate) Eligibility
	// Begin begins a prefetch, or returns why not.
	Begin(c *predict.Candidate, v *Eligibility) (refused enrich.Reason)
	// Declined reports a candidate that is dropped.
	Declined(c *predict.Candidate, why enrich.Reason)
}

// Replace replaces the waiting candidates with those that follow a new answer. It cancels the
// prefetches in progress that are no longer worth finishing: less than half as likely now as
// required to begin one, as part of their cost is already spent.
func (c *Chooser) Replace(now time.Time, found []predict.Candidate, rules *Rules, w Environment) {
	type exact struct{ tool, arguments string }
	likely := make(map[exact]bool)
	for i := range found {
		if g := &found[i]; g.P >= rules.MinProbability/2 {
			likely[exact{g.Key.Tool, g.Key.Arguments}] = true
		}
	}
	if c.Claims != nil {
		c.Claims.DropUnless(now, func(k call.Key) bool {
			return k.Upstream != c.Upstream.Instance || likely[exact{k.Tool, k.Arguments}]
		})
	}
	c.DropWaiting(w)
	c.foundAt, c.expectedCalls, c.budget = now, 0, rules.Budget
	c.Add(found)
}

// Add adds waiting candidates under the same budget.
func (c *Chooser) Add(found []predict.Candidate) {
	c.waiting = append(c.waiting, found...)
	for i := range found {
		c.expectedCalls += found[i].P
	}
}

// DropWaiting declines the waiting candidates, each for its last reason.
func (c *Chooser) DropWaiting(w Environment) {
	for i := range c.waiting {
		w.Declined(&c.waiting[i], cmp.Or(c.waiting[i].Reason, enrich.Cap))
	}
	c.waiting = nil
}

// Situation is what one choice depends on besides the rules.
type Situation struct {
	Host     string        // default host of the upstream's calls
	Spent    float64       // US dollars that the session's prefetches have cost
	Keywords []string      // of what the model is working on
	Think    time.Duration // assumed time between calls where it is not known; default 3 s
}

// DefaultThink is the assumed time between calls if it is not known.
const DefaultThink = 3 * time.Second

// Choose picks from the waiting candidates and begins the picked ones. At level 0 nothing is
// begun: what level 1 would begin becomes a shadow. In the mode "shadow" all that it picks does.
func (c *Chooser) Choose(now time.Time, rules *Rules, at Situation, w Environment) {
	rooms := map[string]Room{at.Host: c.room(now, at.Host)}
	o, shadow := rules.pickOptions(), rules.Mode == "shadow"
	o.Slots, o.Budget, o.DefaultLead = rooms[at.Host].Slots, c.budget, cmp.Or(at.Think, DefaultThink)
	o.Dollars, o.Keywords = rules.Dollars-at.Spent, at.Keywords
	if shadow {
		o.Slots = max(o.Slots, 1)
	}
	eligible, all := make([]Eligibility, len(c.waiting)), make([]enrich.Candidate, len(c.waiting))
	for i := range c.waiting {
		all[i] = c.input(now, &c.waiting[i], &eligible[i], rooms, &o, w)
	}
	chosen, found := enrich.Pick(all, o), c.waiting
	c.waiting = nil
	shadowed := make(map[string]bool) // hosts at level 0 that already have a shadow
	for _, i := range chosen {
		g, v := &found[i], &eligible[i]
		switch level0 := rooms[v.Host].Shadow; {
		case level0 && shadowed[v.Host]:
			w.Declined(g, enrich.Throttled)
		case level0 || shadow:
			shadowed[v.Host] = true
			c.addShadow(now, g, v, rules.Age(c.Upstream.Exclusive))
			w.Declined(g, enrich.Shadow)
		default:
			all[i].Reason = w.Begin(g, v) // if slots at another host than the default one are taken, it waits
		}
		if all[i].Reason == "" {
			c.budget -= all[i].Tokens
		}
	}
	for i := range all {
		g, v, why := &found[i], &eligible[i], all[i].Reason
		deferrable := isDeferrable(why)
		switch {
		case why == "": // begun, or a shadow
		case deferrable && rooms[v.Host].Shadow: // level 1 would not begin it
			w.Declined(g, enrich.Throttled)
		case deferrable && g.Reason == "":
			g.Reason = why
			c.waiting = append(c.waiting, *g)
		default:
			w.Declined(g, why)
		}
	}
}

// isDeferrable reports whether a candidate may only not begin yet: it lacks a slot, or a write may not
// show yet.
func isDeferrable(why enrich.Reason) bool {
	return why == enrich.Cap || why == enrich.Throttled || why == enrich.Settling
}

// input returns a candidate as input for enrich.Pick, with what is known about it now.
func (c *Chooser) input(
	now time.Time, g *predict.Candidate, v *Eligibility, rooms map[string]Room, o *enrich.Options, w Environment,
) enrich.Candidate {
	settled := g.Reason == enrich.Settling
	if isDeferrable(g.Reason) {
		g.Reason = ""
	}
	out := g.Candidate
	if settled { // little of its lead may be left; a lead of zero would mean that it is not known
		lead := cmp.Or(g.Lead, enrich.Fixed(o.DefaultLead)).Minus(now.Sub(c.foundAt))
		out.Lead = cmp.Or(lead, enrich.Fixed(1))
	}
	if g.Reason != "" && g.Reason != enrich.Shadow || !(g.P >= o.MinProbability) {
		return out
	}
	*v = w.MayPrefetch(g)
	if v.Reason != "" {
		out.Reason = v.Reason
		return out
	}
	r, known := rooms[v.Host]
	if !known {
		r = c.room(now, v.Host)
		rooms[v.Host] = r
	}
	out.WasteFactor, out.Bytes = r.WasteFactor, cmp.Or(v.FileBytes, out.Bytes)
	switch {
	case r.Shadow:
	case r.Slots == 0:
		out.Reason = r.Full
	case c.delaysCalls(g, o.DefaultLead, now):
		out.Reason = enrich.Throttled
	}
	return out
}

// room is what the scheduler allows at a host.
func (c *Chooser) room(now time.Time, host string) Room {
	if c.Claims == nil {
		return Room{Slots: max(len(c.waiting), 1)}
	}
	return c.Claims.Room(now, host, c.Upstream)
}

// delaysCalls reports whether the prefetch is likely to cost other calls more than it saves. A
// serial upstream makes the session's next call wait for whatever remains of a prefetch. If that
// call is the prefetched one, it joins the prefetch and loses nothing. A process with too little
// evidence may be serial; an HTTP server is assumed not to be.
func (c *Chooser) delaysCalls(g *predict.Candidate, think time.Duration, now time.Time) bool {
	if c.Claims == nil {
		return false
	}
	usual := enrich.Fixed(think)
	lead, pause := cmp.Or(g.Lead, usual), cmp.Or(g.Pause, usual).Minus(now.Sub(c.foundAt))
	saves := g.P * float64(g.Latency.Overlap(lead)) // 0 for a tool without a call so far, to find out
	next := g.P / max(1, c.expectedCalls)           // probability that it is the next call
	costs := c.Claims.serial(c.Upstream) * (1 - next) * float64(g.Latency.Excess(pause))
	return costs > float64(minHarmWait) && costs > saves
}

// serial returns the probability that an upstream is serial.
func (s *Claims) serial(up *Upstream) float64 {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	switch i := s.scheduler.instanceLocked(up); {
	case i.verdict == Parallel, i.verdict == Unknown && up.Remote:
		return 0
	case i.verdict == Serial:
		return 1
	default:
		return 1 - i.parallel()
	}
}

// addShadow records what would have been begun, for as long as its answer would be useful.
func (c *Chooser) addShadow(now time.Time, g *predict.Candidate, v *Eligibility, keep time.Duration) {
	if c.Claims == nil {
		return
	}
	if g.Model != nil {
		keep = cmp.Or(g.Model.Cost.Freshness, keep)
	}
	c.Claims.Shadow(now, v.Query.Key, v.Query.Places, v.Host, keep)
}
