package speculate

import (
	"cmp"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// Chooser chooses what one session prefetches from one upstream. The worker has one for
// each such pair; a replay has its own and decides by the same functions.
type Chooser struct {
	Session  *Session // nil: slots, levels and concurrency do not count
	Upstream uint64   // instance
	Parallel bool     // it is taken to work on several calls at once until it is seen not to: it is reached over HTTP

	waiting       []waitingCandidate
	foundAt       time.Time // when what waits was found, or what it follows: the last answer came
	expectedCalls float64   // how many of all that was found then are expected to be called
	budget        int       // tokens that are left of what the last answer may bring
}

// waitingCandidate is one that is worth it and lacks only a slot, or time.
type waitingCandidate struct {
	predict.Candidate
	why enrich.Reason // what it lacked when it was last looked at
}

// Verdict is what may be known of a candidate before it is made.
type Verdict struct {
	Query     dedup.Query
	Host      string        // whose limits count
	Reason    enrich.Reason // why it may not be made now; "": it may
	FileBytes int           // of the file that it reads; 0: it reads none
}

// World is what a chooser asks of candidates, and what it tells of them.
type Environment interface {
	// MayPrefetch says what stands in the way of a candidate at this moment.
	MayPrefetch(c *predict.Candidate) Verdict
	// Begin begins a prefetch, or says why not.
	Begin(c *predict.Candidate, v *Verdict) (refused string)
	// Declined is told of a candidate that is given up.
	Declined(c *predict.Candidate, why enrich.Reason)
}

// Open is how many candidates wait.
func (c *Chooser) Open() int { return len(c.waiting) }

// Offer has the candidates that follow an answer wait to be chosen, and gives up those
// that have waited since an earlier one. Their answers may take budget tokens in all.
func (c *Chooser) Offer(now time.Time, found []predict.Candidate, budget int, w Environment) {
	c.DropWaiting(w)
	c.foundAt, c.expectedCalls, c.budget = now, 0, budget
	c.Add(found)
}

// Add has more candidates wait, within the same budget.
func (c *Chooser) Add(found []predict.Candidate) {
	for i := range found {
		c.expectedCalls += found[i].P
		c.waiting = append(c.waiting, waitingCandidate{Candidate: found[i], why: enrich.Cap})
	}
}

// GiveUp declines what waits, for what it lacked last.
func (c *Chooser) DropWaiting(w Environment) {
	for i := range c.waiting {
		w.Declined(&c.waiting[i].Candidate, c.waiting[i].why)
	}
	c.waiting = nil
}

// Reprice cancels the prefetches under way that are not worth finishing by what is
// likely now: at least half as likely as would be needed to begin them, for a part of what
// they cost is spent.
func (c *Chooser) Reprice(now time.Time, found []predict.Candidate, minProbability float64) {
	type exact struct{ tool, arguments string }
	likely := make(map[exact]bool)
	for i := range found {
		if g := &found[i]; g.P >= minProbability/2 {
			likely[exact{g.Key.Tool, g.Key.Arguments}] = true
		}
	}
	c.Session.Reprice(now, func(k call.Key) bool {
		return k.Upstream != c.Upstream || likely[exact{k.Tool, k.Arguments}]
	})
}

// ChooseOptions bound one choice.
type ChooseOptions struct {
	enrich.Options               // its Slots and Budget are filled in
	Host           string        // of the upstream's calls in general
	Shadow         bool          // what is chosen is only watched
	Keep           time.Duration // for how long an answer is of use whose model does not say
}

// Choose picks from what waits, and begins it; at level 0, where nothing is begun, it
// watches what level 1 would begin. It returns how many slots there were.
func (c *Chooser) Choose(now time.Time, o ChooseOptions, w Environment) (slots int) {
	host := c.room(o.Host)
	o.Slots, o.Budget = host.slots, c.budget
	if o.Shadow {
		o.Slots = max(o.Slots, 1)
	}
	verdicts, rooms := make([]Verdict, len(c.waiting)), map[string]room{o.Host: host}
	all := make([]enrich.Candidate, len(c.waiting))
	for i := range c.waiting {
		all[i] = c.evaluate(now, &c.waiting[i].Candidate, &verdicts[i], rooms, &o, w)
	}
	picked := enrich.Pick(all, o.Options)
	c.budget -= picked.Tokens
	found := c.waiting
	c.waiting = nil
	watched := make(map[string]bool) // hosts at level 0 with a candidate that is watched
	for _, p := range picked.Choices {
		g, v := &found[p.Candidate].Candidate, &verdicts[p.Candidate]
		switch watch := rooms[v.Host].watch; {
		case watch && watched[v.Host]:
			w.Declined(g, enrich.Throttled)
		case watch || o.Shadow:
			watched[v.Host] = true
			c.watch(now, g, v, &o)
			w.Declined(g, enrich.Shadow)
		default:
			if refused := w.Begin(g, v); refused != "" {
				w.Declined(g, enrich.Reason(refused))
			}
		}
	}
	for _, d := range picked.Declined {
		g, v := &found[d.Candidate].Candidate, &verdicts[d.Candidate]
		lacks := d.Reason == enrich.Cap || d.Reason == enrich.Throttled
		switch {
		case lacks && rooms[v.Host].watch: // it is not what level 1 would begin
			w.Declined(g, enrich.Throttled)
		case lacks && g.Reason == "":
			c.waiting = append(c.waiting, waitingCandidate{*g, d.Reason})
		default:
			w.Declined(g, d.Reason)
		}
	}
	return o.Slots
}

// weigh is a candidate as enrich takes it, with what is known of it at this moment.
func (c *Chooser) evaluate(now time.Time, g *predict.Candidate, v *Verdict, rooms map[string]room, o *ChooseOptions, w Environment) enrich.Candidate {
	out := g.Candidate // its key is what tells it apart, if it is not asked about
	if g.Reason != "" && g.Reason != enrich.Shadow || !(g.P >= o.MinProbability) {
		return out
	}
	*v = w.MayPrefetch(g)
	if v.Query.Key != (call.Key{}) { // there is none for what cannot be made
		out.Key = v.Query.Key
	}
	if v.Reason != "" {
		out.Reason = v.Reason
		return out
	}
	r, known := rooms[v.Host]
	if !known {
		r = c.room(v.Host)
		rooms[v.Host] = r
	}
	out.WasteFactor, out.FileBytes = r.wasteFactor, v.FileBytes
	if !r.watch && (r.slots == 0 || c.delaysCalls(g, o.DefaultLead, now)) {
		out.Reason = enrich.Throttled
	}
	return out
}

// room is what the scheduler allows at a host.
type room struct {
	slots       int
	wasteFactor float64
	watch       bool
}

func (c *Chooser) room(host string) (r room) {
	if c.Session == nil {
		return room{slots: max(len(c.waiting), 1)}
	}
	r.slots, r.wasteFactor, r.watch = c.Session.Room(host, c.Upstream)
	return r
}

// inTheWay reports whether the prefetch is likely to cost other calls more than it saves. At
// an upstream that works on one call at a time, one that is not asked for has the session's next
// call wait, whatever that is, as far as it is not done by then; one that is asked for is
// joined, and costs nothing. A process of which nothing is known may be serial; a server of HTTP
// hardly is.
func (c *Chooser) delaysCalls(g *predict.Candidate, think time.Duration, now time.Time) bool {
	if c.Session == nil {
		return false
	}
	known, busy := c.Session.scheduler.instanceState(c.Upstream)
	if known.Is == Parallel || known.Is == Unknown && c.Parallel {
		return false
	}
	serial := 1 - known.mean()
	if known.Is == Serial {
		serial = 1
	}
	usual := enrich.Fixed(cmp.Or(think, defaultThink))
	lead, pause := cmp.Or(g.Lead, usual), cmp.Or(g.Pause, usual)
	if !busy { // else the model pauses once that call is answered, and the prefetch begins then
		pause = pause.Minus(now.Sub(c.foundAt))
	}
	saves := g.P * float64(g.Latency.Overlap(lead)) // nothing, where no call of the tool was seen: it is found out then
	next := g.P / max(1, c.expectedCalls)           // that it is the next call
	costs := serial * (1 - next) * float64(g.Latency.Excess(pause))
	return costs > float64(minHarmWait) && costs > saves
}

// usualThink is how long a model is taken to think where that is not known.
const defaultThink = 3 * time.Second

// watch notes what would have been begun, for as long as its answer would be of use.
func (c *Chooser) watch(now time.Time, g *predict.Candidate, v *Verdict, o *ChooseOptions) {
	if c.Session == nil {
		return
	}
	keep := o.Keep
	if g.Model != nil && g.Model.Cost.Freshness > 0 {
		keep = g.Model.Cost.Freshness
	}
	c.Session.Watch(now, v.Query.Key, v.Host, keep)
}
