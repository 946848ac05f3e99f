package predict

import (
	"cmp"
	"math"
	"slices"

	"mcpschedd/internal/enrich"
)

// Bounds on the candidates after one result.
const (
	maxCandidates = 256
	maxBuilt      = 192 // learned matches from which calls are built
	maxBuiltOf    = 128 // those of one tool
	maxMatches    = 4   // matches per candidate
	maxPerSymbol  = 4   // remembered triggers with the same symbol
)

// match is one reason for a candidate: a template, its trigger, and the rank in its driving
// list.
type match struct {
	t         *template
	e         *event
	rank      int
	size      int     // of the driving list
	logit     float64 // logit of the match alone
	arguments string  // of a configured match: arguments of its call
	done      bool    // of a configured match: the call was made since
}

// candidate is a call that may come next, while it is being built.
type candidate struct {
	key         hash
	tool        string
	arguments   string
	value       string // longest text argument
	matches     []match
	configured  *match // newest configured match; nil if it is only learned
	independent bool   // a configured match uses no result
	logit       float64
	p           float64
	sample      sample
}

// primary returns the most probable learned match, else the first configured one.
func (c *candidate) primary() *match {
	for i := range c.matches {
		if c.matches[i].t.follow == nil {
			return &c.matches[i]
		}
	}
	return &c.matches[0]
}

// add adds a match to the candidate for a call.
func (f *scorer) add(g *match, arguments, value string) {
	key := callHash(g.t.Target, arguments)
	i := slices.IndexFunc(f.found, func(one *candidate) bool { return one.key == key })
	if i < 0 {
		if len(f.found) >= maxCandidates {
			return
		}
		i = len(f.found)
		f.found = append(f.found, &candidate{key: key, tool: g.t.Target, arguments: arguments, value: value})
	}
	one := f.found[i]
	if follow := g.t.follow; follow != nil {
		one.independent = one.independent || follow.independent && g.e.independent
		if one.configured == nil {
			one.configured = g
		}
	}
	twice := func(o match) bool { return o.e == g.e && o.rank == g.rank && o.size == g.size }
	if g.t.follow == nil && slices.ContainsFunc(one.matches, func(o match) bool { return o.t.follow == nil && twice(o) }) {
		return // the same value in two lists, such as a line that is a path, counts once
	}
	if len(one.matches) < maxMatches {
		one.matches = append(one.matches, *g)
	}
}

// collect collects the candidates of the configured follow-ups and of the template matches of some
// calls, the newest call first.
func (f *scorer) collect(events []*event) {
	var all []match
	same := map[string]int{}
	for _, e := range slices.Backward(events) {
		f.addConfigured(e)
		if e.values != nil && same[e.symbol] < maxPerSymbol {
			same[e.symbol]++
			all = f.templateMatches(e, all)
		}
	}
	f.build(all)
}

// addConfigured collects the configured follow-ups of a call that are not done.
func (f *scorer) addConfigured(e *event) {
	for i := range e.follows {
		if g := &e.follows[i]; !g.done {
			_, slots, _ := split(g.arguments)
			f.add(g, g.arguments, longest(slots))
		}
	}
}

func longest(slots []slot) (value string) {
	for _, a := range slots {
		if a.value.Kind == text && len(a.value.Text) > len(value) {
			value = a.value.Text
		}
	}
	return value
}

// templateMatches appends the matches of the templates that a call triggers.
func (f *scorer) templateMatches(e *event, out []match) []match {
	m := f.s.m
	if !m.opt.Learn {
		return out
	}
	var space [matchFeatures]hash
	for _, t := range m.learned.templates[e.symbol] {
		if t.Support < minSupport || e.turn != f.s.turn && !t.anchored || !m.learned.mayUse(t, f.s.id) || !enrich.Speculatable(f.target(t.Target).Model) {
			continue
		}
		size := t.size(e)
		for rank := range min(size, t.Deepest+3, maxRank) {
			g := match{t: t, e: e, rank: rank, size: size}
			g.logit = m.learned.weights.logit(g.base(), f.appendMatch(space[:0], &g, false))
			out = append(out, g)
		}
	}
	return out
}

// defaultPrior is the probability of a follow-up before anything is learned about it.
const defaultPrior = 0.05

// base returns the prior logit of a match: the configured probability, or one that decreases
// with the size of the list and the rank.
func (g *match) base() float64 {
	if f := g.t.follow; f != nil {
		return logitOf(f.prior)
	}
	return logitOf(defaultPrior / math.Pow(float64(g.size), 0.7) / math.Pow(float64(1+g.rank), 0.5))
}

// build builds the calls of the most probable learned matches. Those of one tool leave room for others,
// as a match is not all that makes a call probable.
func (f *scorer) build(all []match) {
	likeliest := make([]*match, len(all))
	for i := range all {
		likeliest[i] = &all[i]
	}
	slices.SortFunc(likeliest, func(a, b *match) int {
		return cmp.Or(cmp.Compare(b.logit, a.logit), cmp.Compare(b.e.turn, a.e.turn), cmp.Compare(a.rank, b.rank), cmp.Compare(a.t.id, b.t.id), cmp.Compare(b.e.id, a.e.id))
	})
	built, builtOf := 0, map[string]int{}
	for _, g := range likeliest {
		if built == maxBuilt {
			break
		}
		if builtOf[g.t.Target] == maxBuiltOf {
			continue
		}
		built, builtOf[g.t.Target] = built+1, builtOf[g.t.Target]+1
		if arguments, value, ok := g.t.produce(f.s, g.e, g.rank); ok {
			f.add(g, arguments, value)
		}
	}
}

// rank scores the candidates and sorts them by probability.
func (f *scorer) rank() []Candidate {
	out := make([]Candidate, 0, len(f.found))
	for _, c := range f.found {
		f.score(c)
		out = append(out, f.export(c))
	}
	slices.SortStableFunc(out, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.P, a.P), cmp.Compare(a.Why.Rank, b.Why.Rank), cmp.Compare(a.Key.Arguments, b.Key.Arguments))
	})
	return out
}
