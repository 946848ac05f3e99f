package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"mcpschedd/internal/replay"
	"mcpschedd/tools/dataset"
)

// learning prints how coverage grows from a cold start, with all sessions of a set in order.
func learning(w io.Writer, o options, set string) error {
	train, bench, err := traces(o.dir, set)
	if err != nil {
		return err
	}
	s := asConfigured()
	model, err := dataset.Classes(filepath.Join(o.dir, "traces", s.classes))
	if err != nil {
		return err
	}
	arm := s.arm
	arm.Rules.MinProbability = usualGate
	p := replay.New(s.options(model), arm)
	p.Play(replay.Sessions(slices.Concat(train, bench)))

	fmt.Fprintf(w, "\n%s, from a cold start, at the defaults\nsessions     coverage  accuracy  issued\n", set)
	rows := p.Reports()[0].Rows
	for from, to := 0, 1; from < len(rows); from, to = to, next(to) {
		to = min(to, len(rows))
		var all replay.Figures
		for _, r := range rows[from:to] {
			all.Issued += r.Issued
			all.Used += r.Used
			all.UsedByRepeats += r.UsedByRepeats
			all.Reads += r.Reads
			all.Repeats += r.Repeats
		}
		share := func(a, b int) float64 { return float64(a) / float64(max(b, 1)) }
		fmt.Fprintf(w, "%4d - %-4d  %.4f    %.3f     %d\n", from+1, to, share(all.Used-all.UsedByRepeats, all.Reads-all.Repeats), share(all.Used, all.Issued), all.Issued)
	}
	return nil
}

// next returns the number of sessions after the next group: the first of 1, 2, 5, 10, 20, 50, 100,
// … that is more than n.
func next(n int) int {
	for d := 1; ; d *= 10 {
		for _, end := range []int{d, 2 * d, 5 * d} {
			if end > n {
				return end
			}
		}
	}
}
