package main

import (
	"fmt"
	"io"
	"slices"
)

// heads of the tables of a report, and how a row fills them.
const (
	tableHead = "| model | tools | schedule | prefetch | runs | failed | selection | completion | input k | output k | turns | calls | s | model s | waiting s | tools s | at once | makespan / bound | parallelism | ahead, used | stored | cost $ | cost-of-pass $ |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
	savingHead = "| model | tools | schedule | prefetch | turns | input tokens | output tokens | waiting for tools | time | cost | completion |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
)

func (w *row) line() string {
	score := "–"
	if w.scored > 0 {
		score = fmt.Sprintf("%.1f", w.Score)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %d | %d | %s | %.1f %% | %.1f | %.2f | %.1f | %.1f | %.2f | %.2f | %.2f | %.2f | %s | %s | %.2f | %.1f, %.1f | %.1f | %.5f | %s |\n",
		w.Model, w.Strategy, w.Schedule, onOff(w.Prefetch), w.Runs, w.Errors, score, 100*w.Rate, w.In/1000, w.Out/1000, w.Turns, w.Calls,
		w.Total, w.Thinking, w.Wait, w.Tools, ratio(w.Tools, w.Wait), ratio(w.Wait, w.Bound), w.Parallel, w.Sent, w.Used, w.Answers, w.Cost, dollars(w.Pass))
}

func ratio(a, b float64) string {
	if b <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", a/b)
}

// dollars is a cost-of-pass; nothing passed where it is 0.
func dollars(v float64) string {
	if v == 0 {
		return "–"
	}
	return fmt.Sprintf("%.5f", v)
}

// change is how much more or less one figure is than another.
func change(to, from float64) string {
	if from == 0 {
		return "–"
	}
	return fmt.Sprintf("%+.0f %%", 100*(to/from-1))
}

// printReport prints the figures of runs: a table for each level of tasks, and what plans,
// parallel calls and prefetch save.
func printReport(out io.Writer, rows []row) {
	fmt.Fprint(out, "# TPS-Bench over MCP servers\n\nMeans of runs. Tokens include those of the selection; s is from the task to the answer, of it in the model and waiting for\ntools; tools s is how long all calls took together, at once is that by the waiting. The bound is the longest path\nthrough the calls that were made, as long as they take without prefetch. Cost-of-pass is the mean cost by the mean\ncompletion.\n")
	for _, level := range []string{easy, hard, ""} {
		some := ofLevel(rows, level)
		if len(some) == 0 {
			continue
		}
		title := level + " tasks"
		if level == "" {
			title = "all tasks"
		}
		fmt.Fprintf(out, "\n## %s\n\n%s", title, tableHead)
		for _, w := range some {
			fmt.Fprint(out, w.line())
		}
	}
	fmt.Fprintf(out, "\n## Beside the same tools in a serial schedule without prefetch\n\nAll tasks.\n\n%s", savingHead)
	all := ofLevel(rows, "")
	for _, w := range all {
		i := slices.IndexFunc(all, func(b row) bool {
			return b.Arm == Arm{w.Model, w.Strategy, serial, false}
		})
		if i < 0 || all[i].Arm == w.Arm {
			continue
		}
		b := all[i]
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %+.1f |\n", w.Model, w.Strategy, w.Schedule, onOff(w.Prefetch),
			change(w.Turns, b.Turns), change(w.In, b.In), change(w.Out, b.Out), change(w.Wait, b.Wait), change(w.Total, b.Total), change(w.Cost, b.Cost), 100*(w.Rate-b.Rate))
	}
}

func ofLevel(rows []row, level string) (out []row) {
	for _, w := range rows {
		if w.Level == level {
			out = append(out, w)
		}
	}
	return out
}
