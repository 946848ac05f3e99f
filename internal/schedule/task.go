package schedule

import (
	"math"
	"time"
)

// Task is one step of a DAG. Indices are those of the slice of tasks; one out of range
// panics.
type Task struct {
	After     []int         // tasks that must end before it begins
	Mean, P90 time.Duration // duration; 0 if unknown, see [Expected]
	Host      string        // bounded by Slots.Hosts; "" for none
}

// Slots bound concurrency. The zero value means no bound.
type Slots struct {
	Total int            // concurrent calls; 0 for no bound
	Hosts map[string]int // host → concurrent calls; 0 or missing for no bound
}

// Expected returns the expected duration of each task: Mean; else half of P90; else the mean of
// the tasks with a known duration; else, if none is known, one second, so that the longest path
// is the one with most steps.
func Expected(tasks []Task) []time.Duration {
	lengths := make([]time.Duration, len(tasks))
	sum, known := 0.0, 0
	for i := range tasks {
		lengths[i] = max(tasks[i].Mean, 0)
		if lengths[i] == 0 && tasks[i].P90 > 0 {
			lengths[i] = (tasks[i].P90 + 1) / 2
		}
		if lengths[i] > 0 {
			sum += float64(lengths[i])
			known++
		}
	}
	fallback := time.Second
	if known > 0 {
		fallback = max(time.Duration(min(sum/float64(known), math.MaxInt64/2)), 1)
	}
	for i := range lengths {
		if lengths[i] == 0 {
			lengths[i] = fallback
		}
	}
	return lengths
}

// addSaturating adds non-negative durations, up to the largest duration.
func addSaturating(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
