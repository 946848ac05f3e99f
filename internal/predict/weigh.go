package predict

const (
	usualPrior    = 0.05 // probability of a follow-up of which nothing is known
	matchFeatures = 6
)

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
	var asked picked
	if g.list >= 0 {
		asked = g.e.lists[g.list]
	}
	return append(out, seed, template, aged, ranked, placed, placed.num(100+step(asked, g.rank)))
}

// weigh finds how likely a candidate is. The features of all its matches count: each is
// to learn from its label.
func (f *features) weigh(c *candidate) {
	k := &c.sample
	k.turn = f.s.turn
	if c.proposal != nil {
		k.base = stretch(f.configured(c))
	}
	if len(c.matches) > 0 {
		c.best = &c.matches[0]
		if c.proposal == nil {
			k.base = c.best.base()
		}
		again := f.s.times(c.key) > 0
		for i := range c.matches {
			from := len(k.features)
			if k.features = f.ofMatch(k.features, &c.matches[i], again); i > 0 {
				k.features = append(k.features[:from], k.features[from+1:]...) // the bias once
			}
		}
		k.features = f.ofCandidate(k.features, c)
		k.outcomes = append(k.outcomes, outcomes(c, again, f.s.turn)...)
	}
	c.logit = f.s.m.weights.logit(k.base, k.features)
}

// kind is a candidate's tool, with whether the session made the call before, and the
// kind of source that its arguments come from.
func (f *features) kind(c *candidate) hash {
	h := seed.str(c.tool).num(min(f.s.times(c.key), 2)).mix(seed)
	t := c.best.t
	if t.driver >= 0 {
		return h.str(t.sources[t.driver].Name).num(int(t.sources[t.driver].Dir))
	}
	for i := range t.sources {
		h = h.num(int(t.sources[i].From))
	}
	return h
}

// ofCandidate appends the features that a candidate has by what it is, and by what
// the session did of late.
func (f *features) ofCandidate(out []hash, c *candidate) []hash {
	g, s := c.best, f.s
	tool, kind := seed.str(c.tool), f.kind(c)
	source := int('t')
	if g.t.driver >= 0 {
		source = int(g.t.sources[g.t.driver].Name[0])
	}
	size, dist := min(bucket(g.size), 4), distance(s.turn-g.e.turn)
	near := 2 * f.near(c.value)
	if s.knows(c.value) {
		near++
	}
	turns := kind.mix(f.prev).mix(f.last)
	return append(out,
		tool.num(min(s.times(c.key), 2)).num(20),
		kind.num(dist).num(21),
		turns.num(22),
		turns.num(f.since).num(near).num(bucket(g.rank)).num(23),
		tool.mix(f.last).num(24),
		tool.mix(f.last).mix(f.prev).num(25),
		c.key.num(26), // successors in earlier sessions
		c.key.mix(f.last).num(27),
		tool.str(c.value).num(28),
		tool.num(source).str(c.value[:folderEnd(c.value)]).num(29),
		kind.num(size).num(dist).num(g.e.named(c.value)).num(near).num(30),
		kind.num(dist).num(f.beside(c.value)).mix(form(c.value)).num(31),
		kind.num(dist).num(bucket(s.turn)).num(bucket(f.reads)).num(32),
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
func step(a picked, rank int) int {
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
