package schedule

import (
	"cmp"
	"time"
)

// Task is one step of a DAG. Indices are those of the slice of tasks; one out of range
// panics.
type Task struct {
	After []int         // tasks that must end before it begins
	Mean  time.Duration // duration; 0 if unknown, see [Expected]
	Host  string        // bounded by Slots.Hosts; "" for none
}

// Slots bound concurrency.
type Slots struct {
	Total int            // concurrent calls
	Hosts map[string]int // host → concurrent calls; 0 or missing for no bound
}

// maxLength bounds an expected duration, so that sums do not overflow.
const maxLength = 24 * time.Hour

// Expected returns the expected duration of each task: Mean; else the mean of the tasks with
// a known duration; else, if none is known, one second, so that the longest path is the one with
// most steps.
func Expected(tasks []Task) []time.Duration {
	lengths := make([]time.Duration, len(tasks))
	sum, known := time.Duration(0), time.Duration(0)
	for i, t := range tasks {
		if lengths[i] = min(max(t.Mean, 0), maxLength); lengths[i] > 0 {
			sum += lengths[i]
			known++
		}
	}
	fallback := time.Second
	if known > 0 {
		fallback = sum / known
	}
	for i := range lengths {
		lengths[i] = cmp.Or(lengths[i], fallback)
	}
	return lengths
}
