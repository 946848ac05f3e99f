package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"mcpschedd/internal/toolsearch"
)

// printRecall prints what is found.
func (b *benchmark) printRecall(out io.Writer) {
	x := toolsearch.New(b.tools)
	var plain, context sum
	b.measure(x, b.tasks, nil, &plain)
	b.measure(x, b.tasks, []byte("{}"), &context)
	learned := b.crossValidate(x, 5, 5)
	fmt.Fprintf(out, "%d tools, %.0f tasks, %.0f steps with a tool of their own\n\n", len(b.tools), plain.tasks, plain.steps)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "recall at 1, 5, 10\ttask → its tools\tfirst hit is one\tstep → its tool")
	for _, row := range []struct {
		name string
		figures
	}{
		{"words alone", plain.mean()},
		{"and the session's earlier calls", context.mean()},
		{"and what was learned of other tasks (5 folds, 5 times)", learned},
	} {
		fmt.Fprintf(w, "%s\t%.3f %.3f %.3f\t%.3f\t%.3f %.3f %.3f\n", row.name,
			row.task[0], row.task[1], row.task[2], row.hit, row.step[0], row.step[1], row.step[2])
	}
	w.Flush()
}

// printLatency prints how long it takes to build an index of 2,000 tools, and to search it for the
// texts of tasks and steps. The minimum of several repetitions counts.
func (b *benchmark) printLatency(out io.Writer) {
	const wanted = 2000
	var tools []toolsearch.Tool
	for i := range wanted {
		t := b.tools[i%len(b.tools)]
		t.Key, t.Server = fmt.Sprintf("%d/%s", i/len(b.tools), t.Key), fmt.Sprintf("%s-%d", t.Server, i/len(b.tools))
		tools = append(tools, t)
	}
	began := time.Now()
	x := toolsearch.New(tools)
	fmt.Fprintf(out, "%d tools: index made in %v\n", wanted, time.Since(began).Round(time.Millisecond))
	session := begin(b.train(x, b.tasks))
	measure := func(what string, queries []string) {
		var took []time.Duration
		for _, query := range queries {
			least := time.Hour // the minimum, as the machine may be busy
			for range 5 {
				began := time.Now()
				x.Search(query, 10, session)
				least = min(least, time.Since(began))
			}
			took = append(took, least)
		}
		slices.Sort(took)
		fmt.Fprintf(out, "search for %s: median %v, 99 %% %v\n", what, took[len(took)/2].Round(10*time.Microsecond), took[len(took)*99/100].Round(10*time.Microsecond))
	}
	var tasks, steps []string
	for i := range b.tasks {
		tasks = append(tasks, b.tasks[i].question)
		for _, st := range b.tasks[i].steps {
			steps = append(steps, st.text)
		}
	}
	measure("a task", tasks)
	measure("a step", steps)
}
