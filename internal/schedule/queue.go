package schedule

import (
	"math"
	"slices"
	"time"
)

// Queue says which task of a DAG to start next. The owner starts what Next gives and
// says when it has ended. It is not for several goroutines at once.
//
// Next looks at each task that is ready, which is quick enough for the hundreds of
// tasks that a plan may have.
type Queue struct {
	tasks      []Task
	successors [][]int         // task → those that wait for it
	paths      []time.Duration // the longest path from the beginning of each to the end, skipped tasks included
	state      []state
	unmet      []int // task → edges to tasks that have not ended
	held       []int // task → slots
	ready      []int // tasks that wait for nothing, in any order
	free       int   // slots
	hosts      map[string]int
}

// state is how far a task is.
type state int8

const (
	waiting state = iota
	ready
	running
	ended
)

// NewQueue makes a queue of all tasks. What is on a cycle, or after one, never
// becomes ready: see [Cycle].
func NewQueue(tasks []Task, s Slots) *Queue {
	n, d := len(tasks), dagOf(tasks)
	q := &Queue{
		tasks: tasks, successors: d.successors, paths: d.paths(Expected(tasks)), state: make([]state, n),
		unmet: make([]int, n), held: make([]int, n), free: s.Total, hosts: make(map[string]int),
	}
	if s.Total <= 0 {
		q.free = math.MaxInt
	}
	for host, slots := range s.Hosts {
		if host != "" && slots > 0 {
			q.hosts[host] = slots
		}
	}
	for i := range tasks {
		if q.unmet[i] = len(tasks[i].After); q.unmet[i] == 0 {
			q.markReady(i)
		}
	}
	return q
}

// Next takes a slot for the ready task of the longest remaining path that fits its
// host. It is false only if no ready task may begin now.
func (q *Queue) Next() (task int, ok bool) {
	at := q.first()
	if at < 0 {
		return 0, false
	}
	task = q.ready[at]
	q.ready = slices.Delete(q.ready, at, at+1)
	q.state[task] = running
	q.take(task, 1)
	return task, true
}

// first is the place in ready of what Next gives; -1 if it gives nothing.
func (q *Queue) first() int {
	best := -1
	for at, i := range q.ready {
		if q.hasSlot(i) && (best < 0 || q.before(i, q.ready[best])) {
			best = at
		}
	}
	return best
}

// before says which of two tasks goes first: the one with more after it, then the one that was
// named first.
func (q *Queue) before(a, b int) bool {
	return q.paths[a] > q.paths[b] || q.paths[a] == q.paths[b] && a < b
}

func (q *Queue) hasSlot(task int) bool {
	free, bounded := q.hosts[q.tasks[task].Host]
	return q.free > 0 && (free > 0 || !bounded)
}

// take takes slots for a task, or gives them back if they are below zero.
func (q *Queue) take(task, slots int) {
	q.held[task] += slots
	q.free -= slots
	if _, bounded := q.hosts[q.tasks[task].Host]; bounded {
		q.hosts[q.tasks[task].Host] -= slots
	}
}

// More takes one more slot for a running task, as for several calls of one step at
// once. It is false if none is free for it, and while Next has anything to give: a
// ready task goes first.
func (q *Queue) AcquireExtra(task int) bool {
	if q.state[task] != running || !q.hasSlot(task) || q.first() >= 0 {
		return false
	}
	q.take(task, 1)
	return true
}

// Less gives back one of the slots of a running task that has several; the last
// one goes with Done.
func (q *Queue) ReleaseExtra(task int) {
	if q.held[task] > 1 {
		q.take(task, -1)
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
	q.take(task, -q.held[task])
	if was == ready {
		at := slices.Index(q.ready, task)
		q.ready = slices.Delete(q.ready, at, at+1)
	}
	for _, k := range q.successors[task] {
		if q.unmet[k]--; q.unmet[k] == 0 && q.state[k] == waiting {
			q.markReady(k)
		}
	}
}

func (q *Queue) markReady(task int) {
	q.state[task] = ready
	q.ready = append(q.ready, task)
}
