package schedule_test

import (
	"slices"
	"time"

	"mcpschedd/internal/schedule"
)

// shortest returns the minimum makespan. Whenever a task ends it tries each set of tasks to begin,
// including none, since waiting for a task can be better than filling a slot.
func shortest(tasks []schedule.Task, s schedule.Slots) time.Duration {
	m := newModel(tasks, s)
	f := &finder{m: m, bound: lowerBound(tasks, s), paths: map[int]time.Duration{}, ends: make([]time.Duration, len(tasks))}
	for i := range tasks {
		m.path(i, f.paths)
		f.best += m.lengths[i] // all tasks in sequence, the first bound
	}
	f.best++
	f.begin(0, 0)
	return f.best
}

type finder struct {
	m           *model
	bound, best time.Duration
	paths       map[int]time.Duration
	ends        []time.Duration // of the running tasks
}

// begin decides for each task from an index on whether to begin it now, and then advances to the next
// end of a task.
func (f *finder) begin(from int, now time.Duration) {
	if f.best <= f.bound || f.hopeless(now) {
		return
	}
	for i := from; i < len(f.m.tasks); i++ {
		if f.m.fits(i) {
			f.m.holds[i], f.ends[i] = 1, now+f.m.lengths[i]
			f.begin(i+1, now)
			f.m.holds[i] = 0
		}
	}
	running := f.m.running()
	if len(running) == 0 {
		if f.m.left() == 0 {
			f.best = min(f.best, now)
		}
		return
	}
	next := slices.MinFunc(running, func(a, b int) int { return int(f.ends[a] - f.ends[b]) })
	var over []int
	for _, i := range running {
		if f.ends[i] == f.ends[next] {
			over = append(over, i)
			f.m.holds[i], f.m.ended[i] = 0, true
		}
	}
	f.begin(0, f.ends[next])
	for _, i := range over {
		f.m.holds[i], f.m.ended[i] = 1, false
	}
}

// hopeless reports whether the remaining tasks cannot end before the best makespan.
func (f *finder) hopeless(now time.Duration) bool {
	work := time.Duration(0)
	for i := range f.m.tasks {
		switch {
		case f.m.ended[i]:
		case f.m.holds[i] > 0:
			if f.ends[i]+f.paths[i]-f.m.lengths[i] >= f.best {
				return true
			}
			work += f.ends[i] - now
		default:
			if now+f.paths[i] >= f.best {
				return true
			}
			work += f.m.lengths[i]
		}
	}
	return now+work/time.Duration(f.m.slots.Total) >= f.best
}
