package schedule

import (
	"cmp"
	"slices"
)

// Item may be chosen. An item that needs itself, directly or not, is not chosen, nor is any that needs it.
type Item struct {
	Value float64 // in any unit; not negative
	Cost  int     // against Limits.Budget; not negative
	Needs []int   // indices of items that must be chosen too; one out of range panics
}

// Limits bound a choice. The zero value allows any number of items without cost.
type Limits struct {
	Budget int // maximum sum of costs; if negative, nothing is chosen
	Count  int // maximum number of items, including needed ones; 0 for no limit
	Nodes  int // maximum nodes of the search; default 20,000
}

const defaultNodes = 20_000

// Choice is the result of Select.
type Choice struct {
	Items []int // indices, ascending
	Value float64
	Cost  int
	Exact bool // whether the value is optimal; false if the search reached its node cap
	Nodes int  // of the search
}

// Select returns a choice of the highest value within the limits. It is deterministic; of equal
// choices it returns the first found.
func Select(items []Item, l Limits) Choice {
	l.Nodes = cmp.Or(max(l.Nodes, 0), defaultNodes)
	if l.Count <= 0 {
		l.Count = len(items)
	}
	s := newSearch(items, l)
	s.seed()
	s.branch(0)
	c := Choice{Items: s.best, Exact: !s.capped, Nodes: s.nodes}
	slices.Sort(c.Items)
	for _, i := range c.Items {
		c.Value += items[i].Value
		c.Cost += items[i].Cost
	}
	return c
}
