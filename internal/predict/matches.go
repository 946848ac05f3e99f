package predict

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Bounds on what is looked at for one answer.
const (
	maxCandidates = 256
	maxLearned    = 64 // matches of which calls are made
	maxMatches    = 4  // of one candidate
	maxSame       = 4  // remembered calls with the same symbol that may trigger
)

// match is one reason for a candidate: a template, the call that triggers it, and
// which value of the list that drives it.
type match struct {
	t     *template
	e     *event
	rank  int
	size  int     // of the list
	list  int     // which one of the call's result; -1: none
	logit float64 // how likely it is by itself
}

// candidate is a call that may come next, as it is put together.
type candidate struct {
	key       hash
	tool      string
	arguments string
	value     string // what makes it what it is: its longest argument
	matches   []match
	best      *match
	logit     float64
	proposal  *proposal // nil if no follow-up is configured to make it
	after     *event    // the call it was proposed after
	free      bool      // one of its proposals is
	sample    sample
}

// Match is an exact call that may come next.
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

// Candidates are the calls that may come next, the likeliest first. Each will get
// its label from what the session does, whether it is issued or not.
func (s *History) Candidates(now time.Time) []Match {
	if !s.begun {
		return nil
	}
	f := s.features()
	all := f.candidates()
	out := f.weighed(all)
	if !s.lone {
		for _, c := range all {
			c.sample.at = now
			s.wait(c)
		}
	}
	return out
}

// candidates are what was proposed after the remembered calls, then what templates
// find in them, the newest call first.
func (f *features) candidates() []*candidate {
	var c collector
	for _, e := range slices.Backward(f.s.events) {
		c.propose(e)
	}
	m := f.s.m
	all := m.matches[:0]
	same := map[string]int{}
	for _, e := range slices.Backward(f.s.events) {
		if e.values != nil && same[e.symbol] < maxSame {
			same[e.symbol]++
			all = f.match(e, all)
		}
	}
	f.build(all, &c)
	m.matches = all[:0]
	return c.all
}

// collector collects candidates, the same call once.
type collector struct{ all []*candidate }

// candidate is that of a call; nil if there are too many.
func (c *collector) candidate(tool, arguments string) *candidate {
	key := callHash(tool, arguments)
	for _, one := range c.all {
		if one.key == key {
			return one
		}
	}
	if len(c.all) >= maxCandidates {
		return nil
	}
	one := &candidate{key: key, tool: tool, arguments: arguments}
	c.all = append(c.all, one)
	return one
}

// match appends what the templates find in a call.
func (f *features) match(e *event, out []match) []match {
	m := f.s.m
	if m.opt.Static {
		return out
	}
	var space [matchFeatures]hash
	for _, t := range m.templates[e.symbol] {
		if t.support.now < minSupport || !t.mayFollow(f.s.id) || e.turn != f.s.turn && !t.anchored || !f.target(t.target) {
			continue
		}
		list, size := t.list(e)
		for rank := range min(size, t.deepest+3, maxRank) {
			one := match{t: t, e: e, rank: rank, size: size, list: list}
			one.logit = m.weights.logit(one.base(), f.ofMatch(space[:0], &one, false))
			out = append(out, one)
		}
	}
	return out
}

// base is what is said of a match before anything is learned: a call of few is
// likelier than one of many.
func (g *match) base() float64 {
	return stretch(usualPrior / math.Pow(float64(g.size), 0.7) / math.Pow(float64(1+g.rank), 0.5))
}

// likeliest returns the matches of which calls are made, the likeliest first.
func likeliest(all []match) []*match {
	out := make([]*match, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	slices.SortFunc(out, func(a, b *match) int {
		return cmp.Or(cmp.Compare(b.logit, a.logit), cmp.Compare(b.e.turn, a.e.turn), cmp.Compare(a.rank, b.rank), cmp.Compare(a.t.id, b.t.id), cmp.Compare(b.e.id, a.e.id))
	})
	return out[:min(len(out), maxLearned)]
}

// build makes the calls of the likeliest matches.
func (f *features) build(all []match, c *collector) {
	for _, g := range likeliest(all) {
		arguments, value, ok := g.t.produce(f.s, g.e, g.rank)
		if !ok {
			continue
		}
		if one := c.candidate(g.t.target, arguments); one != nil && len(one.matches) < maxMatches {
			one.value = value
			one.matches = append(one.matches, *g)
		}
	}
}

// weighed gives the candidates their probabilities, and sorts them.
func (f *features) weighed(all []*candidate) []Match {
	out := make([]Match, 0, len(all))
	for _, c := range all {
		f.weigh(c)
		out = append(out, f.found(c))
	}
	slices.SortFunc(out, func(a, b Match) int {
		return cmp.Or(cmp.Compare(b.P, a.P), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.key, b.key))
	})
	return out
}

func (f *features) found(c *candidate) Match {
	out := Match{Tool: c.tool, Arguments: c.arguments, Asked: f.s.times(c.key), Free: c.free, key: c.key, P: squash(c.logit)}
	if g := c.best; g != nil {
		out.Trigger, out.Follows, out.Rank = g.e.symbol, g.e.id, g.rank
		c.sample.edge = edgeName{out.Trigger, out.Tool}
		out.Shadow = c.proposal == nil && f.s.m.shadow(c.sample.edge)
	}
	if p := c.proposal; p != nil {
		out.Trigger, out.Follows, out.Rank, out.Edge = c.after.symbol, c.after.id, p.Rank, p.Edge
		if f.s.m.opt.Static {
			out.P = p.Prior
		}
	}
	return out
}
