package schedule

import (
	"cmp"
	"slices"
)

// Item is something that may be chosen. One that cannot be chosen is left out,
// and so is whatever needs it: one whose value is no number from 0 to 1e100, whose
// cost is below 0, or that needs an index out of range or, directly or not, itself.
type Item struct {
	Value float64 // in any unit
	Cost  int     // of the budget; 0: free
	Needs []int   // indices of items that must be chosen too
}

// mostValue bounds an item's value, so that sums and products stay finite.
const maxValue = 1e100

// Limits bound a choice. The zero value admits what is free, in any number.
type Limits struct {
	Budget int // sum of the costs; below 0: nothing is chosen
	Count  int // items chosen, those that are only needed included; 0: any number
	Nodes  int // nodes of the search; default 20,000
}

const defaultNodes = 20_000

// Choice is what was chosen.
type Choice struct {
	Items []int // indices, in index order
	Value float64
	Cost  int
	Exact bool // no choice is worth more; false: the search ended at its node cap
	Nodes int  // of the search
}

// Select chooses the items of most value within the limits. The same arguments
// lead to the same choice; of equal ones the first found stands.
func Select(items []Item, l Limits) Choice {
	l.Nodes = cmp.Or(max(l.Nodes, 0), defaultNodes)
	if l.Count <= 0 {
		l.Count = len(items)
	}
	s := newSearch(items, l)
	s.seed()
	s.branch(0)
	if s.capped {
		s.greedy(slices.Clone(s.best), byDensity) // the search may have ended between two items of the best
	}
	c := Choice{Items: s.best, Exact: !s.capped, Nodes: s.nodes}
	slices.Sort(c.Items)
	for _, i := range c.Items {
		c.Value += items[i].Value
		c.Cost += items[i].Cost
	}
	return c
}

// sound reports whether an item, apart from what it needs, can be chosen.
func valid(items []Item, i int) bool {
	it := &items[i]
	return it.Value >= 0 && it.Value <= maxValue && it.Cost >= 0 &&
		!slices.ContainsFunc(it.Needs, func(k int) bool { return k < 0 || k >= len(items) })
}
