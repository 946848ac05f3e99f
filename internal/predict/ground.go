package predict

import (
	"cmp"
	"slices"
)

// What the more general counts are worth in the more special ones, in labels.
const (
	toolWorth     = 4 // those of a tool, in a template
	templateWorth = 1
	agedWorth     = 2
	rankWorth     = 2
	placeWorth    = 3
	stepWorth     = 4
	byRank        = 0.4 // how much of the first guess is the rank's, the rest is the list's
	maxChance     = 0.9
)

// ground is one reason for a candidate: a template, the call that triggers it, and
// which value of the list that drives it.
type ground struct {
	t    *template
	e    *event
	rank int
	size int // of the list
	list int // which one of the call's result; -1: none
	odds
}

// odds say how likely a ground alone makes its candidate.
type odds struct {
	chance float64
	shared float64 // if all values of the list were equal
	ranked float64 // if the list's size did not matter
	in     reasons
}

// reasons are the contexts in which a ground's outcomes count: its tool and its
// template, which count lists; its rank, its place and its step, which count
// labels.
type reasons struct{ tool, template, aged, rank, place, step hash }

func (r *reasons) label(m *Model, share float32, hit bool) {
	for _, h := range []hash{r.tool, r.template, r.aged} {
		m.counts.label(h, hit, share)
	}
	for _, h := range []hash{r.rank, r.place, r.step} {
		m.counts.label(h, hit, 1)
	}
}

// weighing finds the odds of the values of one list.
type weighing struct {
	m      *Model
	in     reasons
	asks   float64 // for any value of a list
	list   asked
	placed int // bucket of the size
}

// weigh prepares the odds of what a template makes of a call. What was asked for
// before is another matter, so that is counted apart.
func (sc *scene) weigh(t *template, e *event, list, size int, again bool) weighing {
	w := weighing{m: sc.s.m, placed: bucket(size)}
	if list >= 0 {
		w.list = e.lists[list]
	}
	times := 0
	if again {
		times = 1
	}
	dist := distance(sc.s.turn - e.turn)
	w.in.tool = seed.str(t.target).num(times).num(dist)
	w.in.template = t.context().num(times)
	w.in.aged = w.in.template.num(dist)
	asks := w.m.counts.m[w.in.tool].mean(w.m.opt.Prior, toolWorth)
	asks = w.m.counts.m[w.in.template].mean(asks, templateWorth)
	w.asks = w.m.counts.m[w.in.aged].mean(asks, agedWorth)
	return w
}

// odds of the value of a rank. How many values of a list are asked for is known
// long before how many of those at rank 2 of 5 are: so the first guess is that of
// equal shares, halfway to what is known of the rank.
func (w *weighing) odds(rank, size int) odds {
	o := odds{in: w.in}
	r := bucket(rank)
	o.in.rank = o.in.aged.num(1000 + r)
	o.in.place = o.in.aged.num(r).num(w.placed)
	o.in.step = o.in.place.num(step(w.list, rank))
	c := w.m.counts.m
	o.shared = min(w.asks/float64(size), maxChance)
	o.ranked = c[o.in.rank].mean(o.shared, rankWorth)
	p := squash(stretch(o.shared)*(1-byRank) + stretch(o.ranked)*byRank)
	o.chance = c[o.in.step].mean(c[o.in.place].mean(p, placeWorth), stepWorth)
	return o
}

// trigger appends what the templates make of a call.
func (sc *scene) trigger(e *event, out []ground) []ground {
	if sc.s.m.opt.Static {
		return out
	}
	for _, t := range sc.s.m.templates[e.symbol] {
		if t.support.n < minSupport || e.turn != sc.s.turn && !t.anchored || !sc.target(t.target) {
			continue
		}
		list, size := t.list(e)
		w := sc.weigh(t, e, list, size, false)
		for rank := range min(size, t.deepest+3, maxRank) {
			out = append(out, ground{t, e, rank, size, list, w.odds(rank, size)})
		}
	}
	return out
}

// likeliest puts the grounds first that are worth making calls of, and returns how
// many. Of the others a few are taken by chance: the labels of those that were not
// thought likely tell when that changes.
func (sc *scene) likeliest(all []ground) int {
	slices.SortStableFunc(all, func(a, b ground) int { return cmp.Compare(b.chance, a.chance) })
	n := 0
	for i := range all {
		g := &all[i]
		if i < maxLearned && g.chance >= minChance || g.in.place.num(g.rank).num(sc.s.turn).num(sc.s.number)%oneIn == 0 {
			all[n] = *g
			n++
		}
	}
	return n
}

// again finds the odds anew of a ground of which the call was made before.
func (sc *scene) again(g *ground) {
	w := sc.weigh(g.t, g.e, g.list, g.size, true)
	g.odds = w.odds(g.rank, g.size)
}
