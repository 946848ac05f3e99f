package predict

import (
	"cmp"
	"math/bits"
	"path"
	"slices"
	"strings"
)

// scorer collects the candidates at one time, and holds what their scores have in common.
type scorer struct {
	s          *Session
	last, prev hash               // symbols of this turn and the previous one
	targets    map[string]*target // by tool
	recent     []pathPlace        // of the values of the newest calls
	found      []*candidate       // one per call
}

func (s *Session) scorer() *scorer {
	return &scorer{s: s, last: seed.str(s.last()), prev: seed.str(s.past), targets: map[string]*target{}, recent: s.recentPlaces()}
}

// target returns the cached target of a tool.
func (f *scorer) target(tool string) *target {
	t := f.targets[tool]
	if t == nil {
		t = f.s.m.target(tool)
		f.targets[tool] = t
	}
	return t
}

const matchFeatures = 5 + 2*maxTraits

// appendMatch appends the features of a match alone, from general to specific. Repeated
// calls have features of their own.
func (f *scorer) appendMatch(out []hash, g *match, again bool) []hash {
	template := g.t.id.num(2)
	if again {
		template = template.num(1)
	}
	aged := template.num(10 + turnBucket(f.s.turn-g.e.turn))
	ranked := aged.num(1000 + countBucket(g.rank))
	out = append(out, seed, template, aged, ranked, ranked.num(countBucket(g.size)))
	for _, trait := range g.traits() {
		out = append(out, template.mix(trait), seed.str(g.t.Target).mix(trait))
	}
	return out
}

// traits returns the traits of the list element that a match takes its value from.
func (g *match) traits() []hash {
	if g.t.follow != nil || g.t.Driver < 0 {
		return nil
	}
	list := g.e.values.lookup(g.t.Sources[g.t.Driver].Name)
	return g.e.values.traits[list.rank(g.rank).group]
}

// score computes the logit of a candidate from the features of all its matches, so that
// each match learns from the label. A feature of several matches counts once: two results that name
// a file say little more than one.
func (f *scorer) score(c *candidate) {
	k := &c.sample
	k.turn = f.s.turn
	if c.configured != nil {
		k.base = c.configured.base()
	} else {
		k.base = c.matches[0].base()
		k.by = ranked{trigger: c.matches[0].t.Trigger, id: c.matches[0].t.id}
	}
	k.again = f.s.times(c.key) > 0
	var space [matchFeatures]hash
	for i := range c.matches {
		g := &c.matches[i]
		for _, one := range f.appendMatch(space[:0], g, k.again) {
			if !slices.Contains(k.features, one) { // matches of one template share features
				k.features = append(k.features, one)
			}
		}
		o := ranked{g.t.Trigger, g.t.id, min(g.rank, len(g.t.Ranks)-1)}
		if !k.again && g.e.turn == f.s.turn && !slices.Contains(k.outcomes, o) {
			k.outcomes = append(k.outcomes, o)
		}
	}
	k.features = f.appendCandidate(k.features, c)
	values := len(k.features)
	k.features = appendValues(k.features, c)
	w := &f.s.m.learned.weights
	k.valuesLogit = w.logit(0, k.features[values:])
	k.logit = w.logit(k.base, k.features[:values]) + k.valuesLogit
	c.logit = min(k.logit, w.logit(k.logit, shrinkage(k.logit, k.valuesLogit, k.again))) // correct the optimism of selecting high values
}

