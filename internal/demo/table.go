package demo

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// writeTable prints the report for people, and what to do next: config is the
// file in which mcpschedd looks for its configuration.
func (r *report) writeTable(w io.Writer, config string) error {
	fmt.Fprintf(w, "One agent session, twice: %d calls in %d turns, straight to two MCP servers and through mcpschedd.\n", len(r.Rows), r.Turns)
	fmt.Fprintf(w, "Think times (2-6 s), tool times (100-900 ms) and the times that mcpschedd is told are divided by %g.\n", r.Speed)
	fmt.Fprintf(w, "Waits are as measured, in ms: %c through mcpschedd, %c what more it was directly.\n\n", through, direct)
	if err := r.writeRows(w); err != nil {
		return err
	}
	r.writeAccount(w)
	r.writeSums(w)
	if r.Survey != nil {
		r.Survey.write(w)
	}
	_, err := fmt.Fprintf(w, `
What mcpschedd was told: mcpschedd demo --show-config
Next, with mcpschedd on your PATH:
  1. list your servers in %s:
       [upstreams.files]
       command = "npx"
       args = ["-y", "@modelcontextprotocol/server-filesystem", "/path/to/project"]
  2. add one line to your client, for Claude Code:
       claude mcp add mcpschedd -- mcpschedd serve
`, config)
	return err
}

// writeRows prints a line per call, and one per sum.
func (r *report) writeRows(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, " #\tturn\tcall\t  direct\tmcpschedd\tdifference\tanswered\n")
	longest := r.longest()
	for i, c := range r.Rows {
		answered := fmt.Sprintf("%-7s  %s", c.Answered, bar(c.DirectMs, c.ThroughMs, longest))
		if !c.Equal {
			answered = c.Answered + ", DIFFERS"
		}
		fmt.Fprintf(t, "%2d\t%4d\t%s\t%s\t%s\n", i+1, c.Turn, c.call.short(44), sides(c.DirectMs, c.ThroughMs), answered)
	}
	for _, sum := range []struct {
		name            string
		direct, through float64
	}{
		{"waited on calls that only read", r.Direct.ReadMs, r.Through.ReadMs},
		{"waited in all, a turn for its slowest call", r.Direct.WaitedMs, r.Through.WaitedMs},
		{"to start, once", r.Direct.StartMs, r.Through.StartMs},
	} {
		fmt.Fprintf(t, "\t\t%s\t%s\t\n", sum.name, sides(sum.direct, sum.through))
	}
	return t.Flush()
}

// sides are the three columns of a pair of times.
func sides(direct, through float64) string {
	return fmt.Sprintf("%8.1f\t%9.1f\t%+10.1f", direct, through, through-direct)
}

// What a bar is made of, and how long it is at most.
const (
	through, direct = '█', '░'
	barWidth        = 20
)

// bar is a wait through mcpschedd, and behind it what more the direct one was.
func bar(directMs, throughMs, longest float64) string {
	cells := func(ms float64) int { return int(math.Round(barWidth * ms / longest)) }
	n := cells(throughMs)
	return strings.Repeat(string(through), n) + strings.Repeat(string(direct), max(0, cells(directMs)-n))
}

// longest is the longest wait of either run, and never zero.
func (r *report) longest() float64 {
	most := 0.1
	for _, c := range r.Rows {
		most = max(most, c.DirectMs, c.ThroughMs)
	}
	return most
}

// writeAccount prints what mcpschedd says of itself.
func (r *report) writeAccount(w io.Writer) {
	a := r.Account
	if a == nil {
		return
	}
	p := &a.Totals.Prefetch
	all, causes := a.wasted()
	fmt.Fprintf(w, "\nmcpschedd's own account (its resource %s):\n", statsURI)
	fmt.Fprintf(w, "  %d prefetches made: %d used (%d late), %d wasted", a.issued(), p.Used, p.Late, all)
	if all > 0 {
		fmt.Fprintf(w, " (%s)", listed(causes))
	}
	fmt.Fprintf(w, "\n  %d calls sent to the servers for the agent's %d: %.2f each\n", a.upstream(), a.Totals.Calls, a.Totals.Amplification)
	fmt.Fprintf(w, "  %.1f ms of waiting hidden\n", a.Totals.HiddenMs)
	if thought := listed(a.Totals.Declined); thought != "" {
		fmt.Fprintf(w, "  thought of and not made: %s\n", thought)
	}
}

// writeSums says in words what it comes to.
func (r *report) writeSums(w io.Writer) {
	fmt.Fprintf(w, "\nThrough mcpschedd the agent waited %s on calls that only read, and %s in all.\n",
		change(r.Direct.ReadMs, r.Through.ReadMs), change(r.Direct.WaitedMs, r.Through.WaitedMs))
	if r.Equal {
		fmt.Fprintf(w, "All %d answers were the same to the byte.\n", len(r.Rows))
	}
}

// change is the way from one time to another in words.
func change(from, to float64) string {
	word := "more"
	if to < from {
		word = "less"
	}
	return fmt.Sprintf("%.1f %% %s", 100*math.Abs(to-from)/max(from, 0.1), word)
}
