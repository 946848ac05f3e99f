package schedule_test

import (
	"math"
	"math/rand/v2"
	"time"

	"mcpschedd/internal/schedule"
)

// between draws a number from a logarithmic distribution.
func between(r *rand.Rand, least, most int) int {
	return int(float64(least) * math.Pow(float64(most+1)/float64(least), r.Float64()))
}

// randomDAG draws up to four predecessors of each task from a window of tasks before it. A narrow
// window makes a deep DAG, a wide one a flat one.
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

// lengthen draws the durations of tasks: half of the DAGs from a Pareto distribution of infinite
// variance, half from a lognormal one.
func lengthen(r *rand.Rand, tasks []schedule.Task) []schedule.Task {
	draw := func() float64 { return 0.1 / math.Pow(1-r.Float64(), 1/1.5) }
	if r.IntN(2) == 0 {
		draw = func() float64 { return 0.4 * math.Exp(r.NormFloat64()) }
	}
	for i := range tasks {
		tasks[i].Mean = time.Duration(min(draw(), 120) * float64(time.Second))
	}
	return tasks
}

// exactly returns the expected durations.
func exactly(tasks []schedule.Task) []time.Duration {
	took := make([]time.Duration, len(tasks))
	for i := range tasks {
		took[i] = tasks[i].Mean
	}
	return took
}
