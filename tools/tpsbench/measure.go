package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/schedule"
)

// match assigns calls to subtasks: by their id, which the scripted model sets, else to the first
// subtask of the same tool without a call.
func (r *Run) match(t Task) {
	taken := make(map[string]bool)
	for i := range r.Calls {
		c := &r.Calls[i]
		id := strings.TrimSuffix(c.ID, guessed)
		for _, s := range t.Subtasks {
			if s.Tool == c.Tool && !taken[s.ID] && (c.Subtask == "" || s.ID == id) {
				c.Subtask = s.ID
			}
		}
		if !c.Failed {
			taken[c.Subtask] = true
		}
	}
}

// work returns the calls of a run that belong to the task, without searches for tools and whole
// plans.
func (r *Run) work() (out []Called) {
	for _, c := range r.Calls {
		if !slices.Contains(ownTools, c.Tool) {
			out = append(out, c)
		}
	}
	return out
}

// parallelism is 1 if a run made its calls in as few turns as the task's dependencies allow, and 0
// if it made one call per turn.
func parallelism(r *Run, t Task) float64 {
	calls, turns := r.work(), make(map[int]bool)
	for _, c := range calls {
		turns[c.Turn] = true
	}
	least := max(t.depth(), 1)
	switch n := len(calls); {
	case n == 0:
		return 0
	case n <= least:
		return 1
	default:
		return min(max(float64(n-len(turns))/float64(n-least), 0), 1)
	}
}

// reward is the reward for trainers: completion, and up to the same again for parallelism, which
// counts for nothing without completion.
func (r *Run) reward() float64 { return r.Rate * (1 + r.Parallel) / 2 }

