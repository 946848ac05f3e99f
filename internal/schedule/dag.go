package schedule

import "slices"

// topological returns tasks in a topological order, given that task i comes after the tasks in after[i],
// without tasks on a cycle or after one. It also returns for each task those that come after it,
// once per edge. It takes time proportional to tasks and edges (Kahn 1962).
func topological(after [][]int) (order []int, successors [][]int) {
	successors = make([][]int, len(after))
	unmet := make([]int, len(after))
	for i := range after {
		for _, k := range after[i] {
			successors[k] = append(successors[k], i)
		}
		if unmet[i] = len(after[i]); unmet[i] == 0 {
			order = append(order, i)
		}
	}
	for at := 0; at < len(order); at++ {
		for _, k := range successors[order[at]] {
			if unmet[k]--; unmet[k] == 0 {
				order = append(order, k)
			}
		}
	}
	return order, successors
}

// Cycle returns a cycle of tasks, given that task i comes after the tasks in after[i]: each
// task of the cycle waits for the next one, and the last for the first. It returns nil if there
// is none.
func Cycle(after [][]int) []int {
	ordered := make([]bool, len(after))
	order, _ := topological(after)
	for _, i := range order {
		ordered[i] = true
	}
	at := slices.Index(ordered, false)
	if at < 0 {
		return nil
	}
	var path []int
	position := make([]int, len(after)) // task → its index in path, from 1
	for position[at] == 0 {
		path = append(path, at)
		position[at] = len(path)
		// A task that is not in the order waits for another such task.
		at = after[at][slices.IndexFunc(after[at], func(k int) bool { return !ordered[k] })]
	}
	return path[position[at]-1:]
}
