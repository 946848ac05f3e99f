package predict

import (
	"cmp"
	"slices"
)

// What the more general counts are worth in the more special ones, in labels.
const (
	priorWorth = 4   // the configured prior, for a tool
	toolWorth  = 1   // what is known of a tool, for a template
	agedWorth  = 2   // of a template, for its age
	listWorth  = 2   // of a list, for a rank
	rankWorth  = 3   // of a rank, for a place
	placeWorth = 3   // of a place, for a step
	byRank     = 0.4 // how much of the first guess is the rank's; the rest is the list's
	maxChance  = 0.9
)

// ground is one reason for a candidate: a template, the call that triggers it, and
// which value of the list that drives it.
type ground struct {
	t        *template
	e        *event
	rank     int
	size     int  // of the list
	list     int  // which one of the call's result; -1: none
	byChance bool // and not because it is likely
	odds
}

// odds say how likely a ground alone makes its candidate.
type odds struct {
	chance float64
	shared float64 // if all values of the list were equal
	ranked float64 // if the list's size did not matter
	in     contextSet
}

// reasons are the contexts in which a ground's outcomes count, from the general to
// the special. Of the first three n is lists, of the others labels.
type contextSet struct {
	tool     hash
	template hash
	aged     hash // the template, that many turns after its trigger
	rank     hash // whatever the size of the list
	place    hash // rank and size
	step     hash // place, and how far it is from what was asked for last
}

func (r *contextSet) label(m *Learner, share float32, hit bool) {
	for _, h := range []hash{r.tool, r.template, r.aged} {
		m.counts.label(h, hit, share)
	}
	for _, h := range []hash{r.rank, r.place, r.step} {
		m.counts.label(h, hit, 1)
	}
}

// weighing finds the odds of the values of one list.
type weighing struct {
	m            *Learner
	in           contextSet
	asks         float64 // for any value of a list
	list         picked
	size         int
	last         odds // that were found
	bucket, step int  // of them
}

// prepare begins to weigh what a template makes of a call. What was asked for
// before is another matter, so that is counted apart.
func (sc *scene) prepare(t *template, e *event, list, size int, again bool) weighing {
	w := weighing{m: sc.s.m, size: size}
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
	asks := w.m.counts.m[w.in.tool].mean(w.m.opt.Prior, priorWorth)
	asks = w.m.counts.m[w.in.template].mean(asks, toolWorth)
	w.asks = w.m.counts.m[w.in.aged].mean(asks, agedWorth)
	return w
}

// odds of the value of a rank. How many values of a list are asked for is known
// long before how many of those at rank 2 of 5 are: so the first guess is that of
// equal shares, part of the way to what is known of the rank.
func (w *weighing) odds(rank int) *odds {
	r, st := bucket(rank), step(w.list, rank)
	o := &w.last
	if o.chance > 0 && r == w.bucket && st == w.step {
		return o
	}
	w.bucket, w.step = r, st
	o.in = w.in
	o.in.rank = o.in.aged.num(1000 + r)
	o.in.place = o.in.aged.num(r).num(bucket(w.size))
	o.in.step = o.in.place.num(st)
	c := w.m.counts.m
	o.shared = min(w.asks/float64(w.size), maxChance)
	o.ranked = c[o.in.rank].mean(o.shared, listWorth)
	p := squash(stretch(o.shared)*(1-byRank) + stretch(o.ranked)*byRank)
	if st > 0 { // otherwise both are the same, and would count twice
		p = c[o.in.place].mean(p, rankWorth)
	}
	o.chance = c[o.in.step].mean(p, placeWorth)
	return o
}

// trigger appends the grounds that the templates find in a call and that are worth
// making calls of. Of the others a few are taken by chance: the labels of those
// that were not thought likely tell when that changes.
func (sc *scene) trigger(e *event, out []ground) []ground {
	if sc.s.m.opt.Static {
		return out
	}
	for _, t := range sc.s.m.templates[e.symbol] {
		if t.support.n < minSupport || !t.mayFollow(sc.s.id) || e.turn != sc.s.turn && !t.anchored || !sc.target(t.target) {
			continue
		}
		list, size := t.list(e)
		w := sc.prepare(t, e, list, size, false)
		for rank := range min(size, t.deepest+3, maxRank) {
			o := w.odds(rank)
			byChance := o.in.place.num(rank).num(sc.s.turn).num(sc.s.number)%oneIn == 0
			if byChance || o.chance >= minChance {
				out = append(out, ground{t, e, rank, size, list, byChance, *o})
			}
		}
	}
	return out
}

// likeliest returns the grounds of which calls are made, the likeliest first.
func likeliest(all []ground) []*ground {
	out := make([]*ground, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	slices.SortFunc(out, func(a, b *ground) int {
		return cmp.Or(cmp.Compare(b.chance, a.chance), cmp.Compare(b.e.turn, a.e.turn), cmp.Compare(a.rank, b.rank), cmp.Compare(a.t.id, b.t.id), cmp.Compare(b.e.id, a.e.id))
	})
	n := min(len(out), maxLearned)
	for _, g := range out[n:] {
		if g.byChance {
			out[n] = g
			n++
		}
	}
	return out[:n]
}

// again finds the odds anew of a ground of which the call was made before.
func (sc *scene) again(g *ground) {
	w := sc.prepare(g.t, g.e, g.list, g.size, true)
	g.odds = *w.odds(g.rank)
}
