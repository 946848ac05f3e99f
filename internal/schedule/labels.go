package schedule

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// labels numbers the tasks from the end of the DAG: next is always the task whose
// followers, all of them numbered, have the least numbers, compared from the
// greatest down. What is to be started first has the greatest number.
func labels(g *graph) []time.Duration {
	next := reduced(g)
	numbers := make([]time.Duration, len(g.tasks))
	below := make([][]time.Duration, len(g.tasks)) // task → numbers of its followers, rising
	waits := make([]int, len(g.tasks))             // task → followers without a number
	before := make([][]int, len(g.tasks))          // next, the other way round
	for i, followers := range next {
		waits[i] = len(followers)
		for _, k := range followers {
			before[k] = append(before[k], i)
		}
	}
	open := newRanking(make([]int, len(g.tasks)), func(a, b int) bool {
		return cmp.Or(compareDown(below[a], below[b]), a-b) < 0
	})
	for _, i := range g.order {
		if waits[i] == 0 {
			heap.Push(open, i)
		}
	}
	for number := time.Duration(1); open.Len() > 0; number++ {
		i := heap.Pop(open).(int)
		numbers[i] = number
		for _, k := range before[i] {
			below[k] = append(below[k], number)
			if waits[k]--; waits[k] == 0 {
				heap.Push(open, k)
			}
		}
	}
	return numbers
}

// compareDown compares rising lists from their last elements on.
func compareDown(a, b []time.Duration) int {
	for n := 1; n <= len(a) && n <= len(b); n++ {
		if c := cmp.Compare(a[len(a)-n], b[len(b)-n]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// reduced are the followers of each task without those that a path over another
// follower leads to. The labels are exact only on these: an edge that says nothing
// would count as one that does.
func reduced(g *graph) [][]int {
	n := len(g.tasks)
	reach := newSets(n, (n+63)/64) // task → all that come after it
	place := make([]int, n)
	for at, i := range g.order {
		place[i] = at
	}
	next := make([][]int, n)
	for _, i := range slices.Backward(g.order) {
		followers := slices.DeleteFunc(slices.Clone(g.next[i]), func(k int) bool { return place[k] == 0 }) // on a cycle, or behind one
		slices.SortFunc(followers, func(a, b int) int { return place[a] - place[b] })
		for _, k := range followers { // the nearest first: what it leads to is seen before it is met
			if !reach[i].has(k) {
				reach[i].add(k)
				reach[i].unite(reach[k])
				next[i] = append(next[i], k)
			}
		}
	}
	return next
}
