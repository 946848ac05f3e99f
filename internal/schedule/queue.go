package schedule

import (
	"slices"
	"time"
)

// Queue decides which task of a DAG starts next. The caller starts the tasks that Next returns,
// and calls Done when they have ended. It is not safe for concurrent use.
//
// Next scans all ready tasks, which is fast enough for plans of hundreds of tasks.
type Queue struct {
	tasks      []Task
	successors [][]int         // task → tasks after it
	paths      []time.Duration // longest path from the beginning of each task to the end, including skipped tasks
	unmet      []int           // task → edges to tasks that have not ended; -1 if it has ended itself
	held       []int           // task → slots held
	ready      []int           // tasks that may begin, unordered
	free       int             // slots
	hosts      map[string]int  // host → free slots
}

// NewQueue returns a queue of all tasks. Tasks on a cycle, or after one, never become ready:
// see [Cycle].
func NewQueue(tasks []Task, s Slots) *Queue {
	n, after := len(tasks), make([][]int, len(tasks))
	for i := range tasks {
		after[i] = tasks[i].After
	}
	order, successors := topological(after)
	paths := Expected(tasks)
	for _, i := range slices.Backward(order) {
		longest := time.Duration(0)
		for _, k := range successors[i] {
			longest = max(longest, paths[k])
		}
		paths[i] += longest
	}
	q := &Queue{
		tasks: tasks, successors: successors, paths: paths,
		unmet: make([]int, n), held: make([]int, n), free: s.Total, hosts: make(map[string]int),
	}
	for host, slots := range s.Hosts {
		if host != "" && slots > 0 {
			q.hosts[host] = slots
		}
	}
	for i := range tasks {
		if q.unmet[i] = len(tasks[i].After); q.unmet[i] == 0 {
			q.ready = append(q.ready, i)
		}
	}
	return q
}

// Next takes a slot for the ready task with the longest remaining path at a host with a free
// slot. It returns false if no ready task may begin now.
func (q *Queue) Next() (task int, ok bool) {
	at := q.first()
	if at < 0 {
		return 0, false
	}
	task = q.ready[at]
	q.ready = slices.Delete(q.ready, at, at+1)
	q.take(task, 1)
	return task, true
}

// first is the index in ready of the task that Next returns; -1 if there is none. Of equal paths
// it is the first task.
func (q *Queue) first() int {
	best := -1
	for at, i := range q.ready {
		if !q.hasSlot(i) {
			continue
		}
		if best < 0 || q.paths[i] > q.paths[q.ready[best]] || q.paths[i] == q.paths[q.ready[best]] && i < q.ready[best] {
			best = at
		}
	}
	return best
}

func (q *Queue) hasSlot(task int) bool {
	free, bounded := q.hosts[q.tasks[task].Host]
	return q.free > 0 && (free > 0 || !bounded)
}

// take takes slots for a task, or releases them if negative.
func (q *Queue) take(task, slots int) {
	q.held[task] += slots
	q.free -= slots
	if _, bounded := q.hosts[q.tasks[task].Host]; bounded {
		q.hosts[q.tasks[task].Host] -= slots
	}
}

// AcquireExtra takes one more slot for a running task that makes several calls at once. It
// returns false if no slot is free, or if Next would return a task, as ready tasks go first.
func (q *Queue) AcquireExtra(task int) bool {
	if q.held[task] == 0 || !q.hasSlot(task) || q.first() >= 0 {
		return false
	}
	q.take(task, 1)
	return true
}

// ReleaseExtra releases one slot of a running task that holds several. Done releases the last.
func (q *Queue) ReleaseExtra(task int) {
	if q.held[task] > 1 {
		q.take(task, -1)
	}
}

// Done marks a task as ended, or as skipped if it has not started. It releases the task's slots,
// and the tasks after it may become ready. Further calls do nothing.
func (q *Queue) Done(task int) {
	if q.unmet[task] < 0 {
		return
	}
	q.unmet[task] = -1
	q.take(task, -q.held[task])
	q.ready = slices.DeleteFunc(q.ready, func(i int) bool { return i == task })
	for _, k := range q.successors[task] {
		if q.unmet[k]--; q.unmet[k] == 0 {
			q.ready = append(q.ready, k)
		}
	}
}
