package schedule

import (
	"slices"
	"time"
)

// Cycle finds tasks that wait for each other in a circle, where after[i] are those
// that i waits for: each of them waits for the next, the last for the first. It is
// nil if there are none. It takes O(tasks + edges) and no stack, however long a
// chain is.
func Cycle(after [][]int) []int {
	const unseen, open, closed = 0, 1, 2
	state := make([]int8, len(after))
	next := make([]int, len(after)) // task → how many of those it waits for have been followed
	var path []int
	for start := range after {
		if state[start] != unseen {
			continue
		}
		path = append(path[:0], start)
		state[start] = open
		for len(path) > 0 {
			at := path[len(path)-1]
			if next[at] == len(after[at]) {
				state[at] = closed
				path = path[:len(path)-1]
				continue
			}
			to := after[at][next[at]]
			next[at]++
			switch state[to] {
			case open:
				return path[slices.Index(path, to):]
			case unseen:
				state[to] = open
				path = append(path, to)
			}
		}
	}
	return nil
}

// graph is the DAG with its edges in both directions.
type graph struct {
	tasks []Task
	next  [][]int // task → those that wait for it, as often as they name it
	order []int   // tasks, each after all that it waits for; without what is on a cycle or behind one
}

func newGraph(tasks []Task) *graph {
	g := &graph{tasks: tasks, next: followers(tasks), order: make([]int, 0, len(tasks))}
	waits := make([]int, len(tasks))
	for i := range tasks {
		if waits[i] = len(tasks[i].After); waits[i] == 0 {
			g.order = append(g.order, i)
		}
	}
	for at := 0; at < len(g.order); at++ { // Kahn 1962
		for _, k := range g.next[g.order[at]] {
			if waits[k]--; waits[k] == 0 {
				g.order = append(g.order, k)
			}
		}
	}
	return g
}

// followers are the edges the other way round, in one piece of memory.
func followers(tasks []Task) [][]int {
	counts, edges := make([]int, len(tasks)), 0
	for i := range tasks {
		for _, k := range tasks[i].After {
			counts[k]++
			edges++
		}
	}
	memory, next := make([]int, edges), make([][]int, len(tasks))
	for i, n := range counts {
		next[i], memory = memory[:0:n], memory[n:]
	}
	for i := range tasks {
		for _, k := range tasks[i].After {
			next[k] = append(next[k], i)
		}
	}
	return next
}

// paths are how long the longest path from the beginning of each task to the end
// of all is, given how long each takes; 0 where there is no end to it.
func (g *graph) paths(lengths []time.Duration) []time.Duration {
	paths := make([]time.Duration, len(lengths))
	for _, i := range slices.Backward(g.order) {
		paths[i] = plus(lengths[i], longest(paths, g.next[i]))
	}
	return paths
}

func longest(paths []time.Duration, of []int) time.Duration {
	most := time.Duration(0)
	for _, i := range of {
		most = max(most, paths[i])
	}
	return most
}
