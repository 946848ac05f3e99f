// Package schedule chooses under a budget.
//
// The one idea: choosing an item means choosing its closure, the item with all
// that it needs, and what a closure is worth and costs is counted for what it
// adds to what is chosen already. A greedy choice by value per cost is taken
// first, and branch and bound then improves it until it is the best there is or
// the node cap is reached:
//
//	items := []schedule.Item{
//		{Value: 9, Cost: 40},                  // 0: a list
//		{Value: 70, Cost: 50, Needs: []int{0}}, // 1: takes its arguments from the list
//		{Value: 20, Cost: 30, Row: 1},         // 2 and 3: two forms of one answer
//		{Value: 5, Cost: 10, Row: 1},
//	}
//	c := schedule.Select(items, schedule.Limits{Budget: 100})
//	// c.Items is [0 1 3], c.Value 84, c.Cost 100, c.Exact true
//
// What it promises: within the cap the optimum, to within rounding (a part in
// 10^12 of the value); at the cap never less than greedy, nor than the best
// single closure. For items that need nothing, have no row and are not counted,
// the better of these two is at least half of the optimum (Martello and Toth,
// Knapsack Problems, 1990); by density alone there is no such floor: an item of
// value 1 and cost 1 keeps out one of value k and cost k. With general
// prerequisites no constant factor holds, for the problem is strongly NP-hard
// (Johnson and Niemi, 1983); hence the search.
//
// It leaves out what a value or a cost means. It knows no calls, no clock and no
// tokens.
package schedule

import "cmp"

// Item is something that may be chosen. One that cannot be chosen is left out,
// and so is whatever needs it: one whose value is no number from 0 to 1e100, whose
// cost is below 0, or that needs an index out of range or, directly or not, itself.
type Item struct {
	Value float64 // in any unit
	Cost  int     // of the budget; 0: free
	Needs []int   // indices of items that must be chosen too
	Row   int     // at most one item of a row is chosen; 0: in none
}

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
// lead to the same choice; of equal ones the first found stands, which is greedy's
// if there is none better.
func Select(items []Item, l Limits) Choice {
	l.Nodes = cmp.Or(max(l.Nodes, 0), defaultNodes)
	if l.Count <= 0 {
		l.Count = len(items)
	}
	s := newSearch(items, l)
	s.run()

	c := Choice{Exact: !s.capped, Nodes: s.nodes}
	for i := range s.best.all() {
		c.Items = append(c.Items, i)
		c.Value += items[i].Value
		c.Cost += items[i].Cost
	}
	return c
}
