package main

import (
	"fmt"
	"io"

	"mcpschedd/internal/replay"
)

// verdicts records which targets are met.
type verdicts struct {
	lines  []string
	missed int
}

// say records whether a target is met, and prints by how much.
func (v *verdicts) say(ok bool, format string, args ...any) {
	word := "PASS"
	if !ok {
		word = "MISS"
		v.missed++
	}
	v.lines = append(v.lines, word+"  "+fmt.Sprintf(format, args...))
}

func (v *verdicts) print(w io.Writer, set string) {
	fmt.Fprintf(w, "\n%s, targets\n", set)
	for _, l := range v.lines {
		fmt.Fprintln(w, l)
	}
}

func (v *verdicts) stale(setting string, r *replay.Report) {
	if r.Stale > 0 {
		v.say(false, "%s, %s: no stale answer served: %d", setting, r.Name, r.Stale)
	}
}

// show prints a curve and other results of its gates, and judges it.
func (s setting) show(w io.Writer, v *verdicts, gates []*replay.Report, f *floor) {
	r := gates[0]
	fmt.Fprintf(w, "%d sessions, %d calls, %d reads, %d repeats (floor: %d reads that are none)\n", r.Sessions, r.Calls, r.Reads, r.Repeats, f.Reads)
	points := curve(gates, f)
	var compared []place
	for _, x := range f.where() {
		compared = append(compared, place{x, f.at(x), coverage(points, x)})
	}
	if s.keep > 0 {
		places(w, compared, f)
		judgeCurve(v, gates[0], compared)
	}
	fmt.Fprintln(w, "gate    issued  coverage  floor   accuracy  amplification  hidden_ms  late  stale")
	for i, r := range gates {
		if s.keep == 0 || i%8 == 0 {
			fmt.Fprintf(w, "%s  %.4f  %.4f    %.4f  %.3f     %.3f          %-9d  %-4d  %d\n", r.Name, r.IssuedPerCall, r.Coverage, f.at(r.IssuedPerCall), r.Accuracy, r.Amplification, r.Hidden, r.Late, r.Stale)
		}
		v.stale(s.name, r)
		if s.keep == 0 && s.gates[i] == usualGate {
			judgeDefaults(v, r)
			defer fmt.Fprintf(w, "declined at %.2f: %v\n", usualGate, r.Declined)
		}
	}
	calibration(w, r.Calibration)
}

func line(w io.Writer, r *replay.Report) {
	fmt.Fprintf(w, "%s: issued %d (%.4f a call), used %d, accuracy %.3f, coverage %.4f, repeats served %d, amplification %.3f, hidden %d of %d ms, stale %d\n",
		r.Name, r.Issued, r.IssuedPerCall, r.Used, r.Accuracy, r.Coverage, r.RepeatsServed, r.Amplification, r.Hidden, r.WaitBefore, r.Stale)
}

// place is a point at which the curves are compared.
type place struct{ issued, floor, ours float64 }

func (p place) times() float64 { return p.ours / p.floor }

// places prints the curves side by side: at the floor's own points, and in steps.
func places(w io.Writer, all []place, f *floor) {
	fmt.Fprintln(w, "issued  floor   ours    times")
	shown := 0.0
	for _, p := range all {
		own := false
		for _, c := range f.Curve {
			own = own || c.Issued == p.issued
		}
		if own || p.issued >= shown+0.1 {
			shown = p.issued
			fmt.Fprintf(w, "%.4f  %.4f  %.4f  %.2f\n", p.issued, p.floor, p.ours, p.times())
		}
	}
}

// coding reports whether a set is the one that must exceed the floor by more everywhere.
func coding(calls int) bool { return calls > 1000 }

// judgeCurve judges a curve under the rules of the floor.
func judgeCurve(v *verdicts, r *replay.Report, all []place) {
	lowest := func(from, to float64) place {
		low := place{ours: 1, floor: 1e-9}
		for _, p := range all {
			if p.issued >= from && p.issued <= to && p.times() < low.times() {
				low = p
			}
		}
		return low
	}
	low := lowest(0, last)
	v.say(low.times() >= 1, "never under the floor: %.2f times it at %.4f issued per call", low.times(), low.issued)
	if from := 0.4; coding(r.Calls) {
		v.say(low.times() >= 1.3, "1.3 times the floor everywhere: %.2f at %.4f", low.times(), low.issued)
	} else {
		low = lowest(from, 1)
		v.say(low.times() >= 1.3, "1.3 times the floor from 0.4 to 1.0: %.2f at %.4f", low.times(), low.issued)
	}
}

// judgeDefaults judges the results with the defaults.
func judgeDefaults(v *verdicts, r *replay.Report) {
	v.say(r.Accuracy >= 0.5, "at the defaults accuracy of at least 0.5: %.3f", r.Accuracy)
	v.say(r.IssuedPerCall >= 0.01, "at the defaults at least 0.01 issued per call: %.4f", r.IssuedPerCall)
	v.say(r.Amplification <= 1.3, "at the defaults at most 1.3 upstream calls per call: %.3f", r.Amplification)
	v.say(r.Stale == 0, "at the defaults no stale answer served: %d", r.Stale)
}

func calibration(w io.Writer, deciles []replay.Decile) {
	fmt.Fprintln(w, "P from  calls    expected  came")
	for _, d := range deciles {
		mark := ""
		if d.N >= 100 && (d.Expected-d.Observed > 0.1 || d.Observed-d.Expected > 0.1) {
			mark = "  off by more than 0.1"
		}
		if d.N > 0 {
			fmt.Fprintf(w, "%.1f     %-7d  %.3f     %.3f%s\n", d.From, d.N, d.Expected, d.Observed, mark)
		}
	}
}
