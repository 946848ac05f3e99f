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
	Claims     *SessionClaims // nil to ignore slots, levels and concurrency
	Lease      *Lease         // at the last call
	Prefetcher Prefetcher

	waiting       []predict.Candidate // each with the reason why it was not begun at the last choice
	foundAt       time.Time           // when the last answer arrived, which the waiting candidates follow
	expectedCalls float64             // sum of the probabilities of the candidates found since then
	budget        int                 // tokens left for the answers to these candidates
}

// Prefetcher checks and begins the candidates of a Chooser.
type Prefetcher interface {
	// MayPrefetch returns the reason why a candidate must not be prefetched now, if any.
	MayPrefetch(c *predict.Candidate) Eligibility
	// Begin begins a prefetch, or returns why not.
	Begin(c *predict.Candidate, e *Eligibility) (refused enrich.Reason)
	// Declined reports a candidate that is dropped.
	Declined(c *predict.Candidate, why enrich.Reason)
}

// Replace replaces the waiting candidates with those that follow a new answer. It cancels the
// prefetches in progress that are no longer worth finishing: less than half as likely now as
// required to begin one, as part of their cost is already spent.
func (c *Chooser) Replace(now time.Time, found []predict.Candidate, rules *Rules) {
	type exact struct{ tool, arguments string }
	likely := make(map[exact]bool)
	for i := range found {
		if cand := &found[i]; cand.P >= rules.MinProbability/2 {
			likely[exact{cand.Key.Tool, cand.Key.Arguments}] = true
		}
	}
	if c.Claims != nil {
		c.Claims.DropUnless(now, func(k call.Key) bool {
			return k.Upstream != c.Lease.Instance || likely[exact{k.Tool, k.Arguments}]
		})
	}
	c.DropWaiting()
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
func (c *Chooser) DropWaiting() {
	for i := range c.waiting {
		c.Prefetcher.Declined(&c.waiting[i], cmp.Or(c.waiting[i].Reason, enrich.Cap))
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
func (c *Chooser) Choose(now time.Time, rules *Rules, at Situation) {
	rooms := map[string]Room{at.Host: c.room(now, at.Host)}
	o, shadow := rules.pickOptions(), rules.Mode == "shadow"
	o.Slots, o.Budget, o.DefaultLead = rooms[at.Host].Slots, c.budget, cmp.Or(at.Think, DefaultThink)
	o.Dollars, o.Keywords = rules.Dollars-at.Spent, at.Keywords
	if shadow {
		o.Slots = max(o.Slots, 1)
	}
	eligible, all := make([]Eligibility, len(c.waiting)), make([]enrich.Candidate, len(c.waiting))
	for i := range c.waiting {
		all[i] = c.assess(now, &c.waiting[i], &eligible[i], rooms, &o)
	}
	chosen, found := enrich.Pick(all, o), c.waiting
	c.waiting = nil
	shadowed := make(map[string]bool) // hosts at level 0 that already have a shadow
	for _, i := range chosen {
		cand, e := &found[i], &eligible[i]
		level0 := rooms[e.Host].Shadow
		switch {
		case level0 && shadowed[e.Host]:
			all[i].Reason = enrich.Throttled
		case level0 || shadow:
			shadowed[e.Host] = true
			c.addShadow(now, cand, e, rules.Age(c.Lease.Exclusive))
			all[i].Reason = enrich.Shadow
		default:
			all[i].Reason = c.Prefetcher.Begin(cand, e) // if slots at another host than the default one are taken, it waits
		}
		if level0 || shadow || all[i].Reason == "" {
			c.budget -= all[i].Tokens
		}
	}
	for i := range all {
		cand, why := &found[i], all[i].Reason
		switch deferrable := isDeferrable(why); {
		case why == "": // begun
		case deferrable && rooms[eligible[i].Host].Shadow: // level 1 would not begin it
			c.Prefetcher.Declined(cand, enrich.Throttled)
		case deferrable && cand.Reason == "":
			cand.Reason = why
			c.waiting = append(c.waiting, *cand)
		default:
			c.Prefetcher.Declined(cand, why)
		}
	}
}

// isDeferrable reports whether a candidate may only not begin yet: it lacks a slot, or a write may not
// show yet.
func isDeferrable(why enrich.Reason) bool {
	return why == enrich.Cap || why == enrich.Throttled || why == enrich.Settling
}

// assess checks a candidate, and returns it as input for enrich.Pick. It sets the eligibility of the
// candidate, and the room at its host.
func (c *Chooser) assess(now time.Time, cand *predict.Candidate, e *Eligibility, rooms map[string]Room, o *enrich.Options) enrich.Candidate {
	wasSettling := cand.Reason == enrich.Settling
	if isDeferrable(cand.Reason) {
		cand.Reason = ""
	}
	out := cand.Candidate
	if wasSettling { // little of its lead may be left; a lead of zero would mean that it is not known
		lead := cmp.Or(cand.Lead, enrich.Fixed(o.DefaultLead)).Minus(now.Sub(c.foundAt))
		out.Lead = cmp.Or(lead, enrich.Fixed(1))
	}
	if cand.Reason != "" && cand.Reason != enrich.Shadow || !(cand.P >= o.MinProbability) {
		return out
	}
	*e = c.Prefetcher.MayPrefetch(cand)
	if e.Reason != "" {
		out.Reason = e.Reason
		return out
	}
	r, known := rooms[e.Host]
	if !known {
		r = c.room(now, e.Host)
		rooms[e.Host] = r
	}
	out.WasteFactor, out.Bytes = r.WasteFactor, cmp.Or(e.FileBytes, out.Bytes)
	switch {
	case r.Shadow:
	case r.Slots == 0:
		out.Reason = r.Full
	case c.delaysCalls(cand, o.DefaultLead, now):
		out.Reason = enrich.Throttled
	}
	return out
}

// room is what the scheduler allows at a host.
func (c *Chooser) room(now time.Time, host string) Room {
	if c.Claims == nil {
		return Room{Slots: max(len(c.waiting), 1)}
	}
	return c.Claims.Room(now, host, c.Lease)
}

// delaysCalls reports whether the prefetch is likely to cost other calls more than it saves. A
// serial upstream makes the session's next call wait for whatever remains of a prefetch. If that
// call is the prefetched one, it joins the prefetch and loses nothing. A process with too little
// evidence may be serial; an HTTP server is assumed not to be.
func (c *Chooser) delaysCalls(cand *predict.Candidate, think time.Duration, now time.Time) bool {
	if c.Claims == nil {
		return false
	}
	usual := enrich.Fixed(think)
	lead, pause := cmp.Or(cand.Lead, usual), cmp.Or(cand.Pause, usual).Minus(now.Sub(c.foundAt))
	saves := cand.P * float64(cand.Latency.Overlap(lead)) // 0 for a tool without a call so far, to find out
	next := cand.P / max(1, c.expectedCalls)              // probability that it is the next call
	costs := c.Claims.scheduler.serialProbability(c.Lease) * (1 - next) * float64(cand.Latency.Excess(pause))
	return costs > float64(minHarmWait) && costs > saves
}

// addShadow records what would have been begun, for as long as its answer would be useful.
func (c *Chooser) addShadow(now time.Time, cand *predict.Candidate, e *Eligibility, keep time.Duration) {
	if c.Claims == nil {
		return
	}
	if cand.Model != nil {
		keep = cmp.Or(cand.Model.Cost.Freshness, keep)
	}
	c.Claims.Shadow(now, e.Query.Key, e.Query.Places, e.Host, keep)
}
