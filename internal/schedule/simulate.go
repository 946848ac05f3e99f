package schedule

import (
	"cmp"
	"container/heap"
	"time"
)

// Rule is a way to order the tasks of a DAG.
type Rule int

const (
	ByCriticalPath Rule = iota // what Queue does
	FIFO                       // each starts when it can; of several the one that became ready first, or stands first
	Waves                      // levels of the DAG, each after all of the one before has ended; FIFO within
	GreedyDAG                  // batches of at most Slots.Total, each after all of the one before has ended
	CoffmanGraham              // labels of Coffman and Graham (1972) for priorities
)

// Timeline is when each task began and ended, from 0 on. Both are -1 for a task
// that is on a cycle or after one, and for what such a one keeps waiting.
type Timeline struct {
	Start, End []time.Duration
	Makespan   time.Duration
}

// Simulate runs tasks that take as long as took says (below 0: 0) by a rule. The
// rule sees Mean and P90 only. By ByCriticalPath it is Queue itself that runs.
//
// CoffmanGraham is exact for tasks of equal length on two slots, without hosts and
// conflicts, and within 2-2/p of the optimum on p of them (Lam and Sethi 1977). It
// reads no lengths: for others it is one order among many, with Graham's bound. It
// takes n² bits and is meant for some thousands of tasks.
func Simulate(tasks []Task, took []time.Duration, s Slots, r Rule) Timeline {
	t := newTimeline(len(tasks))
	switch r {
	case Waves:
		t.waves(tasks, took, s)
	case GreedyDAG:
		t.batches(tasks, took, s)
	case FIFO:
		t.run(newArrivals(tasks, s), took, 0, nil)
	case CoffmanGraham:
		q := newQueue(newGraph(tasks), s)
		q.paths = labels(q.graph)
		q.admit()
		t.run(q, took, 0, nil)
	default:
		t.run(NewQueue(tasks, s), took, 0, nil)
	}
	return *t
}

// newArrivals makes a queue that gives what became ready first.
func newArrivals(tasks []Task, s Slots) *Queue {
	q := newQueue(newGraph(tasks), s)
	q.arrivals = true
	q.paths = make([]time.Duration, len(tasks))
	q.admit()
	return q
}

func newTimeline(n int) *Timeline {
	t := &Timeline{Start: make([]time.Duration, n), End: make([]time.Duration, n)}
	for i := range n {
		t.Start[i], t.End[i] = -1, -1
	}
	return t
}

// note says when a task runs.
func (t *Timeline) note(task int, from, took time.Duration) {
	t.Start[task], t.End[task] = from, plus(from, max(took, 0))
	t.Makespan = max(t.Makespan, t.End[task])
}

// run plays a queue from a time on. Tasks that end at the same time have all ended
// before the next begins. names says which tasks those of the queue are; nil: the
// same.
func (t *Timeline) run(q *Queue, took []time.Duration, now time.Duration, names []int) {
	name := func(task int) int {
		if names == nil {
			return task
		}
		return names[task]
	}
	ends := newRanking(make([]int, len(q.tasks)), func(a, b int) bool {
		return cmp.Or(cmp.Compare(t.End[name(a)], t.End[name(b)]), a-b) < 0
	})
	for {
		for task, ok := q.Next(); ok; task, ok = q.Next() {
			t.note(name(task), now, took[name(task)])
			heap.Push(ends, task)
		}
		if ends.Len() == 0 {
			return
		}
		now = t.End[name(ends.first())]
		q.arrived++
		for ends.Len() > 0 && t.End[name(ends.first())] == now {
			q.Done(heap.Pop(ends).(int))
		}
	}
}
