package schedule

import "slices"

// Item may be chosen.
type Item struct {
	Value float64 // in any unit; not negative
	Cost  int     // against Limits.Budget; not negative
	Needs []int   // indices of items that must be chosen too; one out of range panics
}

// Limits bound a choice.
type Limits struct {
	Budget int // maximum sum of costs; if negative, nothing is chosen
	Count  int // maximum number of items, including needed ones
}

// maxNodes is the number of nodes after which a search is cut short.
const maxNodes = 20_000

// Select returns the indices, ascending, of a choice of the highest value within the limits. It is
// deterministic; of equal choices it returns the first found.
func Select(items []Item, l Limits) []int { return run(items, l, maxNodes).best }

// run runs a search of at most that many nodes.
func run(items []Item, l Limits, nodes int) *search {
	s := newSearch(items, l)
	s.seed()
	s.left = nodes
	s.branch(0)
	slices.Sort(s.best)
	return s
}
