package predict

import (
	"cmp"
	"slices"
	"time"
)

// Bounds on what is thought of at once.
const (
	maxCandidates = 256
	maxLearned    = 64     // grounds of which calls are made
	minChance     = 0.0002 // of such a ground
	oneIn         = 64     // of the others is taken all the same
	maxGrounds    = 4      // of one candidate
	maxSame       = 4      // remembered calls with the same symbol that may trigger
)

// Candidate is an exact call that may come next.
type Match struct {
	Tool      string
	Arguments string  // canonical
	P         float64 // that it is made before its answer would expire or be invalidated
	Trigger   string  // the tool it follows, with a ! if that call failed
	Follows   uint64  // ID of the call it follows; 0 if that one is only supposed
	Edge      string  // of the proposal it comes from; "" if it was learned
	Free      bool    // a proposal of which no argument was read off a result or learned
	Rank      int     // in the list its argument comes from
	Asked     int     // how often this session has made it already
	Shadow    bool    // its edge has still to prove itself: to be scored, not issued
	key       hash
}

// draft is a candidate that is still to be judged.
type draft struct {
	key       hash
	tool      string
	arguments string
	value     string // what makes it what it is: its longest argument
	grounds   []ground
	proposal  *proposal // nil if nobody proposed it
	after     *event    // the call it was proposed after
	free      bool      // one of its proposals is
	mark      mark
	judging
}

// Candidates are the calls that may come next, the likeliest first. Each will get
// its label from what the session does, whether it is issued or not.
func (s *History) Candidates(now time.Time) []Match {
	if !s.begun {
		return nil
	}
	sc := s.scene()
	drafts := sc.drafts()
	out := sc.candidates(drafts)
	if !s.lone {
		for _, d := range drafts {
			d.mark.at = now
			s.wait(d)
		}
	}
	return out
}

// candidates judges drafts.
func (sc *scene) candidates(drafts []*draft) []Match {
	for _, d := range drafts {
		d.mark.turn = sc.s.turn
		if len(d.grounds) > 0 {
			sc.judge(d, &d.mark)
		}
	}
	out := make([]Match, 0, len(drafts))
	for _, d := range drafts {
		out = append(out, sc.candidate(d, drafts))
	}
	slices.SortFunc(out, func(a, b Match) int {
		return cmp.Or(cmp.Compare(b.P, a.P), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.key, b.key))
	})
	return out
}

func (sc *scene) candidate(d *draft, all []*draft) Match {
	c := Match{Tool: d.tool, Arguments: d.arguments, Asked: sc.s.times(d.key), Free: d.free, key: d.key}
	if g := d.best; g != nil {
		c.P = sc.finish(d, &d.mark, d.place(all))
		c.Trigger, c.Follows, c.Rank = g.e.symbol, g.e.id, g.rank
		d.mark.edge = edgeName{c.Trigger, c.Tool}
		c.Shadow = d.proposal == nil && sc.s.m.shadow(d.mark.edge)
	}
	d.mark.p = c.P
	if d.proposal != nil {
		c.P = sc.joined(d, c.P)
		c.Trigger, c.Follows, c.Rank, c.Edge = d.after.symbol, d.after.id, d.proposal.Rank, d.proposal.Edge
	}
	return c
}

// place is how many others of the same list are likelier at the first look.
func (d *draft) place(all []*draft) int {
	if d.best.t.driver < 0 {
		return 0
	}
	n := 0
	for _, o := range all {
		if o.best != nil && o.logit > d.logit && o.best.e == d.best.e && o.best.list == d.best.list {
			n++
		}
	}
	return n
}

// drafting collects drafts, the same call once.
type drafting struct{ out []*draft }

// draft is the draft of a call; nil if there are too many.
func (c *drafting) draft(tool, arguments string) *draft {
	key := callHash(tool, arguments)
	for _, d := range c.out {
		if d.key == key {
			return d
		}
	}
	if len(c.out) >= maxCandidates {
		return nil
	}
	d := &draft{key: key, tool: tool, arguments: arguments}
	c.out = append(c.out, d)
	return d
}

// drafts collects what was proposed after the remembered calls, then what they
// trigger, the newest first.
func (sc *scene) drafts() []*draft {
	var c drafting
	for _, e := range slices.Backward(sc.s.events) {
		c.propose(e)
	}
	m := sc.s.m
	all := m.grounds[:0]
	same := map[string]int{}
	for _, e := range slices.Backward(sc.s.events) {
		if e.values != nil && same[e.symbol] < maxSame {
			same[e.symbol]++
			all = sc.trigger(e, all)
		}
	}
	sc.build(all, &c)
	m.grounds = all[:0]
	return c.out
}

// build makes the calls of the likeliest grounds.
func (sc *scene) build(all []ground, c *drafting) {
	for _, g := range likeliest(all) {
		arguments, value, ok := g.t.produce(sc.s, g.e, g.rank)
		if !ok {
			continue
		}
		if d := c.draft(g.t.target, arguments); d != nil && len(d.grounds) < maxGrounds {
			d.value = value
			d.grounds = append(d.grounds, *g)
		}
	}
}
