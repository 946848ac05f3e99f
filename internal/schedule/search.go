package schedule

import (
	"cmp"
	"math/bits"
	"slices"
)

// rounding is the part of a value by which sums of the same numbers may differ:
// what promises no more than that is not worth a look.
const rounding = 1e-12

// search is one run of branch and bound.
type search struct {
	*bonds
	*relaxation
	items  []Item
	limits Limits
	dear   []int // items by falling value; nil unless their number is limited
	worse  []set // item → those in whose place it could stand at no loss

	in, out []set // depth → items chosen, and items ruled out
	best    set
	value   float64 // of best
	nodes   int
	capped  bool
}

// node is what is known of a partial choice beside its items.
type node struct {
	value float64
	left  int // of the budget
	count int // items that may still be chosen
}

func newSearch(items []Item, l Limits) *search {
	b := newBonds(items, l)
	s := &search{bonds: b, relaxation: relax(items, b.barred), items: items, limits: l}
	if l.Count < len(s.order) {
		s.dear = slices.Clone(s.order)
		slices.SortStableFunc(s.dear, func(a, b int) int { return cmp.Compare(items[b].Value, items[a].Value) })
	}
	depths := len(s.order) + 1
	sets := newSets(2*depths+1, len(b.barred))
	s.in, s.out, s.best = sets[:depths], sets[depths:2*depths], sets[2*depths]
	return s
}

// run improves what seed has found.
func (s *search) run() {
	s.seed()
	n := s.begin()
	if !s.promising(n, 0, s.in[0], s.out[0]) {
		s.nodes = 1
		return
	}
	s.compare()
	s.branch(0, 0, n)
	if s.capped && !s.table() {
		s.greedy(slices.Clone(s.best), false) // the end may have come between two items of it
	}
}

// begin returns the node in which nothing is decided but what is barred.
func (s *search) begin() node {
	clear(s.in[0])
	copy(s.out[0], s.barred)
	return node{left: s.limits.Budget, count: s.limits.Count}
}

// branch decides the items from a place of the order on: each with its closure
// first, then without.
func (s *search) branch(depth, at int, n node) {
	in, out := s.in[depth], s.out[depth]
	for ; at < len(s.order) && !s.capped; at++ {
		i := s.order[at]
		if in.has(i) || out.has(i) {
			continue
		}
		if s.nodes >= s.limits.Nodes {
			s.capped = true
			return
		}
		s.nodes++
		if !s.promising(n, at, in, out) {
			return
		}
		if with, ok := s.with(n, in, i); ok {
			copy(s.in[depth+1], in)
			copy(s.out[depth+1], out)
			s.choose(s.in[depth+1], s.out[depth+1], i)
			s.keep(with, s.in[depth+1])
			s.branch(depth+1, at+1, with)
		}
		out.unite(s.users[i])
		out.unite(s.worse[i])
	}
}

// with returns the node that choosing an item leads to, and whether that is
// within the limits.
func (s *search) with(n node, in set, i int) (node, bool) {
	for w, word := range s.closure[i] {
		for word &^= in[w]; word != 0; word &= word - 1 {
			k := w<<6 + bits.TrailingZeros64(word)
			n.value += s.items[k].Value
			n.left -= s.items[k].Cost
			n.count--
			if n.left < 0 || n.count < 0 {
				return n, false
			}
		}
	}
	return n, true
}

// choose adds an item's closure to in, and what it forbids to out.
func (s *search) choose(in, out set, i int) {
	in.unite(s.closure[i])
	out.unite(s.rivals[i])
}

// keep notes a choice that is the best so far.
func (s *search) keep(n node, in set) {
	if n.value > s.value {
		s.value = n.value
		copy(s.best, in)
	}
}

// promising reports whether the items from a place of the order on could make a
// node better than the best choice.
func (s *search) promising(n node, at int, in, out set) bool {
	goal := s.value * (1 + rounding)
	return s.fill(n, at, in, out, goal) && s.number(n, in, out, goal)
}

// fill reports whether the node reaches beyond the goal if the budget is filled
// with the densest steps that are open, the last one in part.
func (s *search) fill(n node, at int, in, out set, goal float64) bool {
	value, room := n.value, float64(n.left)
	for _, st := range s.steps[s.first[at]:] {
		if value > goal {
			return true
		}
		if !st.open(in, out) {
			continue
		}
		if st.cost > room {
			return value+st.value*(room/st.cost) > goal
		}
		value += st.value
		room -= st.cost
	}
	return value > goal
}

func (st step) open(in, out set) bool {
	for _, i := range st.row {
		if !in.has(i) && !out.has(i) {
			return true
		}
	}
	return false
}

// number reports whether the node reaches beyond the goal with as many of the
// most valuable open items as may still be chosen, whatever they cost.
func (s *search) number(n node, in, out set, goal float64) bool {
	if s.dear == nil {
		return true
	}
	value := n.value
	for _, i := range s.dear {
		if n.count == 0 || value > goal {
			break
		}
		if !in.has(i) && !out.has(i) {
			value += s.items[i].Value
			n.count--
		}
	}
	return value > goal
}

// compare finds for each item those in whose place it could stand: it costs no
// more and is worth no less, needs nothing that they do not need, offends no row
// that they do not offend, and nothing needs them. Where it is ruled out they need
// not be looked at: many equal calls would else be tried in every combination.
func (s *search) compare() {
	s.worse = newSets(len(s.items), len(s.barred))
	for at, i := range s.order {
		a := &s.items[i]
		for _, k := range s.order[at+1:] {
			b := &s.items[k]
			if a.Cost <= b.Cost && a.Value >= b.Value && (a.Row <= 0 || a.Row == b.Row) && !s.needed.has(k) && s.needsLess(i, k) {
				s.worse[i].add(k)
			}
		}
	}
}

// needsLess reports whether all that i needs is needed by k.
func (s *search) needsLess(i, k int) bool {
	if s.plain {
		return true
	}
	for need := range s.closure[i].all() {
		if need != i && !s.closure[k].has(need) {
			return false
		}
	}
	return true
}
