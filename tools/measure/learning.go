package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/replay"
	"mcpschedd/tools/classes"
)

// processes is how many learners share one state.
const processes = 8

// learning prints how coverage grows from a cold start, with all sessions of a set
// in their order: of one learner, and of eight that see an eighth of the sessions
// each, keep what they learned in one state after each, and read what the others
// kept.
func learning(w io.Writer, o options, set string) error {
	train, bench, err := traces(o.dir, set)
	if err != nil {
		return err
	}
	s := asConfigured()
	model, err := classes.Read(filepath.Join(o.dir, "traces", s.classes))
	if err != nil {
		return err
	}
	all := slices.Concat(replay.Sessions(train), replay.Sessions(bench))
	arm := s.arm
	arm.Rules.MinProbability = usualGate

	one := replay.New(s.options(model), arm)
	one.Play(all)

	var state predict.State
	var learners []*predict.Model
	shared := s.options(model)
	shared.Learner = func(session int) *predict.Model { return learners[session%processes] }
	shared.Ended = func(session int) {
		state, err = learners[session%processes].Merge(state)
	}
	eight := replay.New(shared, arm)
	for range processes {
		learners = append(learners, eight.NewLearner())
	}
	again := slices.Concat(replay.Sessions(train), replay.Sessions(bench))
	eight.Play(again)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s, from a cold start, at the defaults\n", set)
	fmt.Fprintln(w, "sessions     one: coverage  accuracy  issued   eight: coverage  accuracy  issued")
	a, b := one.Reports()[0].Rows, eight.Reports()[0].Rows
	for from, to := 0, 1; from < len(a); from, to = to, next(to) {
		to = min(to, len(a))
		x, y := sumOf(a[from:to]), sumOf(b[from:to])
		fmt.Fprintf(w, "%4d - %-4d  %.4f         %.3f     %-6d   %.4f           %.3f     %d\n", from+1, to, x.Coverage, x.Accuracy, x.Issued, y.Coverage, y.Accuracy, y.Issued)
	}
	x, y := sumOf(a), sumOf(b)
	fmt.Fprintf(w, "all          %.4f         %.3f     %-6d   %.4f           %.3f     %d\n", x.Coverage, x.Accuracy, x.Issued, y.Coverage, y.Accuracy, y.Issued)
	return nil
}

// sums are what some sessions come to.
type sums struct {
	Coverage, Accuracy float64
	Issued             int
}

func sumOf(rows []replay.Figures) sums {
	var all replay.Figures
	for _, r := range rows {
		all.Issued += r.Issued
		all.Used += r.Used
		all.UsedByRepeats += r.UsedByRepeats
		all.Reads += r.Reads
		all.Repeats += r.Repeats
	}
	share := func(a, b int) float64 { return float64(a) / float64(max(b, 1)) }
	return sums{share(all.Used-all.UsedByRepeats, all.Reads-all.Repeats), share(all.Used, all.Issued), all.Issued}
}

// next is where the next group of sessions ends: the first of 1, 2, 5, 10, 20, 50,
// 100, … that is more than n.
func next(n int) int {
	for d := 1; ; d *= 10 {
		for _, end := range []int{d, 2 * d, 5 * d} {
			if end > n {
				return end
			}
		}
	}
}
