package schedule

import (
	"container/heap"
	"time"
)

// Queue says which task of a DAG to start next: list scheduling (Graham 1966) by
// the longest remaining path. The owner starts what Next gives and says when it
// has ended. It is not for several goroutines at once.
//
// Next and Done take O(log n) and what their own edges and conflicts take; nothing
// looks at all tasks after NewQueue.
type Queue struct {
	*graph
	lengths  []time.Duration // how long each takes, as known now
	paths    []time.Duration // the longest path from the beginning of each to the end: what is started first
	rivals   [][]int         // task → tasks that must not overlap it
	state    []state
	waits    []int // task → edges to tasks that have not ended
	blocked  []int // task → its rivals that run
	holds    []int // task → slots
	lanes    []lane
	lane     []int    // task → its lane
	free     int      // slots
	left     int      // tasks that have not ended
	open     *ranking // lanes that have a free slot and a ready task, by their first
	stale    *ranking // tasks whose path may have changed, last of the order first
	place    []int    // task → its place in the order; -1: in none
	arrivals bool     // first come, first served: paths are overwritten as tasks become ready
	arrived  int
}

// state is how far a task is. One that is ready and that a rival blocks may stand
// in its lane still or be parked outside until the last of its rivals has ended.
type state int8

const (
	waiting state = iota
	ready
	parked
	running
	ended
)

// lane is what is ready and takes its slots from the same host. Hosts without a
// bound share the first.
type lane struct {
	ready *ranking
	free  int
}

// NewQueue makes a queue of all tasks. What is on a cycle, or after one, never
// becomes ready: see Cycle.
func NewQueue(tasks []Task, s Slots) *Queue {
	q := newQueue(newGraph(tasks), s)
	q.lengths = Expected(tasks)
	q.paths = q.graph.paths(q.lengths)
	q.admit()
	return q
}

func newQueue(g *graph, s Slots) *Queue {
	n := len(g.tasks)
	q := &Queue{
		graph: g, state: make([]state, n), waits: make([]int, n), blocked: make([]int, n), holds: make([]int, n),
		lane: make([]int, n), free: room(s.Total), left: n, place: make([]int, n), rivals: rivals(g.tasks),
	}
	for i := range n {
		q.place[i] = -1
	}
	for at, i := range g.order {
		q.place[i] = at
	}
	q.stale = newRanking(make([]int, n), func(a, b int) bool { return q.place[a] > q.place[b] })
	q.divide(s)
	return q
}

// divide gives each host that has a bound a lane of its own.
func (q *Queue) divide(s Slots) {
	at := make([]int, len(q.tasks)) // a task stands in one lane at most: they share this
	add := func(free int) {
		q.lanes = append(q.lanes, lane{newRanking(at, q.before), free})
	}
	add(room(0))
	hosts := make(map[string]int) // host → lane
	for i := range q.tasks {
		host := q.tasks[i].Host
		if host == "" || s.Hosts[host] <= 0 {
			continue
		}
		if _, ok := hosts[host]; !ok {
			hosts[host] = len(q.lanes)
			add(s.Hosts[host])
		}
		q.lane[i] = hosts[host]
	}
	q.open = newRanking(make([]int, len(q.lanes)), func(a, b int) bool {
		return q.before(q.lanes[a].ready.first(), q.lanes[b].ready.first())
	})
}

// admit makes ready what waits for nothing.
func (q *Queue) admit() {
	for i := range q.tasks {
		if q.waits[i] = len(q.tasks[i].After); q.waits[i] == 0 {
			q.release(i)
		}
	}
}

// before says which of two tasks goes first: the one with more after it, then the
// one that may take longer, then the one that was named first.
func (q *Queue) before(a, b int) bool {
	switch {
	case q.paths[a] != q.paths[b]:
		return q.paths[a] > q.paths[b]
	case q.tasks[a].P90 != q.tasks[b].P90:
		return q.tasks[a].P90 > q.tasks[b].P90
	}
	return a < b
}

