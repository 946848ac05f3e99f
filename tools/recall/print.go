package main

import (
	"fmt"
	"io"
	"text/tabwriter"

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
