package schedule

import (
	"cmp"
	"slices"
	"time"
)

// Timeline is when each task began and ended, from 0 on. Both are -1 for a task
// that is on a cycle or after one.
type Timeline struct {
	Start, End []time.Duration
	Makespan   time.Duration
}

// Simulate runs a [Queue] of tasks that take as long as took says (below 0: 0). The
// queue sees Mean and P90 only. Tasks that end at the same time have all ended before
// the next begins.
func Simulate(tasks []Task, took []time.Duration, s Slots) Timeline {
	t := Timeline{Start: make([]time.Duration, len(tasks)), End: make([]time.Duration, len(tasks))}
	for i := range tasks {
		t.Start[i], t.End[i] = -1, -1
	}
	q := NewQueue(tasks, s)
	var running []int
	for {
		for task, ok := q.Next(); ok; task, ok = q.Next() {
			t.Start[task], t.End[task] = t.Makespan, addSaturating(t.Makespan, max(took[task], 0))
			running = append(running, task)
		}
		if len(running) == 0 {
			return t
		}
		t.Makespan = t.End[slices.MinFunc(running, func(a, b int) int { return cmp.Compare(t.End[a], t.End[b]) })]
		running = slices.DeleteFunc(running, func(task int) bool {
			over := t.End[task] == t.Makespan
			if over {
				q.Done(task)
			}
			return over
		})
	}
}
