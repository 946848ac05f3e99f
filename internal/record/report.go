package record

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Saved returns the savings in a sentence. period names the span of time, such as "today"; it may
// be empty.
func (s *Stats) Saved(period string) string {
	f := &s.Totals
	if period != "" {
		period = " " + period
	}
	if f.Calls+f.Plans+f.Prefetch.Issued == 0 {
		return "No calls" + period + "."
	}
	text := fmt.Sprintf("Saved %s of %s waiting%s.", duration(f.HiddenMS), duration(f.HiddenMS+f.WaitedMS), period)
	if n := f.TurnsSaved.Plan; n > 0 {
		text += fmt.Sprintf(" Turns of the model saved by plans: %d.", n)
	}
	return text
}

// ReportLine returns the outcomes of prefetches and predictions and the savings in one line, or
// "" if there are none. race_win is the share of used prefetches with a complete answer when
// the call came, waste the share of prefetches that no call used. In served, prefetch counts
// the first uses of prefetches and repeat all other calls that were not sent upstream.
//
// The rates can be recomputed from the log with jq:
//
//	prefetch_hit        jq -s '[.[]|select(.kind=="prefetch")]|(map(select(.fate=="used" or .fate=="late"))|length)/length'
//	decline_recall_loss jq -s '[.[]|select(.kind=="choice")]|(map(.late_called//0)|add)/(map(.declined//{}|add//0)|add)'
//	cost_overrun        jq -s '[.[]|select(.tokens>0 and .predicted_tokens>0 and (.kind=="prefetch" or .kind=="call" and (.use_of//0)==0))]|(map(select(.tokens>=1.3*.predicted_tokens))|length)/length'
//	turns_saved         jq -s '[.[]|select(.kind=="plan" and (.cancelled|not))|.depth//0|if .>1 then .-1 else 0 end]|add'
func (s *Stats) ReportLine() string {
	f, p := &s.Totals, &s.Totals.Prefetch
	declines, wasted, turns := sumOf(f.Declined), sumOf(p.Wasted), f.TurnsSaved.Plan
	if cmp.Or(p.Issued, declines, f.Predictions, turns, f.Repeats, f.BackOffs, int64(f.HiddenMS+0.5), f.TokensSaved) == 0 {
		return ""
	}
	percent := func(a, b int64) string { return fmt.Sprintf("%.1f%%", 100*Ratio(a, b)) }
	known := p.Issued - p.Open
	return strings.Join([]string{
		"prefetch_hit=" + percent(p.Used, known),
		"decline_recall_loss=" + percent(f.LateCalled, declines),
		"cost_overrun=" + percent(f.CostOverruns, f.Predictions),
		"race_win=" + percent(p.InTime, p.Used),
		"waste=" + percent(wasted, known),
		fmt.Sprintf("turns_saved=%d", turns),
		fmt.Sprintf("served=%d (prefetch=%d, repeat=%d)", p.Used+f.Repeats, p.Used, f.Repeats),
		fmt.Sprintf("backoffs=%d tool_ms_hidden=%.0f tokens_saved=%d", f.BackOffs, f.HiddenMS, f.TokensSaved),
		fmt.Sprintf("prefetches=%d dispatched=%d declines=%d predictions=%d", p.Issued, p.Dispatched, declines, f.Predictions),
	}, " ")
}

// Text returns the savings, the warnings, and the state of each server and running process; with
// figures also the report line and all figures.
func (v *View) Text(figures bool) string {
	var b strings.Builder
	fmt.Fprintln(&b, v.Saved())
	for _, w := range v.Warnings() {
		fmt.Fprintln(&b, w.Message)
	}
	if len(v.Stats.Running) > 0 {
		writeServers(&b, v.Stats.Servers())
		writeProcesses(&b, v.Stats.Running)
	}
	if figures {
		if line := v.Stats.ReportLine(); line != "" {
			fmt.Fprintf(&b, "\n%s\n", line)
		}
		v.Stats.writeFigures(&b)
	}
	return b.String()
}

// ofTools matches what differs in the notes of servers with the same reason.
var ofTools = regexp.MustCompile(` \(\d+ of its \d+ tools\)`)

