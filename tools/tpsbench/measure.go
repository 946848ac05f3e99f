package main

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/schedule"
)

// match says of calls which subtask they are for: by their id, as the scripted model gives it,
// else the first of the same tool that has no call yet.
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

// work are the calls of a run that are the task's, not the search for tools nor a whole plan.
func (r *Run) work() (out []Called) {
	for _, c := range r.Calls {
		if !slices.Contains(ownTools, c.Tool) {
			out = append(out, c)
		}
	}
	return out
}

// parallelism is 1 if a run made its calls in as few turns as the task's dependencies allow,
// and 0 if it made one a turn.
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

// reward is what a trainer rewards: completion, and half as much again for parallelism, which
// counts for nothing without it.
func (r *Run) reward() float64 { return r.Rate * (1 + r.Parallel) / 2 }

// lengths are how long the subtasks of each task take, by the runs without prefetch: task and
// subtask → the median.
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

// bound is the least time in which the calls that a run made can be made, in slots: that of the
// longest path through what it did of the task, or of all the work over the slots.
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
		tasks[i] = schedule.Task{After: after[i], Mean: 1} // a nanosecond: what was not called takes no time, but what is not known would be guessed
		if made[s.ID] {
			tasks[i].Mean = max(took[[2]string{t.ID, s.ID}], 1)
		}
		sum += tasks[i].Mean
	}
	path, _ := schedule.CriticalPath(tasks)
	return max(path, sum/time.Duration(max(slots, 1)))
}

// row is what an arm came to at a level of tasks, as means of its runs.
type row struct {
	Arm
	Level                 string
	Runs, Errors          int
	Score, Rate           float64
	scored                int
	In, Out               float64
	Turns, Calls          float64
	Total, Thinking, Wait float64 // seconds
	Tools                 float64 // seconds of all calls together
	Cost, Pass            float64 // dollars; what it costs until a task is complete: the mean cost by the mean rate
	Bound                 float64 // seconds, least makespan
	Parallel              float64
	Sent, Used, Answers   float64 // by the proxy: calls ahead, those asked for, answers from its store
}

// tally makes the rows of each arm at each level and, with the level "", of all.
func tally(runs []Run, tasks []Task, slots int) []row {
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
		for _, level := range []string{runs[i].Level, ""} {
			k := key{runs[i].Arm, level}
			if rows[k] == nil {
				rows[k] = &row{Arm: k.Arm, Level: level}
			}
			rows[k].add(&runs[i], bound(&runs[i], byID[runs[i].Task], took, slots).Seconds())
		}
	}
	var out []row
	for _, r := range rows {
		r.mean()
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Model, b.Model), place(a.Strategy, none, rule, self, find)-place(b.Strategy, none, rule, self, find),
			place(a.Schedule, serial, parallel, plan)-place(b.Schedule, serial, parallel, plan), cmp.Compare(onOff(a.Prefetch), onOff(b.Prefetch)))
	})
	return out
}

func place(name string, all ...string) int { return slices.Index(all, name) }

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func (w *row) add(r *Run, bound float64) {
	if r.Error != "" {
		w.Errors++
		return
	}
	w.Runs++
	if r.Score != nil {
		w.Score, w.scored = w.Score+*r.Score, w.scored+1
	}
	calls := r.work()
	for _, c := range calls {
		w.Tools += c.Took
	}
	for to, v := range map[*float64]float64{
		&w.Rate: r.Rate, &w.In: float64(r.In), &w.Out: float64(r.Out), &w.Turns: float64(r.Turns), &w.Calls: float64(len(calls)),
		&w.Total: r.Total, &w.Thinking: r.Thinking, &w.Wait: r.Waiting, &w.Cost: r.Cost, &w.Bound: bound, &w.Parallel: r.Parallel,
		&w.Sent: float64(r.Proxy.Sent), &w.Used: float64(r.Proxy.Used), &w.Answers: float64(r.Proxy.Stored),
	} {
		*to += v
	}
}

func (w *row) mean() {
	n := float64(max(w.Runs, 1))
	for _, v := range []*float64{&w.Rate, &w.In, &w.Out, &w.Turns, &w.Calls, &w.Total, &w.Thinking, &w.Wait, &w.Tools, &w.Cost, &w.Bound, &w.Parallel, &w.Sent, &w.Used, &w.Answers} {
		*v /= n
	}
	w.Score /= float64(max(w.scored, 1))
	if w.Rate > 0 {
		w.Pass = w.Cost / w.Rate
	}
}

// spread is the mean and the standard deviation.
func spread(all []float64) (mean, deviation float64) {
	for _, v := range all {
		mean += v / float64(len(all))
	}
	for _, v := range all {
		deviation += (v - mean) * (v - mean) / float64(len(all))
	}
	return mean, math.Sqrt(deviation)
}
