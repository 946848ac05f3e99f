package schedule

import (
	"cmp"
	"math"
	"slices"
)

// rounding is the part of a value by which sums of the same numbers may differ.
const rounding = 1e-12

// search is one run of branch and bound. What it decides it notes in a trail, by
// which it is undone.
type search struct {
	node
	items          []Item
	limits         Limits
	dependents     [][]int // item → those that need it directly
	order          []int   // items that may be chosen, by falling density
	byFallingValue []int   // the same by falling value; nil unless their number is limited

	decided []decision // by item
	trail   []int      // items that are decided, in that order

	best      []int   // items of the best choice
	bestValue float64 // what has to be passed: the value of the best choice
	nodes     int
	capped    bool
}

// node is what a partial choice is worth and leaves.
type node struct {
	value      float64
	budgetLeft int // of the budget
	countLeft  int // items that may still be chosen
}

type decision int8

const (
	open decision = iota
	in
	out
)

func newSearch(items []Item, l Limits) *search {
	s := &search{items: items, limits: l, node: node{budgetLeft: l.Budget, countLeft: l.Count}, decided: make([]decision, len(items))}
	needs := make([][]int, len(items))
	for i := range items {
		if needs[i] = items[i].Needs; !valid(items, i) {
			needs[i] = []int{i} // so that it is in no order, nor is anything that needs it
		}
	}
	d := newDAG(needs)
	s.dependents = d.successors
	for i := range items {
		s.decided[i] = out
	}
	for _, i := range d.order {
		s.decided[i] = open
		if _, _, fits := s.gain(i); fits {
			s.order = append(s.order, i)
		} else {
			s.decided[i] = out
		}
	}
	slices.SortFunc(s.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(items[b].density(), items[a].density()), cmp.Compare(items[b].Value, items[a].Value), a-b)
	})
	if l.Count < len(s.order) {
		s.byFallingValue = slices.Clone(s.order)
		slices.SortStableFunc(s.byFallingValue, func(a, b int) int { return cmp.Compare(items[b].Value, items[a].Value) })
	}
	return s
}

func (it *Item) density() float64 {
	switch {
	case it.Value <= 0:
		return 0
	case it.Cost <= 0:
		return math.Inf(1)
	}
	return it.Value / float64(it.Cost)
}

// include chooses an item and all that it needs. Where that is ruled out or not within
// the limits it is false, and what is included so far has to be undone.
func (s *search) include(i int) bool {
	if s.decided[i] != open {
		return s.decided[i] == in
	}
	s.decide(i, in)
	s.value += s.items[i].Value
	s.budgetLeft -= s.items[i].Cost
	s.countLeft--
	if s.budgetLeft < 0 || s.countLeft < 0 {
		return false
	}
	for _, k := range s.items[i].Needs {
		if !s.include(k) {
			return false
		}
	}
	return true
}

// exclude rules out an item and all that needs it.
func (s *search) exclude(i int) {
	if s.decided[i] != open {
		return
	}
	s.decide(i, out)
	for _, k := range s.dependents[i] {
		s.exclude(k)
	}
}

func (s *search) decide(i int, d decision) {
	s.decided[i] = d
	s.trail = append(s.trail, i)
}

// undo goes back to a node that had a trail of some length.
func (s *search) undo(n node, trail int) {
	for _, i := range s.trail[trail:] {
		s.decided[i] = open
	}
	s.node, s.trail = n, s.trail[:trail]
}

// adds is what including an item adds to value and cost, and whether that fits.
func (s *search) gain(i int) (value float64, cost int, fits bool) {
	n, trail := s.node, len(s.trail)
	fits = s.include(i)
	value, cost = s.value-n.value, n.budgetLeft-s.budgetLeft
	s.undo(n, trail)
	return value, cost, fits
}

// keep notes a choice that is the best so far.
func (s *search) recordBest() {
	if s.value <= s.bestValue {
		return
	}
	s.bestValue, s.best = s.value, s.best[:0]
	for _, i := range s.trail {
		if s.decided[i] == in {
			s.best = append(s.best, i)
		}
	}
}