// writeServers writes a line for each server, and why some are not cached or prefetched, with
// what would change that.
func writeServers(b *strings.Builder, all []UpstreamStatus) {
	w := columns(b)
	fmt.Fprintln(w)
	var notes []string
	names := make(map[string][]string) // note → servers
	for _, u := range all {
		state, what := u.State, fmt.Sprintf("%s, %d cacheable, %d prefetchable%s", Counted(u.Tools, "tool"), u.Cacheable, u.Prefetchable, memory(u.MemoryKB))
		if u.Error != "" {
			what = u.Error
		}
		if !u.Since.IsZero() {
			state += " since " + u.Since.Local().Format("15:04")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", Printable(u.Name), Printable(state), Printable(what))
		if u.Why != "" && u.Tools > 0 {
			note := ofTools.ReplaceAllString(u.Why, "")
			if u.Change != "" {
				note += "; to change that: " + u.Change
			}
			if names[note] == nil {
				notes = append(notes, note)
			}
			if !slices.Contains(names[note], u.Name) {
				names[note] = append(names[note], u.Name)
			}
		}
	}
	w.Flush()
	for _, note := range notes {
		fmt.Fprintf(b, "%s: %s\n", Printable(strings.Join(names[note], ", ")), Printable(note))
	}
	b.WriteString("\n")
}

// writeProcesses writes each process with its clients, the tools that it lists because of their
// use, and what is left of its budgets. Of a daemon each workplace has a status, and the first
// one has the line about the process. Other processes with one PID are in different containers.
func writeProcesses(b *strings.Builder, running []Status) {
	line := func(format string, args ...any) { b.WriteString(Printable(fmt.Sprintf(format, args...)) + "\n") }
	running = slices.Clone(running)
	slices.SortStableFunc(running, func(a, b Status) int { return cmp.Compare(a.PID, b.PID) })
	for i, p := range running {
		dir := cmp.Or(p.Dir, "an unknown folder")
		if i > 0 && running[i-1].PID == p.PID && p.Transport == Daemon && running[i-1].Transport == Daemon {
			if p.Dir != running[i-1].Dir { // else its clients have other variables
				line("  and in %s", dir)
			}
		} else {
			line("process %d since %s, %s in %s, configuration %s%s", p.PID, p.Since.Local().Format(time.DateTime),
				cmp.Or(p.Transport, "stdio"), dir, cmp.Or(p.Config, "built in"), memory(p.MemoryKB))
		}
		for _, c := range p.Clients {
			text := fmt.Sprintf("    %s: %d open", cmp.Or(c.Client, "a client"), c.Sessions)
			if c.Used > 0 {
				text += fmt.Sprintf(", about %d tokens used", c.Used)
			}
			if c.Left != nil {
				text += fmt.Sprintf(", at least %d left", *c.Left)
			}
			line("%s", text)
		}
		for _, tool := range slices.Sorted(maps.Keys(p.Pinned)) {
			line("    lists %s: %s", tool, p.Pinned[tool])
		}
		if pool := p.Pool; pool != nil {
			line("    the pool of %d tokens has %d left for %s", pool.Tokens, max(0, pool.Tokens-pool.Used), duration(1000*float64(pool.LeftS)))
		}
	}
}

// maxToolRows is the maximum number of tools with figures.
const maxToolRows = 10

// writeFigures writes all figures that are not 0, each with its meaning, the declined and wasted
// prefetches by reason, and the tools with the most waiting time, hidden or not.
func (s *Stats) writeFigures(b *strings.Builder) {
	w := columns(b)
	fmt.Fprintln(w)
	for _, f := range figuresOf(*s) {
		if f.value != 0 && f.Name != "schema_version" {
			fmt.Fprintf(w, "%s\t%s\t%s\n", strings.TrimPrefix(f.Name, "totals."), f.text(), f.Help)
		}
	}
	for _, counts := range []map[string]int64{s.Totals.Declined, s.Totals.Prefetch.Wasted} {
		for _, name := range largest(counts) {
			fmt.Fprintf(w, "%s\t%d\t%s\n", Printable(name), counts[name], Printable(meaningOf(name)))
		}
	}
	w.Flush()
	names := slices.SortedFunc(maps.Keys(s.Tools), func(a, b string) int {
		x, y := s.Tools[a], s.Tools[b]
		return cmp.Or(cmp.Compare(y.HiddenMS+y.WaitedMS, x.HiddenMS+x.WaitedMS), cmp.Compare(a, b))
	})
	if len(names) > 0 {
		fmt.Fprintln(w, "\ntool\tcalls\thidden\twaited\tprefetches\tused\tp50\tp90")
	}
	for _, name := range names[:min(len(names), maxToolRows)] {
		p := s.Tools[name]
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%d\t%s\t%s\n", Printable(name), p.Calls, duration(p.HiddenMS), duration(p.WaitedMS),
			p.Prefetch.Issued, p.Prefetch.Used, duration(p.LatencyMS.P50), duration(p.LatencyMS.P90))
	}
	w.Flush()
}

// WriteCSV writes a header and a line for each tool. Control characters in names are replaced.
func (s *Stats) WriteCSV(w io.Writer) error {
	lines := [][]string{{"tool"}}
	for _, f := range figuresOf(Figures{}) {
		lines[0] = append(lines[0], f.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
		line := []string{Printable(name)}
		for _, f := range figuresOf(s.Tools[name]) {
			line = append(line, strconv.FormatFloat(f.value, 'f', -1, 64))
		}
		lines = append(lines, line)
	}
	return csv.NewWriter(w).WriteAll(lines)
}

// columns aligns cells that end with a tab. Flush does not fail if w does not.
func columns(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// text formats the value of a metric.
func (f *figure) text() string {
	switch f.Unit {
	case "ms":
		return duration(f.value)
	case "share":
		return fmt.Sprintf("%.0f%%", 100*f.value)
	case "KiB":
		return fmt.Sprintf("%.1f KiB", f.value)
	}
	return fmt.Sprintf("%.4g", f.value)
}

// duration formats milliseconds with three digits or two units, as took of the page does.
func duration(ms float64) string {
	two := func(n int, first, second string, size int) string {
		text := fmt.Sprintf("%d %s", n/size, first)
		if n %= size; n > 0 {
			text += fmt.Sprintf(" %d %s", n, second)
		}
		return text
	}
	s := int(math.Round(ms / 1000))
	minutes := int(math.Round(float64(s) / 60))
	switch {
	case ms <= 0:
		return "0 ms"
	case ms < 0.95:
		return "<1 ms"
	case ms < 999.5:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 9950:
		return fmt.Sprintf("%.2f s", ms/1000)
	case ms < 59950:
		return fmt.Sprintf("%.1f s", ms/1000)
	case s < 3600:
		return two(s, "min", "s", 60)
	case minutes < 48*60:
		return two(minutes, "h", "min", 60)
	}
	return two(minutes/60, "d", "h", 24)
}

// Counted returns a number of things, with a plural that ends with s.
func Counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// memory returns a size after a comma, or "" if it is not known.
func memory(kb int64) string {
	if kb == 0 {
		return ""
	}
	return fmt.Sprintf(", %d MB", kb>>10)
}

// largest returns the names of counts in descending order of the count.
func largest(m map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
}
