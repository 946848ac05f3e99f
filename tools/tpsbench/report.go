package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// table is a table of the reports for the tasks of a level.
type table struct {
	Title string
	Heads []string
	Rows  [][]string
}

// tables returns the figures for each level of tasks, and the savings by plans, parallel calls and
// prefetch.
func tables(rows []*row) (out []table) {
	for _, level := range []string{easy, hard, ""} {
		t := table{Title: cmp.Or(level, "all") + " tasks", Heads: []string{"model", "tools", "schedule", "prefetch", "runs", "failed"}}
		for _, m := range metrics {
			t.Heads = append(t.Heads, m.name)
		}
		for _, w := range ofLevel(rows, level) {
			line := append(w.names(), fmt.Sprint(len(w.runs)), fmt.Sprint(w.errors))
			for _, m := range metrics {
				line = append(line, w.text(m))
			}
			t.Rows = append(t.Rows, line)
		}
		if len(t.Rows) > 0 {
			out = append(out, t)
		}
	}
	return append(out, savings(ofLevel(rows, "")))
}

func (w *row) names() []string { return []string{w.Model, w.Strategy, w.Schedule, w.prefetches()} }

// savings compares each arm with the one with the same tools, a serial schedule and no prefetch.
func savings(rows []*row) table {
	t := table{Title: "all tasks, beside the same tools in a serial schedule without prefetch", Heads: []string{"model", "tools", "schedule", "prefetch"}}
	compared := []metric{turnsMade, inTokens, outTokens, waiting, wholeTime, costs, completion}
	for _, m := range compared {
		t.Heads = append(t.Heads, m.name)
	}
	for _, w := range rows {
		i := slices.IndexFunc(rows, func(b *row) bool { return b.Arm == Arm{w.Model, w.Strategy, serial, false} })
		if i < 0 || rows[i] == w {
			continue
		}
		line := w.names()
		for _, m := range compared {
			to, _ := w.value(m)
			if from, known := rows[i].value(m); known && from != 0 {
				line = append(line, fmt.Sprintf("%+.0f %%", 100*(to/from-1)))
			} else {
				line = append(line, "–")
			}
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}

func ofLevel(rows []*row, level string) (out []*row) {
	for _, w := range rows {
		if w.level == level {
			out = append(out, w)
		}
	}
	return out
}

const legend = `Means of runs. Tokens include those of the selection. Time is from the task to the answer, of it in the model and waiting for
tools; tools s is how long all calls took together, at once is that by the waiting. The bound is the longest path
through the calls that were made, as long as they take without prefetch, or all of them over the slots. Parallelism is 1
in as few turns as the dependencies allow, 0 with one call a turn. Of prefetches: made ahead, of them used; stored are
answers from the store. Cost-of-pass is the mean cost by the mean completion, in 0.001 $.
`

// printReport prints the tables as Markdown.
func printReport(out io.Writer, rows []*row) {
	fmt.Fprintf(out, "# TPS-Bench over MCP servers\n\n%s", legend)
	for _, t := range tables(rows) {
		fmt.Fprintf(out, "\n## %s\n\n| %s |\n|%s\n", t.Title, strings.Join(t.Heads, " | "), strings.Repeat("---|", len(t.Heads)))
		for _, line := range t.Rows {
			fmt.Fprintf(out, "| %s |\n", strings.Join(line, " | "))
		}
	}
}
