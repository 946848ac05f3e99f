// Package schedule decides which of many calls are made and in which order: it
// selects items under a budget, and it orders a DAG over slots. Both are pure: they
// know no calls, no clock and no tokens.
//
// # Selecting
//
// The 0/1 knapsack problem with precedence constraints. Choosing an item means
// choosing its closure, the item with all that it needs:
//
//	items := []schedule.Item{
//		{Value: 9, Cost: 40},                  // 0: a list
//		{Value: 70, Cost: 50, Needs: []int{0}}, // 1: takes its arguments from the list
//		{Value: 20, Cost: 30},
//		{Value: 5, Cost: 10},
//	}
//	c := schedule.Select(items, schedule.Limits{Budget: 100})
//	// c.Items is [0 1 3], c.Value 84, c.Cost 100, c.Exact true
//
// Select is depth-first branch and bound with the bound of the fractional knapsack
// (Dantzig 1957; Martello and Toth, Knapsack Problems, 1990), begun from the better of
// greedy by density and the best single closure. Within its node cap the result is
// the optimum, to within rounding (a part in 10^12 of the value). At the cap it is
// never less than what it began from, which for items without needs and a budget alone
// is at least half of the optimum. With needs the problem is strongly NP-hard (Johnson
// and Niemi 1983) and no constant factor holds.
//
// Values add up. Where the worth of an item depends on what else is chosen, the caller
// chooses, counts again and chooses again.
//
// # Ordering
//
// List scheduling by critical path (Graham 1966): whenever a task ends, start of what
// is ready and fits the task that the longest path begins at, and keep no slot free
// for a later one. The owner of a Queue does the waiting:
//
//	q := schedule.NewQueue([]schedule.Task{
//		{Mean: 2 * time.Second},
//		{Mean: time.Second},
//		{Mean: 3 * time.Second, After: []int{1}},
//	}, schedule.Slots{Total: 1})
//	task, ok := q.Next() // 1: four seconds hang on it
//	q.Done(task)         // 2 is ready
//
// Where only the number of slots p binds, the makespan is at most 2-1/p of the optimum,
// and on random DAGs within a per cent of the optimum's lower bound on average. With hosts
// only this is promised: no slot stands idle that a ready task fits. More slots, shorter
// tasks or fewer edges can make a schedule longer (Graham 1969). Tasks are not
// interrupted.
package schedule
