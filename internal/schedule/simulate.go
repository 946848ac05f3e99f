package schedule

import (
	"cmp"
	"slices"
	"time"
)

// Timeline is the start and end of each task, from 0.
type Timeline struct {
	Start, End []time.Duration
	Makespan   time.Duration
}

// Simulate runs a [Queue] of tasks with the durations in took (negative counts as 0). The queue
// sees only Mean. With a slot for each task the makespan is the length of the critical path. Tasks that end
// at the same time all end before the next one starts.
func Simulate(tasks []Task, took []time.Duration, s Slots) Timeline {
	t := Timeline{Start: make([]time.Duration, len(tasks)), End: make([]time.Duration, len(tasks))}
	q := NewQueue(tasks, s)
	var running []int
	for {
		for task, ok := q.Next(); ok; task, ok = q.Next() {
			t.Start[task], t.End[task] = t.Makespan, t.Makespan+max(took[task], 0)
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
