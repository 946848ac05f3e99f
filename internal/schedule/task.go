package schedule

import (
	"math"
	"time"
)

// Task is one step of a DAG. Its indices are those of the slice it stands in; one
// out of range panics.
type Task struct {
	After     []int         // tasks that must have ended before it begins
	Mean, P90 time.Duration // how long it takes; 0: not known, see [Expected]
	Host      string        // what it runs against, bounded by Slots.Hosts; "": nothing
}

// Slots bound what runs at once. The zero value bounds nothing.
type Slots struct {
	Total int            // calls at once; 0: any number
	Hosts map[string]int // host → calls at once; 0, or a host that is not in it: any number
}

// Expected is how long each task takes on average. Where that is not known it is half
// of P90; where that is not known either, the mean of the tasks for which something is;
// and a second where nothing is known of any task: the longest path is then the one of
// most steps.
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

// plus adds durations of 0 and more; a sum beyond the largest duration is the largest.
func addSaturating(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
