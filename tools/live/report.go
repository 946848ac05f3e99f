package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

func printTable(w io.Writer, rows []*row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "cell\tarm\tcalls\treads\tcovered\tcoverage\treplay\tceiling\tupstream\tper call\tdifferent\tothers\twaiting\tmissed\tleft out")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%.3f\t%.3f\t%.3f\t%d\t%.3f\t%d\t%s\t%s\t%s\t%s\n", r.cell, r.Arm, r.Calls, r.Reads, r.Covered, r.Coverage,
			r.Replay.Coverage, r.Ceiling, r.Upstream, r.PerCall, r.Different, times(r.Others), times(r.Waiting), cmp.Or(strings.Join(r.Missed, " "), "-"), most(r.Declined))
	}
	return t.Flush()
}

func times(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3fx", x)
}

// most returns the three most frequent reasons.
func most(reasons map[string]int) string {
	names := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	})
	var all []string
	for _, name := range names[:min(3, len(names))] {
		all = append(all, fmt.Sprintf("%s %d", name, reasons[name]))
	}
	return strings.Join(all, ", ")
}