// seed makes the first choices, which the search has to pass. A small dense item may
// keep out a large one, so one of them begins with the best single closure.
func (s *search) seed() {
	s.greedy(nil, byDensity)
	if s.byFallingValue != nil {
		s.greedy(nil, byValue) // where the number binds and not the budget, density misleads
	}
	dearest, most := -1, 0.0
	for _, i := range s.order {
		if value, _, fits := s.gain(i); fits && value > most {
			dearest, most = i, value
		}
	}
	if dearest >= 0 {
		s.greedy([]int{dearest}, byDensity)
	}
}

func byDensity(value float64, cost int) (float64, float64) { return value, float64(cost) }
func byValue(value float64, _ int) (float64, float64)      { return value, 1 }

// greedy begins with some items and adds for as long as something fits the closure of
// the greatest rank, a fraction, by what it adds to value and cost. Of equal ones it
// takes the first.
func (s *search) greedy(start []int, rank func(value float64, cost int) (over, under float64)) {
	n, trail := s.node, len(s.trail)
	for _, i := range start {
		s.include(i)
	}
	for next := 0; next >= 0; {
		next = -1
		most, least := 0.0, 1.0
		for i := range s.items {
			if s.decided[i] != open {
				continue
			}
			value, cost, fits := s.gain(i)
			if !fits {
				s.exclude(i) // nor will it fit later: what is included of its closure is paid for
				continue
			}
			if over, under := rank(value, cost); over*least > most*under {
				next, most, least = i, over, under
			}
		}
		if next >= 0 {
			s.include(next)
		}
	}
	s.recordBest()
	s.undo(n, trail)
}

// branch decides the items from a place of the order on: each with its closure
// first, then without.
func (s *search) branch(at int) {
	n, trail := s.node, len(s.trail)
	for ; at < len(s.order) && !s.capped; at++ {
		i := s.order[at]
		if s.decided[i] != open {
			continue
		}
		if s.nodes >= s.limits.Nodes {
			s.capped = true
			break
		}
		s.nodes++
		if !s.promising(at) {
			break
		}
		without := len(s.trail)
		if s.include(i) {
			s.recordBest()
			s.branch(at + 1)
		}
		s.undo(n, without)
		s.exclude(i)
		s.excludeWorse(at)
	}
	s.undo(n, trail)
}

// excludeWorse rules out the items that one that is ruled out could stand in for at no
// loss: many equal calls would else be tried in every combination.
func (s *search) excludeWorse(at int) {
	a := &s.items[s.order[at]]
	for _, k := range s.order[at+1:] {
		b := &s.items[k]
		if s.decided[k] == open && a.Cost <= b.Cost && a.Value >= b.Value && len(s.dependents[k]) == 0 &&
			(len(a.Needs) == 0 || slices.Equal(a.Needs, b.Needs)) {
			s.decide(k, out)
		}
	}
}

// promising reports whether the open items from a place of the order on could lead
// beyond the goal: by the densest that fill the budget, the last one in part, and by
// the most valuable that may still be chosen, whatever they cost.
func (s *search) promising(at int) bool {
	goal := s.bestValue * (1 + rounding)
	return s.budgetBound(at) > goal && (s.byFallingValue == nil || s.countBound() > goal)
}

func (s *search) budgetBound(at int) float64 {
	value, left := s.value, s.budgetLeft
	for _, i := range s.order[at:] {
		if s.decided[i] != open {
			continue
		}
		it := &s.items[i]
		if it.Cost > left {
			return value + it.Value*(float64(left)/float64(it.Cost))
		}
		value += it.Value
		left -= it.Cost
	}
	return value
}

func (s *search) countBound() float64 {
	value, count := s.value, s.countLeft
	for _, i := range s.byFallingValue {
		if s.decided[i] == open && count > 0 {
			value += s.items[i].Value
			count--
		}
	}
	return value
}
