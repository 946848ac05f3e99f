package predict

import "mcpschedd/internal/enrich"

// features are what the probabilities of all candidates of one moment are made of.
type features struct {
	s          *Session
	last, prev hash               // symbols of this turn and the one before
	since      int                // turns since answers were invalidated
	readers    int                // remembered calls that might have been run early
	targets    map[string]*target // by tool
}

func (s *Session) features() *features {
	f := &features{
		s: s, last: seed.str(s.last()), prev: seed.str(s.past), since: distance(s.turn - s.invalidated),
		targets: map[string]*target{},
	}
	for _, e := range s.events {
		if enrich.Speculatable(f.target(e.tool).Model) {
			f.readers++
		}
	}
	return f
}

// target is what is known of a tool.
func (f *features) target(tool string) *target {
	t := f.targets[tool]
	if t == nil {
		t = f.s.m.target(tool)
		f.targets[tool] = t
	}
	return t
}

const matchFeatures = 6

// ofMatch appends the features that a match has by itself, from the general to the
// special. What was asked for before is another matter, so that has its own.
func (f *features) ofMatch(out []hash, g *match, again bool) []hash {
	template := g.t.id.num(2)
	if again {
		template = template.num(1)
	}
	aged := template.num(10 + distance(f.s.turn-g.e.turn))
	ranked := aged.num(1000 + bucket(g.rank))
	placed := ranked.num(bucket(g.size))
	var asked usedRanks
	if g.list >= 0 {
		asked = g.e.usedLists[g.list]
	}
	return append(out, seed, template, aged, ranked, placed, placed.num(100+step(asked, g.rank)))
}

// weigh finds how likely a candidate is. The features of all its matches count: each is
// to learn from its label.
func (f *features) weigh(c *candidate) {
	k := &c.sample
	k.turn = f.s.turn
	if c.configured != nil {
		k.base = c.configured.base()
	} else {
		k.base = c.matches[0].base()
		k.from = c.matches[0].t
	}
	again := f.s.times(c.key) > 0
	for i := range c.matches {
		g := &c.matches[i]
		from := len(k.features)
		if k.features = f.ofMatch(k.features, g, again); i > 0 {
			k.features = append(k.features[:from], k.features[from+1:]...) // the bias once
		}
		if !again && g.e.turn == f.s.turn {
			k.outcomes = append(k.outcomes, &g.t.ranks[min(g.rank, len(g.t.ranks)-1)])
		}
	}
	k.features = f.ofCandidate(k.features, c)
	values := len(k.features)
	k.features = ofValues(k.features, c)
	w := &f.s.m.learned.weights
	k.ofValues = w.logit(0, k.features[values:])
	k.logit = w.logit(k.base, k.features[:values]) + k.ofValues
	c.logit = min(k.logit, w.logit(k.logit, memory(k.logit, k.ofValues))) // what is picked for being high is too high, if anything
}

// kind is a candidate's tool, with whether the session made the call before, and the
// kind of source that its arguments come from.
func (f *features) kind(c *candidate) hash {
	h := seed.str(c.tool).num(min(f.s.times(c.key), 2)).mix(seed)
	switch t := c.best().t; {
	case t.follow != nil:
		return h.mix(t.id)
	case t.Driver >= 0:
		return h.str(t.Sources[t.Driver].Name).num(int(t.Sources[t.Driver].Dir))
	default:
		for i := range t.Sources {
			h = h.num(int(t.Sources[i].From))
		}
		return h
	}
}

// ofCandidate appends the features that a candidate has by what it is, and by what
// the session did of late.
func (f *features) ofCandidate(out []hash, c *candidate) []hash {
	g, s := c.best(), f.s
	tool, kind := seed.str(c.tool), f.kind(c)
	size, dist := min(bucket(g.size), 4), distance(s.turn-g.e.turn)
	named := 0 // whether its value stood in an argument
	if s.touched.Contains(seed.str(c.value)) {
		named = 1
	}
	turns := kind.mix(f.prev).mix(f.last)
	return append(out,
		kind.num(dist).num(21),
		turns.num(22),
		turns.num(f.since).num(named).num(bucket(g.rank)).num(23),
		tool.mix(f.last).num(24),
		tool.mix(f.last).mix(f.prev).num(25),
		kind.num(size).num(dist).num(named).num(30),
		kind.num(dist).num(bucket(s.turn)).num(bucket(f.readers)).num(32),
	)
}

// ofValues appends the features by which the values of a candidate are remembered: the call,
// its longest value, and the folder of that.
func ofValues(out []hash, c *candidate) []hash {
	tool, source := seed.str(c.tool), int('t')
	if t := c.best().t; t.Driver >= 0 {
		source = int(t.Sources[t.Driver].Name[0])
	}
	return append(out,
		c.key.num(26),
		tool.str(c.value).num(28),
		tool.num(source).str(c.value[:dirEnd(c.value)]).num(29),
	)
}

// bucket puts a count into one of eight.
func bucket(n int) int {
	switch {
	case n < 4:
		return max(n, 0)
	case n < 6:
		return 4
	case n < 10:
		return 5
	case n < 20:
		return 6
	}
	return 7
}

// distance puts a number of turns into one of five.
func distance(turns int) int {
	switch {
	case turns < 3:
		return max(turns, 0)
	case turns < 6:
		return 3
	}
	return 4
}

// step says how far a rank is from the last one of the list that was asked for.
func step(a usedRanks, rank int) int {
	switch d := rank - int(a.last); {
	case a.count == 0:
		return 0
	case d == 1:
		return 1
	case d <= 0:
		return 2
	case d <= 3:
		return 3
	}
	return 4
}
