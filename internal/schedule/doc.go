// Package schedule decides which of many calls are made and in which order: it
// chooses under a budget, and it orders a DAG over slots.
//
// # Choosing
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
// What Select promises depends on what binds:
//
//   - Within the cap it is the optimum, to within rounding (a part in 10^12 of the
//     value). Forests, where each item needs one other at most beside what that one
//     needs, are solved at the cap too, by a table, unless they have rows or a
//     number or the table takes longer than the search did. On 100 items and a
//     budget of 10,000 the search alone gives up on one in ten of those where a
//     worthless list opens three calls, and is up to 2 % below the best there.
//   - At the cap it is never less than greedy, nor than the best single closure.
//     For items that need nothing, have no row and are not counted the better of
//     these two is at least half of the optimum (Martello and Toth, Knapsack
//     Problems, 1990). By density alone there is no such floor: an item of value 2
//     and cost 1 keeps out one of value k and cost k.
//   - With general prerequisites no constant factor holds at the cap, for the
//     problem is strongly NP-hard (Johnson and Niemi 1983); hence the search. On
//     forests it is not.
//
// All this is for values that add up. Where what one item is worth falls with what
// else is chosen (monotone submodular: pages that say the same), the same greedy
// with the best single item is at least 0.405 of the optimum (Tang et al. 2021),
// and 1-1/e takes guesses (Sviridenko 2004; two of them, Feldman, Nutov and Shoham
// 2023). Where it rises no such thing holds: two bits are worth nothing each and
// together their parity. Select does not know such values; a caller that has them
// chooses, counts again and chooses again.
//
// [AVDS], [GreedyByCost], [GreedyByValue] and [Arbitrary] are there to be compared
// with. They promise that the limits are kept and nothing else. AVDS counts an
// item for those that need it directly, whether or not they can be paid, are shared
// or stand two steps away, and fills its first batch before it looks at a second:
// it can be worth 0 where the optimum is anything. On independent items it is
// mostly near the optimum, on forests often at half of it.
//
// # Ordering
//
// The one idea: whenever something ends, start of what is ready and fits that which
// the longest path still hangs on, and keep no slot free for anything that comes
// later. Queue does this as results arrive, for its owner does the waiting:
//
//	q := schedule.NewQueue([]schedule.Task{
//		{Mean: 2 * time.Second},
//		{Mean: time.Second},
//		{Mean: 3 * time.Second, After: []int{1}},
//	}, schedule.Slots{Total: 1})
//	task, ok := q.Next() // 1: four seconds hang on it
//	q.Done(task)         // 2 is ready
//
// What it promises: where only the number of slots p binds, the makespan is at most
// work/p + (1-1/p) of the longest chain, hence 2-1/p of the optimum (Graham 1966),
// and by lists nothing better can be promised; on random DAGs it is on average
// within a per cent of [Bound]. With hosts or conflicts only this: no slot stands
// idle that a ready task fits. The optimum is out of reach, for already independent tasks on
// two slots are NP-hard to order (Garey and Johnson 1979). Nor is a schedule
// promised to be shorter with more slots, shorter tasks or fewer edges: it can be
// longer (Graham 1969).
//
// [Simulate] plays the same queue, and the rules that it is compared with, in time
// that is only counted. Waves and GreedyDAG wait for the slowest of each level or
// batch, which can take as many times the optimum as there are levels.
//
// # What it leaves out
//
// What a value, a cost or a host means: it knows no calls, no clock and no tokens.
// Tasks are not interrupted, and none is moved from one slot to another. P90 only
// decides between equal paths: on lengths that are off by a third and more the
// queue is still within a per cent of the bound, so there is next to nothing to win.
package schedule
