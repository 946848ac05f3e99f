// Package schedule selects items under a budget, and orders a DAG of tasks over slots. Both are
// pure functions of their arguments: they use no clock, and know no calls or tokens.
//
// # Selecting
//
// Select solves the 0/1 knapsack problem with precedence constraints. Choosing an item
// means choosing its closure, the item with everything that it needs:
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
// The algorithm is depth-first branch and bound with the bound of the fractional knapsack
// (Dantzig 1957; Martello and Toth, Knapsack Problems, 1990), starting from the better of
// greedy by density and the best single closure. Within its node cap the result is
// optimal up to rounding (a part in 10^12 of the value). At the cap it is never less than
// the starting choice, which for items without needs and only a budget is at least half
// of the optimum. With needs the problem is strongly NP-hard (Johnson and Niemi 1983) and
// no constant factor holds.
//
// Values add up. If the value of an item depends on what else is chosen, the caller must
// choose, revalue and choose again.
//
// # Ordering
//
// A Queue does list scheduling by critical path (Graham 1966): whenever a task ends, it starts
// the ready task that fits and begins the longest path, and reserves no slot for a later task.
// The caller does the waiting:
//
//	q := schedule.NewQueue([]schedule.Task{
//		{Mean: 2 * time.Second},
//		{Mean: time.Second},
//		{Mean: 3 * time.Second, After: []int{1}},
//	}, schedule.Slots{Total: 1})
//	task, ok := q.Next() // 1: four seconds depend on it
//	q.Done(task)         // 2 is ready
//
// If only the number of slots p is bounded, the makespan is at most 2-1/p of the optimum,
// and on random DAGs on average within a per cent of the optimum's lower bound. With bounded
// hosts the only guarantee is that no slot stays idle that a ready task fits. More slots,
// shorter tasks or fewer edges can make a schedule longer (Graham 1969). Tasks are not
// preempted.
package schedule