// kind hashes a candidate's tool, how often the session made the call before, and the kind
// of source of its arguments.
func (f *scorer) kind(c *candidate) hash {
	h := seed.str(c.tool).num(min(f.s.times(c.key), 2)).mix(seed)
	switch t := c.primary().t; {
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

// appendCandidate appends the features of a candidate in the context of the session's recent
// calls.
func (f *scorer) appendCandidate(out []hash, c *candidate) []hash {
	g, s := c.primary(), f.s
	tool, kind := seed.str(c.tool), f.kind(c)
	size, dist := min(countBucket(g.size), 4), turnBucket(s.turn-g.e.turn)
	turns := kind.mix(f.prev).mix(f.last)
	if near := f.nearness(c.value); near > 0 {
		out = append(out, kind.num(near).num(33))
	}
	ahead, called := s.progress(g)
	if c.sample.ahead = min(ahead, maxAhead); ahead < 0 {
		c.sample.ahead = maxAhead
	}
	if called > 0 {
		out = append(out, kind.num(cmp.Compare(ahead, 0)).num(min(called, 3)).num(36))
	}
	if g.t.follow == nil { // shared by the tool's templates and by all, so that one rarely seen is as likely as such ones were
		support := min(bits.Len32(uint32(g.t.Support)), 7)
		out = append(out,
			tool.num(support).num(dist).num(size).num(34),
			seed.num(support).num(dist).num(size).num(35),
		)
	}
	return append(out,
		kind.num(dist).num(21),
		turns.num(22),
		turns.num(countBucket(g.rank)).num(23),
		tool.mix(f.last).num(24),
		tool.mix(f.last).mix(f.prev).num(25),
		kind.num(size).num(dist).num(30),
		kind.num(dist).num(countBucket(s.turn)).num(32),
	)
}

// maxAhead stands for all values that are that far ahead of the next one, or further, or before it.
const maxAhead = 3

// progress returns how many values of a match's list the session has called the target with since,
// and how far the match's value is ahead of the one after the last of these: negative if it is before
// it. A client that reads what a list names often does so in order.
func (s *Session) progress(g *match) (ahead, called int) {
	t := g.t
	if t.follow != nil || t.Driver < 0 {
		return 0, 0
	}
	source, name, next := &t.Sources[t.Driver], t.Names[t.Driver], 0
	list := g.e.values.lookup(source.Name)
	for _, e := range s.events {
		if e.turn <= g.e.turn || e.tool != t.Target {
			continue
		}
		if v, ok := e.arg(name); ok {
			if rank := source.rankOf(list, g.e, v); rank >= 0 {
				next, called = rank+1, called+1
			}
		}
	}
	return g.rank - next, called
}

// maxNear is the number of newest calls. A path is compared with their arguments.
const maxNear = 9

// pathPlace is where a value of a recent call is, if it is a path.
type pathPlace struct {
	value, dir, stem string
	newest           bool // of the session's newest call
}

// recentPlaces returns the places of the values of the session's newest calls.
func (s *Session) recentPlaces() (all []pathPlace) {
	first := max(0, len(s.events)-maxNear)
	for i, e := range s.events[first:] {
		for _, a := range e.args {
			if a.value.Kind == text {
				dir, stem := pathParts(a.value.Text)
				all = append(all, pathPlace{a.value.Text, dir, stem, first+i == len(s.events)-1})
			}
		}
	}
	return all
}

// nearness returns how close a path is to other values of recent calls: 4 if one has the same
// stem, as client.go and client_test.go have; 3 if one of the newest call is in the same
// directory, 2 if an older one is, and 1 if none is. It returns 0 for a value without a
// directory. Paths that end in a slash have the same, empty stem: to tell them apart predicted
// no better on recorded sessions.
func (f *scorer) nearness(value string) int {
	dir, stem := pathParts(value)
	if dir == "" {
		return 0
	}
	near := 1
	for _, other := range f.recent {
		switch {
		case other.value == value:
		case other.stem == stem:
			return 4
		case other.dir == dir && other.newest:
			near = 3
		case other.dir == dir:
			near = max(near, 2)
		}
	}
	return near
}

// pathParts returns the directory of a path, "" if it has none, and the name of its file
// without extensions and without the suffix of a test.
func pathParts(value string) (dir, stem string) {
	dir, name := path.Split(value)
	stem = name
	if before, _, ok := strings.Cut(name, "."); ok && before != "" {
		stem = before
	}
	return dir, strings.TrimSuffix(strings.TrimSuffix(stem, "_test"), "-test")
}

// appendValues appends the features of a candidate's values: the exact call, its longest
// value, and the directory of that value.
func appendValues(out []hash, c *candidate) []hash {
	tool, source := seed.str(c.tool), int('t')
	dir, _ := path.Split(c.value)
	if t := c.primary().t; t.Driver >= 0 {
		source = int(t.Sources[t.Driver].Name[0])
	}
	return append(out,
		c.key.num(26),
		tool.str(c.value).num(28),
		tool.num(source).str(dir).num(29),
	)
}

// countBucket maps a count to one of eight buckets.
func countBucket(n int) int {
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

// turnBucket maps a number of turns to one of five buckets.
func turnBucket(turns int) int {
	switch {
	case turns < 3:
		return max(turns, 0)
	case turns < 6:
		return 3
	}
	return 4
}
