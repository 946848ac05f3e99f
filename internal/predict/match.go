package predict

import (
	"cmp"
	"math"
	"slices"

	"mcpschedd/internal/enrich"
)

// Bounds on what is looked at for one answer.
const (
	maxCandidates = 256
	maxBuilt      = 64 // learned matches of which calls are made
	maxMatches    = 4  // of one candidate
	maxSame       = 4  // remembered calls with the same symbol that may trigger
)

// match is one reason for a candidate: a template, the call that triggers it, and
// which value of the list that drives it.
type match struct {
	t         *template
	e         *event
	rank      int
	size      int     // of the list
	list      int     // which one of the call's result; noList, or unbound
	logit     float64 // how likely it is by itself
	arguments string  // of a configured one: the call that it makes
	over      bool    // of a configured one: that call was made since, or no rule allows it
}

const (
	noList  = -1
	unbound = -2 // the tool is another upstream's, or is none: there is no call
)

// candidate is a call that may come next, as it is put together.
type candidate struct {
	key        hash
	tool       string
	arguments  string
	value      string // what makes it what it is: its longest argument
	matches    []match
	configured *match // the newest one that is; nil: it was only learned
	free       bool   // one that is configured reads no result
	logit      float64
	sample     sample
}

// best is the match that says most: the likeliest one that was learned, else what is
// configured.
func (c *candidate) best() *match {
	for i := range c.matches {
		if c.matches[i].t.follow == nil {
			return &c.matches[i]
		}
	}
	return &c.matches[0]
}

// collector collects candidates, the same call once.
type collector struct{ all []*candidate }

// add adds a match to the candidate of a call.
func (c *collector) add(g *match, arguments, value string) {
	key := callHash(g.t.Target, arguments)
	i := slices.IndexFunc(c.all, func(one *candidate) bool { return one.key == key })
	if i < 0 {
		if len(c.all) >= maxCandidates {
			return
		}
		i = len(c.all)
		c.all = append(c.all, &candidate{key: key, tool: g.t.Target, arguments: arguments, value: value})
	}
	one := c.all[i]
	if f := g.t.follow; f != nil {
		one.free = one.free || f.independent && g.e.independent
		if one.configured == nil {
			one.configured = g
		}
	}
	twice := func(o match) bool { return o.e == g.e && o.rank == g.rank && o.size == g.size }
	if g.t.follow == nil && slices.ContainsFunc(one.matches, func(o match) bool { return o.t.follow == nil && twice(o) }) {
		return // a line that is a path stands in two lists, and is evidence once
	}
	if len(one.matches) < maxMatches {
		one.matches = append(one.matches, *g)
	}
}

// candidates are what is configured to follow the remembered calls, then what templates
// find in them, the newest call first.
func (f *features) candidates() []*candidate {
	all := f.s.m.matches[:0]
	same := map[string]int{}
	var c collector
	for _, e := range slices.Backward(f.s.events) {
		f.configured(e, &c)
		if e.values != nil && same[e.symbol] < maxSame {
			same[e.symbol]++
			all = f.learned(e, all)
		}
	}
	f.build(all, &c)
	f.s.m.matches = all[:0]
	return c.all
}

// following are the candidates that follow one call.
func (f *features) following(e *event) []*candidate {
	var c collector
	f.configured(e, &c)
	f.build(f.learned(e, nil), &c)
	return c.all
}

// configured collects the calls that are configured to follow one, and were not made since.
func (f *features) configured(e *event, c *collector) {
	for i := range e.follows {
		if g := &e.follows[i]; !g.over {
			_, slots, _ := split(g.arguments)
			c.add(g, g.arguments, longest(slots))
		}
	}
}

func longest(slots []slot) (value string) {
	for _, a := range slots {
		if a.value.kind == text && len(a.value.text) > len(value) {
			value = a.value.text
		}
	}
	return value
}

// learned appends what the templates find in a call.
func (f *features) learned(e *event, out []match) []match {
	m := f.s.m
	var space [matchFeatures]hash
	for _, t := range m.learned.templates[e.symbol] {
		if t.support.Now < minSupport || e.turn != f.s.turn && !t.anchored || !m.learned.mayUse(t, f.s.id) || !enrich.Speculatable(f.target(t.Target).Model) {
			continue
		}
		list, size := t.list(e)
		for rank := range min(size, t.Deepest+3, maxRank) {
			g := match{t: t, e: e, rank: rank, size: size, list: list}
			g.logit = m.learned.weights.logit(g.base(), f.ofMatch(space[:0], &g, false))
			out = append(out, g)
		}
	}
	return out
}

// usualPrior is the probability of a follow-up of which nothing is known.
const usualPrior = 0.05

// base is what is said of a match before anything is learned: what is configured, or
// that a call of few is likelier than one of many.
func (g *match) base() float64 {
	if f := g.t.follow; f != nil {
		return stretch(f.prior)
	}
	return stretch(usualPrior / math.Pow(float64(g.size), 0.7) / math.Pow(float64(1+g.rank), 0.5))
}

// build makes the calls of the likeliest learned matches.
func (f *features) build(all []match, c *collector) {
	likeliest := make([]*match, len(all))
	for i := range all {
		likeliest[i] = &all[i]
	}
	slices.SortFunc(likeliest, func(a, b *match) int {
		return cmp.Or(cmp.Compare(b.logit, a.logit), cmp.Compare(b.e.turn, a.e.turn), cmp.Compare(a.rank, b.rank), cmp.Compare(a.t.id, b.t.id), cmp.Compare(b.e.id, a.e.id))
	})
	for _, g := range likeliest[:min(len(likeliest), maxBuilt)] {
		if arguments, value, ok := g.t.produce(f.s, g.e, g.rank); ok {
			c.add(g, arguments, value)
		}
	}
}

// weighed gives the candidates their probabilities, and sorts them.
func (f *features) weighed(all []*candidate) []Candidate {
	out := make([]Candidate, 0, len(all))
	f.s.m.checks.reset()
	for _, c := range all {
		f.weigh(c)
		out = append(out, f.public(c))
	}
	slices.SortStableFunc(out, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.P, a.P), cmp.Compare(a.Why.Rank, b.Why.Rank), cmp.Compare(a.Key.Arguments, b.Key.Arguments))
	})
	return out
}
