package predict

// view is a candidate seen through its best ground: in buckets, where it is a
// number.
type view struct {
	tool   hash // with whether the session made the call before
	class  hash // of the kind of source, too
	source int  // what the path of its source begins with: $ for JSON, # for text
	rank   int
	size   int // up to 4
	dist   int // turns since the trigger
	near   int // how well the session knows the value
}

// judging is a candidate between its two looks: the second needs what the first
// made of the others in its list.
type judging struct {
	best   *ground
	second float64 // how likely it is by the next ground
	view   view
	logit  float64
	n      int // contexts asked
}

// judge is the first look at a candidate: by its grounds, then by what is known of
// calls like it. It notes in k what the label will teach.
func (sc *scene) judge(d *draft, k *mark) {
	m := sc.s.m
	times := min(sc.s.times(d.key), 2)
	for i := range d.grounds {
		g := &d.grounds[i]
		if times > 0 {
			sc.again(g)
		}
		k.grounds = append(k.grounds, reasoning{g.in, 1 / float32(g.size)})
		switch {
		case d.best == nil:
			d.best = g
		case g.chance > d.best.chance:
			d.second, d.best = d.best.chance, g
		default:
			d.second = max(d.second, g.chance)
		}
	}
	d.logit = stretch(d.best.chance)
	k.opinions[0] = d.logit
	v := sc.view(d, times)
	d.view = v
	turns := v.class.mix(sc.prev).mix(sc.last)
	d.lift(m, k, turns)
	d.lift(m, k, d.key)
	d.lift(m, k, d.key.mix(sc.last))
	d.lift(m, k, turns.num(sc.since).num(v.near).num(v.rank))
	d.lift(m, k, seed.str(d.tool).str(d.value))
	d.lift(m, k, v.class.num(v.size).num(v.dist).num(d.best.e.named(d.value)).num(v.near))
	d.lift(m, k, v.class.num(v.dist).num(sc.beside(d.value)).mix(form(d.value)))
	d.lift(m, k, seed.str(d.tool).num(v.source).str(d.value[:folderEnd(d.value)]))
	d.lift(m, k, v.class.num(v.dist).num(bucket(sc.s.turn)).num(bucket(sc.reads)))
}

// lift asks what came of the candidates of a context, beside what was expected of
// them when it was asked: it says only what the contexts before it do not.
func (d *draft) lift(m *Learner, k *mark, h hash) {
	h = h.num(100 + d.n)
	k.contexts[d.n], k.expected[d.n] = h, float32(squash(d.logit))
	if b, known := m.counts.m[h]; known {
		x := b.lift()
		k.opinions[1+d.n] = x
		d.logit += firstWeight(1+d.n) * x
	}
	d.n++
}

// finish is the second look at a candidate, which has a place among those of the
// same list: it weighs all opinions into the probability.
func (sc *scene) finish(d *draft, k *mark, place int) float64 {
	m := sc.s.m
	v := &d.view
	d.lift(m, k, v.class.num(v.size).num(v.dist).num(min(place, 3)))
	rest := k.opinions[1+lifts:]
	rest[0] = sc.next(d.tool)
	if d.second > 0 {
		rest[1] = stretch(d.second) - k.opinions[0]
	}
	rest[2] = stretch(d.best.shared) - k.opinions[0]
	rest[3] = stretch(d.best.ranked) - k.opinions[0]
	rest[4] = 1
	tool := seed.str(d.tool)
	k.sets = [sets]hash{
		tool.num(v.source),
		tool.mix(sc.last),
		tool.num(v.source).num(v.dist).num(v.size),
	}
	sum := 0.0
	for _, set := range k.sets {
		sum += m.weigh(set, &k.opinions)
	}
	return m.calibrate(v, sum/sets, k)
}

func (sc *scene) view(d *draft, times int) view {
	g := d.best
	v := view{
		tool: seed.str(d.tool).num(times), source: 't', rank: bucket(g.rank), size: min(bucket(g.size), 4),
		dist: distance(sc.s.turn - g.e.turn), near: 2 * sc.near(d.value),
	}
	if sc.s.knows(d.value) {
		v.near++
	}
	v.class = v.tool.mix(seed)
	if g.t.driver < 0 {
		for i := range g.t.sources {
			v.class = v.class.num(int(g.t.sources[i].From))
		}
		return v
	}
	src := &g.t.sources[g.t.driver]
	v.source = int(src.Name[0])
	v.class = v.class.str(src.Name).num(int(src.Dir))
	return v
}

// calibrate puts a probability, given as a logit, where outcomes were: it looks up
// what came of the candidates that looked about as likely, in their first turn or
// later.
func (m *Learner) calibrate(v *view, logit float64, k *mark) float64 {
	const least, most, worth = -8, 5, 4
	logit = min(max(logit, least), most)
	at := int(logit - least) // whole steps
	part := logit - least - float64(at)
	h := v.tool.num(v.source).num(min(v.dist, 1)).num(-1)
	k.step = h.num(at + int(part+0.5))
	shift := func(at int) float64 {
		q := squash(float64(at + least))
		return stretch(m.counts.m[h.num(at)].mean(q, worth)) - stretch(q)
	}
	return squash(logit + (1-part)*shift(at) + part*shift(at+1))
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