// Next takes a slot for the ready task of the longest remaining path that fits its
// host and overlaps no conflict. It is false only if no ready task may begin now:
// a slot is never kept for one that comes later.
func (q *Queue) Next() (task int, ok bool) {
	task, ok = q.peek()
	if !ok {
		return 0, false
	}
	lane := q.lane[task]
	heap.Pop(q.lanes[lane].ready)
	q.state[task] = running
	q.take(task)
	for _, k := range q.rivals[task] {
		q.blocked[k]++
	}
	return task, true
}

// peek finds what Next gives, and parks what it meets that a rival blocks.
func (q *Queue) peek() (task int, ok bool) {
	if q.free == 0 {
		return 0, false
	}
	q.refresh()
	for q.open.Len() > 0 {
		lane := q.open.first()
		task := q.lanes[lane].ready.first()
		if q.blocked[task] == 0 {
			return task, true
		}
		heap.Pop(q.lanes[lane].ready)
		q.state[task] = parked
		q.reopen(lane)
	}
	return 0, false
}

// More takes one more slot for a running task, as for several calls of one step at
// once. It is false if none is free for it, and while Next has anything to give: a
// ready task goes first.
func (q *Queue) More(task int) bool {
	if q.state[task] != running || q.lanes[q.lane[task]].free == 0 || q.free == 0 {
		return false
	}
	if _, ok := q.peek(); ok {
		return false
	}
	q.take(task)
	return true
}

// Less gives back one of the slots of a running task that has several; the last
// one goes with Done.
func (q *Queue) Less(task int) {
	if q.holds[task] > 1 {
		q.give(task, 1)
	}
}

// Done says that a task has ended, or will not run: one that is ready or waits may
// end without running. Its slots are free, and those after it may become ready. It
// does nothing the second time.
func (q *Queue) Done(task int) {
	was := q.state[task]
	if was == ended {
		return
	}
	q.state[task] = ended
	q.left--
	switch was {
	case waiting: // what it waits for no longer leads to those after it
		for _, k := range q.tasks[task].After {
			q.mark(k)
		}
	case ready:
		q.lanes[q.lane[task]].ready.remove(task)
		q.reopen(q.lane[task])
	case running:
		q.give(task, q.holds[task])
		for _, k := range q.rivals[task] {
			q.unblock(k)
		}
	}
	q.paths[task] = 0
	for _, k := range q.next[task] {
		if q.waits[k]--; q.waits[k] == 0 && q.state[k] == waiting {
			q.release(k)
		}
	}
}

// Ready reports whether all that a task waits for has ended and it has neither
// begun nor ended itself.
func (q *Queue) Ready(task int) bool {
	return q.state[task] == ready || q.state[task] == parked
}

// Left is how many tasks have not ended.
func (q *Queue) Left() int { return q.left }

func (q *Queue) release(task int) {
	q.state[task] = ready
	if q.arrivals {
		q.paths[task] = -time.Duration(q.arrived*len(q.tasks) + task)
	}
	q.enqueue(task)
}

func (q *Queue) enqueue(task int) {
	heap.Push(q.lanes[q.lane[task]].ready, task)
	q.reopen(q.lane[task])
}

func (q *Queue) unblock(task int) {
	q.blocked[task]--
	if q.blocked[task] == 0 && q.state[task] == parked {
		q.state[task] = ready
		q.enqueue(task)
	}
}

func (q *Queue) take(task int) {
	q.holds[task]++
	q.free--
	q.lanes[q.lane[task]].free--
	q.reopen(q.lane[task])
}

func (q *Queue) give(task, slots int) {
	q.holds[task] -= slots
	q.free += slots
	q.lanes[q.lane[task]].free += slots
	q.reopen(q.lane[task])
}

// reopen puts a lane where it belongs after a change in it.
func (q *Queue) reopen(lane int) {
	q.open.remove(lane)
	if l := q.lanes[lane]; l.free > 0 && l.ready.Len() > 0 {
		heap.Push(q.open, lane)
	}
}

// rivals are the conflicts, on both sides. One that is named twice counts twice
// from beginning to end; one with itself is of no consequence, for a task that runs
// does not begin.
func rivals(tasks []Task) [][]int {
	rivals := make([][]int, len(tasks))
	for i := range tasks {
		for _, k := range tasks[i].Conflicts {
			rivals[i] = append(rivals[i], k)
			rivals[k] = append(rivals[k], i)
		}
	}
	return rivals
}