// lengths returns the latencies of the subtasks of each task, from the runs without prefetch: task
// and subtask → median.
func lengths(runs []Run) map[[2]string]time.Duration {
	all := make(map[[2]string][]float64)
	for _, r := range runs {
		if r.Prefetch {
			continue
		}
		for _, c := range r.work() {
			if c.Subtask != "" && !c.Failed {
				key := [2]string{r.Task, c.Subtask}
				all[key] = append(all[key], c.Took)
			}
		}
	}
	out := make(map[[2]string]time.Duration)
	for key, took := range all {
		slices.Sort(took)
		out[key] = seconds(took[len(took)/2])
	}
	return out
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// bound returns the minimum makespan of a run's calls over slots: the longest path of the subtasks
// that it did, or all work divided by the slots, whichever is more.
func bound(r *Run, t Task, took map[[2]string]time.Duration, slots int) time.Duration {
	made := make(map[string]bool)
	for _, c := range r.work() {
		made[c.Subtask] = true
	}
	after, err := t.after()
	if err != nil {
		return 0
	}
	tasks, sum := make([]schedule.Task, len(t.Subtasks)), time.Duration(0)
	for i, s := range t.Subtasks {
		tasks[i] = schedule.Task{After: after[i], Mean: 1} // a nanosecond: subtasks that were not called take no time, but 0 would mean unknown
		if made[s.ID] {
			tasks[i].Mean = max(took[[2]string{t.ID, s.ID}], 1)
		}
		sum += tasks[i].Mean
	}
	path := schedule.Simulate(tasks, schedule.Expected(tasks), schedule.Slots{Total: len(tasks)}).Makespan
	return max(path, sum/time.Duration(max(slots, 1)))
}

// metric is a column of the tables: its mean over runs. If it has two parts, their means are
// divided, as for cost-of-pass (section 4.2 of the paper).
type metric struct {
	name, format string
	scale        float64
	of           func(m *measured) float64 // NaN if unknown
	by           func(m *measured) float64 // nil means 1
}

// measured is a run with its bound.
type measured struct {
	*Run
	work  float64 // total seconds of all calls
	calls int
	bound float64 // minimum makespan in seconds
}

var (
	completion = metric{"completion", "%.1f %%", 100, func(m *measured) float64 { return m.Rate }, nil}
	inTokens   = metric{"input k", "%.1f", 1e-3, func(m *measured) float64 { return float64(m.In) }, nil}
	outTokens  = metric{"output k", "%.2f", 1e-3, func(m *measured) float64 { return float64(m.Out) }, nil}
	allTokens  = metric{"tokens", "%.1f k", 1e-3, func(m *measured) float64 { return float64(m.In + m.Out) }, nil}
	turnsMade  = metric{"turns", "%.1f", 1, func(m *measured) float64 { return float64(m.Turns) }, nil}
	wholeTime  = metric{"time s", "%.2f", 1, func(m *measured) float64 { return m.Total }, nil}
	waiting    = metric{"waiting s", "%.2f", 1, func(m *measured) float64 { return m.Waiting }, nil}
	costs      = metric{"cost, 0.001 $", "%.2f", 1e3, func(m *measured) float64 { return m.Cost }, nil}
)

// metrics are the columns of a report.
var metrics = []metric{
	{"selection", "%.1f", 1, func(m *measured) float64 {
		if m.Score == nil {
			return math.NaN()
		}
		return *m.Score
	}, nil},
	completion, inTokens, outTokens, turnsMade,
	{"calls", "%.1f", 1, func(m *measured) float64 { return float64(m.calls) }, nil},
	wholeTime,
	{"model s", "%.2f", 1, func(m *measured) float64 { return m.Thinking }, nil},
	waiting,
	{"tools s", "%.2f", 1, func(m *measured) float64 { return m.work }, nil},
	{"at once", "%.2f", 1, func(m *measured) float64 { return m.work }, func(m *measured) float64 { return m.Waiting }},
	{"makespan / bound", "%.2f", 1, func(m *measured) float64 { return m.Waiting }, func(m *measured) float64 { return m.bound }},
	{"parallelism", "%.2f", 1, func(m *measured) float64 { return m.Parallel }, nil},
	{"ahead", "%.1f", 1, func(m *measured) float64 { return float64(m.Proxy.Sent) }, nil},
	{"used", "%.1f", 1, func(m *measured) float64 { return float64(m.Proxy.Used) }, nil},
	{"stored", "%.1f", 1, func(m *measured) float64 { return float64(m.Proxy.Stored) }, nil},
	costs,
	{"cost-of-pass", "%.2f", 1e3, func(m *measured) float64 { return m.Cost }, func(m *measured) float64 { return m.Rate }},
}

// row is the result of an arm at a level of tasks.
type row struct {
	Arm
	level  string // "" for all levels
	runs   []*measured
	errors int
}

// value returns a metric of a row, if it is known.
func (w *row) value(m metric) (float64, bool) {
	sum, by := 0.0, 0.0
	for _, r := range w.runs {
		v, one := m.of(r), 1.0
		if math.IsNaN(v) {
			continue
		}
		if m.by != nil {
			one = m.by(r)
		}
		sum, by = sum+v, by+one
	}
	return m.scale * sum / by, by > 0
}

// text formats a metric of a row.
func (w *row) text(m metric) string {
	v, known := w.value(m)
	if !known {
		return "–"
	}
	return fmt.Sprintf(m.format, v)
}

// tally returns the rows of each arm at each level and, with the level "", of all levels.
func tally(runs []Run, tasks []Task, slots int) []*row {
	took := lengths(runs)
	byID := make(map[string]Task)
	for _, t := range tasks {
		byID[t.ID] = t
	}
	type key struct {
		Arm
		level string
	}
	rows := make(map[key]*row)
	for i := range runs {
		m := &measured{Run: &runs[i]}
		m.bound = bound(m.Run, byID[m.Task], took, slots).Seconds()
		for _, c := range runs[i].work() {
			m.work, m.calls = m.work+c.Took, m.calls+1
		}
		for _, k := range []key{{m.Arm, m.Level}, {m.Arm, ""}} {
			if rows[k] == nil {
				rows[k] = &row{Arm: k.Arm, level: k.level}
			}
			if m.Error != "" {
				rows[k].errors++
			} else {
				rows[k].runs = append(rows[k].runs, m)
			}
		}
	}
	return slices.SortedFunc(maps.Values(rows), func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.Model, b.Model), slices.Index(strategies, a.Strategy)-slices.Index(strategies, b.Strategy),
			slices.Index(schedules, a.Schedule)-slices.Index(schedules, b.Schedule), cmp.Compare(a.prefetches(), b.prefetches()))
	})
}

// spread returns the mean and the standard deviation.
func spread(all []float64) (mean, deviation float64) {
	for _, v := range all {
		mean += v / float64(len(all))
	}
	for _, v := range all {
		deviation += (v - mean) * (v - mean) / float64(len(all))
	}
	return mean, math.Sqrt(deviation)
}
