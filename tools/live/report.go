package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

func printTable(w io.Writer, rows []*row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "cell\tarm\tcalls\treads\tcovered\tcoverage\treplay\tceiling\tupstream\tper call\tdifferent\tothers\tmissed")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%.3f\t%.3f\t%.3f\t%d\t%.3f\t%d\t%s\t%s\n", r.cell, r.Arm, r.Calls, r.Reads, r.Covered, r.Coverage,
			r.Replay.Coverage, r.Ceiling, r.Upstream, r.PerCall, r.Different, times(r.Others), cmp.Or(strings.Join(r.Missed, " "), "-"))
	}
	return t.Flush()
}

func times(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3fx", x)
}
