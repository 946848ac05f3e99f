package schedule

import (
	"slices"
	"time"
)

// dag holds the edges from each task to its successors, and a topological order.
type dag struct {
	successors [][]int // task → tasks that come after it, once per edge
	order      []int   // topological; without tasks on a cycle or after one
}

// newDAG returns the dag in which task i comes after the tasks in after[i]. It takes time
// proportional to tasks and edges (Kahn 1962).
func newDAG(after [][]int) dag {
	d := dag{successors: make([][]int, len(after)), order: make([]int, 0, len(after))}
	unmet := make([]int, len(after))
	for i := range after {
		for _, k := range after[i] {
			d.successors[k] = append(d.successors[k], i)
		}
		if unmet[i] = len(after[i]); unmet[i] == 0 {
			d.order = append(d.order, i)
		}
	}
	for at := 0; at < len(d.order); at++ {
		for _, k := range d.successors[d.order[at]] {
			if unmet[k]--; unmet[k] == 0 {
				d.order = append(d.order, k)
			}
		}
	}
	return d
}

// Cycle returns a cycle of tasks, given that task i comes after the tasks in after[i]: each
// task of the cycle waits for the next one, and the last for the first. It returns nil if there
// is none.
func Cycle(after [][]int) []int {
	ordered := make([]bool, len(after))
	for _, i := range newDAG(after).order {
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

// paths returns the length of the longest path from the beginning of each task to the end, given
// the tasks' durations; 0 for tasks that are not in the order.
func (d *dag) paths(lengths []time.Duration) []time.Duration {
	paths := make([]time.Duration, len(lengths))
	for _, i := range slices.Backward(d.order) {
		for _, k := range d.successors[i] {
			paths[i] = max(paths[i], paths[k])
		}
		paths[i] += lengths[i]
	}
	return paths
}
