package schedule

import (
	"cmp"
	"math"
	"slices"
)

// rounding is the relative error of a sum of values.
const rounding = 1e-12

// search is one run of branch and bound. Decisions are recorded on a trail, by which they are
// undone.
type search struct {
	node
	items          []Item
	dependents     [][]int // item → items that need it directly
	order          []int   // items that fit with everything that they need, by descending density
	byFallingValue []int   // the same by descending value; nil unless Count binds

	decided []decision // by item
	trail   []int      // decided items, in order of decision

	best      []int   // items of the best choice so far
	bestValue float64 // its value, which a new choice must exceed
	left      int     // nodes that it may still visit; negative once it has been cut short
}

// node is the value of a partial choice and what it leaves.
type node struct {
	value      float64
	budgetLeft int // budget not yet used
	countLeft  int // items that may still be chosen
}

type decision int8

const (
	open decision = iota
	in
	out
)

func newSearch(items []Item, l Limits) *search {
	s := &search{
		items: items, node: node{budgetLeft: l.Budget, countLeft: l.Count},
		decided: make([]decision, len(items)), dependents: make([][]int, len(items)),
	}
	for i := range items {
		for _, k := range items[i].Needs {
			s.dependents[k] = append(s.dependents[k], i)
		}
		if _, _, fits := s.gain(i); fits {
			s.order = append(s.order, i)
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
	case it.Value == 0:
		return 0
	case it.Cost == 0:
		return math.Inf(1)
	}
	return it.Value / float64(it.Cost)
}

// include chooses an item and everything it needs. It returns false if one of those is excluded
// or exceeds the limits; the caller must then undo what was included.
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

// exclude excludes an item and everything that needs it.
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

// undo restores a node, and the trail to its length then.
func (s *search) undo(n node, trail int) {
	for _, i := range s.trail[trail:] {
		s.decided[i] = open
	}
	s.node, s.trail = n, s.trail[:trail]
}

// gain returns the value and cost that including an item adds, and whether it fits.
func (s *search) gain(i int) (value float64, cost int, fits bool) {
	n, trail := s.node, len(s.trail)
	fits = s.include(i)
	value, cost = s.value-n.value, n.budgetLeft-s.budgetLeft
	s.undo(n, trail)
	return value, cost, fits
}

// recordBest records the current choice if it is the best so far.
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

// seed finds the starting choices. A small dense item may exclude a large valuable one, so one of
// them starts with the best single closure.
func (s *search) seed() {
	s.greedy(nil)
	single, most := -1, 0.0
	for _, i := range s.order {
		if value, _, fits := s.gain(i); fits && value > most {
			single, most = i, value
		}
	}
	if single >= 0 {
		s.greedy([]int{single})
	}
}

// greedy includes the items in start, then repeatedly the fitting closure with the highest gain
// in value per cost, until none fits. Of equal ones it takes the first.
func (s *search) greedy(start []int) {
	n, trail := s.node, len(s.trail)
	for _, i := range start {
		s.include(i)
	}
	for next := 0; next >= 0; {
		next = -1
		best := 0.0
		for i := range s.items {
			if s.decided[i] != open {
				continue
			}
			gain := Item{}
			var fits bool
			if gain.Value, gain.Cost, fits = s.gain(i); !fits {
				s.exclude(i) // it will not fit later: what is included of its closure by then has used that part of the budget
			} else if density := gain.density(); density > best {
				next, best = i, density
			}
		}
		if next >= 0 {
			s.include(next)
		}
	}
	s.recordBest()
	s.undo(n, trail)
}

// branch decides the items from an index of the order on: each first included with its closure,
// then excluded.
func (s *search) branch(at int) {
	n, trail := s.node, len(s.trail)
	for ; at < len(s.order) && s.left >= 0; at++ {
		i := s.order[at]
		if s.decided[i] != open {
			continue
		}
		if s.left--; s.left < 0 || !s.promising(at) {
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

// excludeWorse excludes the items that an excluded item could replace without loss. Otherwise
// the search would try equal calls in every combination.
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

// promising reports whether the open items from an index of the order on could exceed the best
// value. It uses two bounds: the densest items that fill the budget, the last one in part, and
// the most valuable items that Count still allows, whatever they cost.
func (s *search) promising(at int) bool {
	threshold := s.bestValue * (1 + rounding)
	return s.budgetBound(at) > threshold && (s.byFallingValue == nil || s.countBound() > threshold)
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
