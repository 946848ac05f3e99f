package schedule

import (
	"slices"
	"time"
)

// dag is the edges from each task to those that wait for it, and an order of the tasks.
type dag struct {
	successors [][]int // task → those that wait for it, as often as they name it
	order      []int   // tasks, each after all that it waits for; without what is on a cycle or behind one
}

// newDAG makes the dag of tasks of which i waits for after[i], in time proportional to
// the tasks and their edges (Kahn 1962).
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

func dagOf(tasks []Task) dag {
	after := make([][]int, len(tasks))
	for i := range tasks {
		after[i] = tasks[i].After
	}
	return newDAG(after)
}

// Cycle finds tasks that wait for each other in a circle, where after[i] are those
// that i waits for: each of them waits for the next, the last for the first. It is
// nil if there are none.
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
	position := make([]int, len(after)) // task → its place in path, from 1 on
	for position[at] == 0 {
		path = append(path, at)
		position[at] = len(path)
		// A task without a place in the order waits for another such task.
		at = after[at][slices.IndexFunc(after[at], func(k int) bool { return !ordered[k] })]
	}
	return path[position[at]-1:]
}

// paths are how long the longest path from the beginning of each task to the end
// of all is, given how long each takes; 0 where the task is not in the order.
func (d *dag) paths(lengths []time.Duration) []time.Duration {
	paths := make([]time.Duration, len(lengths))
	for _, i := range slices.Backward(d.order) {
		paths[i] = lengths[i]
		if k := longest(paths, d.successors[i]); k >= 0 {
			paths[i] = addSaturating(lengths[i], paths[k])
		}
	}
	return paths
}

// longest is the first of some tasks that the longest path begins at; -1 if none does.
func longest(paths []time.Duration, of []int) int {
	best := -1
	for _, i := range of {
		if paths[i] > 0 && (best < 0 || paths[i] > paths[best]) {
			best = i
		}
	}
	return best
}

// CriticalPath is the chain of tasks that takes longest by Mean, in order, and how
// long that is. Of equal ones it takes the first. What is on a cycle or behind one is
// left out.
func CriticalPath(tasks []Task) (length time.Duration, chain []int) {
	d := dagOf(tasks)
	paths := d.paths(Expected(tasks))
	for at := longest(paths, d.order); at >= 0; at = longest(paths, d.successors[at]) {
		length = max(length, paths[at])
		chain = append(chain, at)
	}
	return length, chain
}
