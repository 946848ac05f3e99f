package telemetry

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// WriteTo writes the report line, and a table for people: does it pay for itself? What
// was saved comes first, then what that cost, then how it came about.
func (s *Stats) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, s.Fit(0, 0))
	return int64(n), err
}

// row is a line for people: what it is about, and what there is to say of that.
type row struct{ name, text string }

func line(name, format string, args ...any) row { return row{name, fmt.Sprintf(format, args...)} }

// result says what was saved, and what that cost.
func (s *Stats) result() []row {
	f := &s.Totals
	rows := []row{
		line("waiting", "%s hidden, %s of it by prefetches; %s waited", duration(f.HiddenMS), duration(f.HiddenByPrefetch), duration(f.WaitedMS)),
		line("saved", "%d turns of the model, about %d tokens", f.TurnsSaved.Plan+f.TurnsSaved.Inline, f.TokensSaved),
		line("cost", "%d requests to upstreams, %.2f per call%s", f.UpstreamCalls, f.Amplification, harmed(f.Harm)),
		line("calls", "%d in %d sessions, %d of them open: %d from the store, %d joined, %d fetched, %d failed; %d errors",
			f.Calls, s.Sessions, s.Open, f.ServedStored, f.Joined, f.Fetched, f.Failed, f.Errors),
	}
	if f.EventsLost > 0 {
		rows = append(rows, line("lost", "%d lines of the record", f.EventsLost))
	}
	return rows
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
func (s *Stats) guesses() (rows []row) {
	f, p, r := &s.Totals, &s.Totals.Prefetch, s.Rates()
	switch {
	case p.Issued > 0:
		rows = append(rows, line("prefetches", "%d: %.0f%% used (reference: 60%% or more), %d of them late; %d wasted%s%s",
			p.Issued, 100*r.PrefetchHit, p.Late, sumOf(p.Wasted), listed(p.Wasted), s.underWay("; ")))
	case p.Open > 0:
		rows = append(rows, row{"prefetches", s.underWay("")})
	case f.Reads > readsToSay:
		rows = append(rows, row{"prefetches", "none: " + s.whyNone()})
	}
	if n := sumOf(f.Declined); n > 0 {
		rows = append(rows, line("declined", "%d%s; %.0f%% called all the same (reference: 10%% or less)", n, listed(f.Declined), 100*r.DeclineRecallLoss))
	}
	if f.Predictions > 0 {
		rows = append(rows, line("sizes", "%d predicted, %.0f%% overrun (reference: 15%% or less)", f.Predictions, 100*r.CostOverrun))
	}
	if f.BestMS > 0 {
		rows = append(rows, line("regret", "%s of the %s that the best choices would have hidden", duration(f.RegretMS), duration(f.BestMS)))
	}
	return rows
}

// underWay says how many prefetches have no end yet, or, where no session is open any
// more, that their process was killed before it could tell; "": none.
func (s *Stats) underWay(before string) string {
	n := s.Totals.Prefetch.Open
	switch {
	case n == 0:
		return ""
	case s.Open == 0:
		return fmt.Sprintf("%s%d whose end was not recorded", before, n)
	}
	return fmt.Sprintf("%s%d under way", before, n)
}

// mostRows of tools are printed.
const mostRows = 10

// column of the table of tools.
type toolColumn struct {
	title string
	cell  func(name string, p *Part) string
}

// toolColumns are those of the table, what matters most first.
var toolColumns = []toolColumn{
	{"tool", func(name string, _ *Part) string { return printable(name) }},
	{"calls", func(_ string, p *Part) string { return fmt.Sprint(p.Calls) }},
	{"hidden", func(_ string, p *Part) string { return duration(p.HiddenMS) }},
	{"waited", func(_ string, p *Part) string { return duration(p.WaitedMS) }},
	{"prefetches", func(_ string, p *Part) string { return fmt.Sprint(p.Prefetch.Issued) }},
	{"used", func(_ string, p *Part) string { return fmt.Sprint(p.Prefetch.Used) }},
	{"p50", func(_ string, p *Part) string { return duration(p.LatencyMS.P50) }},
	{"p90", func(_ string, p *Part) string { return duration(p.LatencyMS.P90) }},
}

// slowest are the tools with most waiting, hidden or not, as a table with a head, at
// most so many of them.
func (s *Stats) slowest(most int) (cells [][]string) {
	names := slices.SortedFunc(maps.Keys(s.Tools), func(a, b string) int {
		x, y := s.Tools[a], s.Tools[b]
		return cmp.Or(cmp.Compare(y.HiddenMS+y.WaitedMS, x.HiddenMS+x.WaitedMS), cmp.Compare(a, b))
	})
	head := make([]string, len(toolColumns))
	for i, c := range toolColumns {
		head[i] = c.title
	}
	cells = append(cells, head)
	for _, name := range names[:min(len(names), most)] {
		p, line := s.Tools[name], make([]string, len(toolColumns))
		for i, c := range toolColumns {
			line[i] = c.cell(name, &p)
		}
		cells = append(cells, line)
	}
	return cells
}

// listed are counts by name, the largest first.
func listed(m map[string]int64) string {
	var b bytes.Buffer
	names := largest(m)
	for i, name := range names {
		fmt.Fprintf(&b, "%s%s %d", []string{" (", ", "}[min(i, 1)], printable(name), m[name])
	}
	if len(names) > 0 {
		b.WriteString(")")
	}
	return b.String()
}

// largest are the names of counts, that of the largest first.
func largest(m map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
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
