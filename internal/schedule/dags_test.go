package schedule_test

import (
	"math"
	"math/rand/v2"
	"time"

	"mcpschedd/internal/schedule"
)

// populations are DAGs of about the kind that agents make, with lengths whose tail
// is heavy.
var populations = []struct {
	name string
	draw func(r *rand.Rand) []schedule.Task
}{
	{"random DAGs", func(r *rand.Rand) []schedule.Task { return randomDAG(r, between(r, 5, 200)) }},
	{"patterns", pattern},
	{"heartbeats", func(r *rand.Rand) []schedule.Task { return lengthen(r, make([]schedule.Task, 4+r.IntN(3))) }},
}

// between draws a number such that each power of two is as likely as the next.
func between(r *rand.Rand, least, most int) int {
	return int(float64(least) * math.Pow(float64(most+1)/float64(least), r.Float64()))
}

// randomDAG draws up to four tasks to wait for from a window before each one: a
// narrow window makes a deep DAG, a wide one a flat one.
func randomDAG(r *rand.Rand, n int) []schedule.Task {
	tasks := make([]schedule.Task, n)
	window, edges := between(r, 2, n), 1+r.IntN(4)
	for i := range tasks {
		for range min(r.IntN(1+edges), i) {
			tasks[i].After = append(tasks[i].After, max(0, i-window)+r.IntN(min(i, window)))
		}
	}
	return lengthen(r, tasks)
}

// pattern draws one of the four patterns that the log of an agent showed, in the
// shares that it showed.
func pattern(r *rand.Rand) []schedule.Task {
	var tasks []schedule.Task
	switch share := r.IntN(100); {
	case share < 62: // independent
		tasks = make([]schedule.Task, 3+r.IntN(10))
	case share < 62+23: // a chain
		tasks = make([]schedule.Task, 3+r.IntN(6))
		for i := range tasks[1:] {
			tasks[i+1].After = []int{i}
		}
	case share < 62+23+11: // one, some that wait for it, one that waits for those
		tasks = make([]schedule.Task, 4+r.IntN(5))
		last := len(tasks) - 1
		for i := range last - 1 {
			tasks[i+1].After = []int{0}
			tasks[last].After = append(tasks[last].After, i+1)
		}
	default:
		return randomDAG(r, 8+r.IntN(23))
	}
	return lengthen(r, tasks)
}

// lengthen draws how long each task takes: half of the DAGs from a Pareto
// distribution of infinite variance, half from a lognormal one.
func lengthen(r *rand.Rand, tasks []schedule.Task) []schedule.Task {
	draw := func() float64 { return 0.1 / math.Pow(1-r.Float64(), 1/1.5) }
	if r.IntN(2) == 0 {
		draw = func() float64 { return 0.4 * math.Exp(r.NormFloat64()) }
	}
	for i := range tasks {
		tasks[i].Mean = time.Duration(min(draw(), 120) * float64(time.Second))
		tasks[i].P90 = 2 * tasks[i].Mean
	}
	return tasks
}

// exactly are lengths that are as expected.
func exactly(tasks []schedule.Task) []time.Duration {
	took := make([]time.Duration, len(tasks))
	for i := range tasks {
		took[i] = tasks[i].Mean
	}
	return took
}

// about are lengths that are as expected on average: half of them are not within
// a third of it.
func about(r *rand.Rand, tasks []schedule.Task) []time.Duration {
	const sigma = 0.6
	took := exactly(tasks)
	for i := range took {
		took[i] = max(1, time.Duration(float64(took[i])*math.Exp(sigma*r.NormFloat64()-sigma*sigma/2)))
	}
	return took
}

// actual are tasks whose Mean is how long they really took.
func actual(tasks []schedule.Task, took []time.Duration) []schedule.Task {
	known := make([]schedule.Task, len(tasks))
	for i := range tasks {
		known[i] = tasks[i]
		known[i].Mean = took[i]
	}
	return known
}
