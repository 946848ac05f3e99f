package predict

// scene is what all candidates of one moment have in common.
type scene struct {
	s          *Session
	last, prev string // symbols of this turn and the one before
	past       []string
	calls      int // of this turn, up to 4
	since      int // turns since answers were invalidated
	phase      int // how far into the session
}

func (s *Session) scene() *scene {
	sc := &scene{s: s, last: s.last(), prev: s.past[len(s.past)-1]}
	sc.past = append(append(sc.past, s.past...), sc.last)
	for i := len(s.events) - 1; i >= 0 && s.events[i].turn == s.turn; i-- {
		sc.calls++
	}
	sc.calls = min(sc.calls, 4)
	sc.since = distance(s.turn - s.invalidated)
	sc.phase = min(s.invalidations, 3)*8 + bucket(s.turn+1)
	return sc
}

// view is a candidate seen through its best ground.
type view struct {
	id      hash // of the template
	class   hash // of its kind of source
	kind    string
	rank    int // buckets, all of these
	size    int
	delta   int // from the last value of the list that was asked for
	dist    int // turns since the trigger
	hits    int // values of the list that were asked for
	asked   int
	touched int // whether the session knows the value
}

// judge finds the best ground of a candidate and its probability, and notes in k
// what its label will teach.
func (sc *scene) judge(d *draft, k *mark) (ground, float64) {
	best, second := sc.best(d, k)
	v := sc.view(d, best)
	sc.opine(d, v, k)
	if second > 0 {
		k.opinions[14] = stretch(second) - k.opinions[0]
	}
	k.sets = [3]string{
		d.tool + "/" + v.kind,
		d.tool + "@" + sc.last,
		d.tool + v.kind + string(rune('a'+v.dist)) + string(rune('a'+min(v.size, 4))),
	}
	sum := 0.0
	for _, set := range k.sets {
		sum += stretch(sc.s.m.weigh(set, &k.opinions))
	}
	return best, sc.s.m.calibrate(d.tool, v.asked, sum/float64(len(k.sets)), k)
}

// best is the ground by which alone the candidate is likeliest, and how likely it
// is by the next one.
func (sc *scene) best(d *draft, k *mark) (best ground, second float64) {
	first := -1.0
	for _, g := range d.grounds {
		p, in := sc.alone(g)
		k.contexts = append(k.contexts, in[:]...)
		if p > first {
			best, first, second = g, p, first
		} else {
			second = max(second, p)
		}
	}
	return best, second
}

// alone is how likely a candidate is by one of its grounds, and the contexts that
// say so: the template, then its rank, then how it was used so far.
func (sc *scene) alone(g ground) (p float64, in [3]hash) {
	in[0] = g.t.context()
	in[1] = in[0].num(bucket(g.rank)).num(bucket(g.size))
	in[2] = in[1].num(distance(sc.s.turn - g.e.turn)).num(step(g.asked(), g.rank))
	p = sc.s.m.opt.Prior / 10
	for _, h := range in {
		p = sc.s.m.counts.m[h].mean(p)
	}
	return p, in
}

// asked says which values of the list behind a ground were asked for.
func (g *ground) asked() asked {
	if g.t.driver < 0 {
		return asked{}
	}
	return g.e.lists[g.e.values.paths[g.t.sources[g.t.driver].Name]]
}

func (sc *scene) view(d *draft, g ground) view {
	v := view{rank: bucket(g.rank), asked: min(sc.s.times(d.key), 2)}
	text := value(d.arguments)
	v.touched = 2 * sc.s.near(text)
	if sc.s.knows(text) {
		v.touched++
	}
	v.kind, v.class, v.id = "t", seed, g.t.id
	v.size, v.dist = bucket(g.size), distance(sc.s.turn-g.e.turn)
	if g.t.driver < 0 {
		for _, src := range g.t.sources {
			v.class = v.class.num(int(src.From))
		}
		return v
	}
	src := &g.t.sources[g.t.driver]
	v.kind, v.class = src.Name[:1], v.class.str(src.Name).num(int(src.Dir))
	v.hits, v.delta = min(g.asked().count, 3), step(g.asked(), g.rank)
	return v
}

// opine collects what each context says, as the difference in logits to the more
// general one it refines: a context nothing was counted in says 0.
func (sc *scene) opine(d *draft, v view, k *mark) {
	m := sc.s.m
	ask := func(i int, h hash, parent float64) float64 {
		h = h.num(100 + i)
		k.contexts = append(k.contexts, h)
		p := m.counts.m[h].mean(parent)
		k.opinions[i] = stretch(p) - stretch(parent)
		return p
	}
	tool := seed.str(d.tool).num(v.asked)
	class := tool.mix(v.class)
	ranked := v.id.num(v.rank).num(v.delta).num(v.asked)

	base := ask(0, tool, m.opt.Prior)
	k.opinions[0] = stretch(base)
	edge := ask(1, tool.str(sc.last), base)
	byTemplate := ask(2, v.id.num(v.asked), base)
	byRank := ask(3, ranked, byTemplate)
	ask(4, ranked.num(v.dist).str(sc.last), byRank)
	ask(5, class.num(v.rank).num(v.delta).num(v.dist).num(v.size).num(v.touched), byTemplate)
	ask(6, class.str(sc.prev).str(sc.last), edge)
	ask(7, v.id.num(v.hits).num(v.delta).num(v.size).num(v.dist), byRank)
	ask(8, class.num(len(d.grounds)).num(v.dist).num(sc.calls).num(v.touched).num(min(v.size, 4)), byRank)
	exact := ask(9, d.key, byTemplate)
	ask(10, d.key.str(sc.last), exact)
	k.opinions[11] = stretch(m.order.next(sc.past, d.tool)) - stretch(m.order.next(nil, d.tool))
	ask(12, class.num(sc.since).num(sc.phase), byTemplate)
	ask(13, class.num(sc.since).str(sc.prev).str(sc.last).num(v.touched).num(v.rank), byTemplate)
	ask(15, seed.str(d.tool).str(value(d.arguments)), byTemplate)
	k.opinions[inputs-1] = 1
}

// calibrate puts a probability, given as a logit, where outcomes were: it looks up
// what came of the candidates that looked about as likely.
func (m *Model) calibrate(tool string, asked int, logit float64, k *mark) float64 {
	logit = min(max(logit, -8), 5)
	at := int(logit + 8) // whole steps above -8
	part := logit + 8 - float64(at)
	h := seed.str(tool).num(min(asked, 1)).num(-1)
	p := squash(logit)
	near := at
	if part > 0.5 {
		near++
	}
	k.contexts = append(k.contexts, h.num(near))
	shift := func(at int) float64 {
		q := squash(float64(at - 8))
		return stretch(m.counts.m[h.num(at)].mean(q)) - stretch(q)
	}
	return squash(stretch(p) + (1-part)*shift(at) + part*shift(at+1))
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
func step(a asked, rank int) int {
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
