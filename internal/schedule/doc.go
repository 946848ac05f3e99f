// Package schedule selects items under a budget, and orders a DAG of tasks over slots. [Select] is a
// pure function, a [Queue] has only its own state, and neither uses a clock.
//
// [Select] solves the 0/1 knapsack problem with precedence constraints: choosing an item means
// choosing its closure, the item with everything that it needs.
//
//	items := []schedule.Item{
//		{Value: 9, Cost: 40},                   // 0: a list
//		{Value: 70, Cost: 50, Needs: []int{0}}, // 1: takes its arguments from the list
//		{Value: 20, Cost: 30},
//		{Value: 5, Cost: 10},
//	}
//	chosen := schedule.Select(items, schedule.Limits{Budget: 100, Count: 4}) // [0 1 3]
//
// The algorithm is depth-first branch and bound with the bound of the fractional knapsack
// (Dantzig 1957; Martello and Toth, Knapsack Problems, 1990), starting from the better of
// greedy by density and the best single closure. Within its node cap the result is optimal; at
// the cap it is never less than the starting choice, which for items without needs and only a
// budget is at least half of the optimum.
//
// A [Queue] does list scheduling by critical path (Graham 1966): whenever a task ends, it chooses
// the ready task that fits and begins the longest path, and reserves no slot for a later task.
// The caller does the waiting:
//
//	q := schedule.NewQueue(tasks, schedule.Slots{Total: 8})
//	task, ok := q.Next()
//	q.Done(task) // tasks after it may be ready
//
// If only the number of slots p is bounded, the makespan is at most 2-1/p of the optimum. More
// slots, shorter tasks or fewer edges can make a schedule longer (Graham 1969).
package schedule
