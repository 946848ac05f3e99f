package telemetry

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// WriteTo writes the report line, and a table for people: does it pay for itself? What
// was saved comes first, then what that cost, then how it came about.
func (s *Stats) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	if s.Totals.Calls+s.Totals.Prefetch.Issued+s.Totals.Plans == 0 {
		b.WriteString("no calls so far\n")
		return b.WriteTo(w)
	}
	if line := s.Line(); line != "" {
		fmt.Fprintf(&b, "%s\n\n", line)
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	s.result(row)
	s.guesses(row)
	t.Flush()
	s.slowest(&b)
	return b.WriteTo(w)
}

// result says what was saved, and what that cost.
func (s *Stats) result(row func(name, format string, args ...any)) {
	f := &s.Totals
	row("waiting", "%s hidden, %s of it by prefetches; %s waited", duration(f.HiddenMS), duration(f.HiddenByPrefetch), duration(f.WaitedMS))
	row("saved", "%d turns of the model, about %d tokens", f.TurnsSaved.Plan+f.TurnsSaved.Inline, f.TokensSaved)
	row("cost", "%d requests to upstreams, %.2f per call%s", f.UpstreamCalls, f.Amplification, harmed(f.Harm))
	row("calls", "%d in %d sessions, %d of them open: %d from the store, %d joined, %d fetched, %d failed; %d errors",
		f.Calls, s.Sessions, s.Open, f.ServedStored, f.Joined, f.Fetched, f.Failed, f.Errors)
	if f.EventsLost > 0 {
		row("lost", "%d lines of the record", f.EventsLost)
	}
}

// harmed is what prefetches did to others, to be added to a sentence; "": nothing.
func harmed(h Harm) string {
	var b bytes.Buffer
	if h.ForegroundWaitMS > 0 {
		fmt.Fprintf(&b, "; %s that calls waited for prefetches", duration(h.ForegroundWaitMS))
	}
	for _, did := range []struct {
		n    int64
		what string
	}{{h.RateLimited, "times that a host was called too often"}, {h.Evictions, "answers evicted"}, {h.Questions, "questions to clients"}} {
		if did.n > 0 {
			fmt.Fprintf(&b, "; %d %s", did.n, did.what)
		}
	}
	return b.String()
}

// guesses says how that came about. The references are the seed's, and no verdict.
func (s *Stats) guesses(row func(name, format string, args ...any)) {
	f, p, r := &s.Totals, &s.Totals.Prefetch, s.Rates()
	if p.Issued > 0 {
		row("prefetches", "%d: %.0f%% used (reference: 60%% or more), %d of them late; %d wasted%s",
			p.Issued, 100*r.PrefetchHit, p.Late, sumOf(p.Wasted), listed(p.Wasted))
	}
	if n := sumOf(f.Declined); n > 0 {
		row("declined", "%d%s; %.0f%% called all the same (reference: 10%% or less)", n, listed(f.Declined), 100*r.DeclineRecallLoss)
	}
	if f.Predictions > 0 {
		row("sizes", "%d predicted, %.0f%% overrun (reference: 15%% or less)", f.Predictions, 100*r.CostOverrun)
	}
	if f.BestMS > 0 {
		row("regret", "%s of the %s that the best choices would have hidden", duration(f.RegretMS), duration(f.BestMS))
	}
}

// mostRows of tools are printed.
const mostRows = 10

// slowest writes the tools with most waiting, hidden or not.
func (s *Stats) slowest(w io.Writer) {
	names := slices.SortedFunc(maps.Keys(s.Tools), func(a, b string) int {
		x, y := s.Tools[a], s.Tools[b]
		return cmp.Or(cmp.Compare(y.HiddenMS+y.WaitedMS, x.HiddenMS+x.WaitedMS), cmp.Compare(a, b))
	})
	if len(names) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\ntool\tcalls\thidden\twaited\tprefetches\tused\tp50\tp90")
	for _, name := range names[:min(len(names), mostRows)] {
		p := s.Tools[name]
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%d\t%d\t%s\t%s\n", printable(name), p.Calls, duration(p.HiddenMS), duration(p.WaitedMS),
			p.Prefetch.Issued, p.Prefetch.Used, duration(p.LatencyMS.P50), duration(p.LatencyMS.P90))
	}
	t.Flush()
	if more := len(names) - mostRows; more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
}

// listed are counts by name, the largest first.
func listed(m map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
	var b bytes.Buffer
	for i, name := range names {
		fmt.Fprintf(&b, "%s%s %d", []string{" (", ", "}[min(i, 1)], printable(name), m[name])
	}
	if len(names) > 0 {
		b.WriteString(")")
	}
	return b.String()
}

// duration is a time of milliseconds, to three digits or so.
func duration(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}
