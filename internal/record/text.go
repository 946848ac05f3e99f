package record

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// ReportLine returns the outcomes of prefetches and predictions and the savings in one line, or
// "" if there are none. race_win is the share of used prefetches whose answer was complete when
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
	percent := func(a, b int64) string { return fmt.Sprintf("%.1f%%", 100*ratio(a, b)) }
	known := p.Issued - p.Open
	return strings.Join([]string{
		"prefetch_hit=" + percent(p.Used, known),
		"decline_recall_loss=" + percent(f.LateInvoked, declines),
		"cost_overrun=" + percent(f.CostOverruns, f.Predictions),
		"race_win=" + percent(p.Used-p.Late, p.Used),
		"waste=" + percent(wasted, known),
		fmt.Sprintf("turns_saved=%d", turns),
		fmt.Sprintf("served=%d (prefetch=%d, repeat=%d)", p.Used+f.Repeats, p.Used, f.Repeats),
		fmt.Sprintf("backoffs=%d tool_ms_hidden=%.0f tokens_saved=%d", f.BackOffs, f.HiddenMS, f.TokensSaved),
		fmt.Sprintf("prefetches=%d dispatched=%d declines=%d predictions=%d", p.Issued, p.Dispatched, declines, f.Predictions),
	}, " ")
}

// Figures returns all figures as text, and a table of the tools.
func (s *Stats) Figures() string {
	var b strings.Builder
	for _, r := range rows(statsMetrics(), reflect.ValueOf(*s)) {
		fmt.Fprintf(&b, "%-12s%s\n", r.name, r.text)
	}
	return b.String() + "\n" + s.table()
}

// row is a line of Figures.
type row struct{ name, text string }

// rowOrder is the order of the rows: savings first, then costs, then details.
var rowOrder = []string{"waiting", "saved", "cost", "calls", "sessions", "lost", "prefetches", "declined", "sizes", "regret"}

// rows formats the figures. It leaves out rows in which all figures are zero, and in the other
// rows the zero figures after the first.
func rows(metrics []metric, v reflect.Value) (all []row) {
	said := make(map[string][]string)
	some := make(map[string]bool)
	order := slices.Clone(rowOrder)
	for i := range metrics {
		m := &metrics[i]
		if m.row == "" {
			continue
		}
		value := m.value(v)
		zero := number(value) == 0
		some[m.row] = some[m.row] || !zero
		if len(said[m.row]) == 0 || !zero {
			said[m.row] = append(said[m.row], fmt.Sprintf(m.format, m.shown(value)))
		}
		if !slices.Contains(order, m.row) {
			order = append(order, m.row)
		}
	}
	for _, name := range order {
		if some[name] {
			all = append(all, row{name, strings.Join(said[name], ", ")})
		}
	}
	return all
}

// shown converts a value to the operand of its format.
func (m *metric) shown(value any) any {
	counts, byName := value.(map[string]int64)
	switch {
	case byName:
		return listed(counts)
	case m.Unit == "ms":
		return duration(number(value))
	case m.Unit == "share":
		return fmt.Sprintf("%.0f%%", 100*number(value))
	}
	return value
}

// maxToolRows is the maximum number of tools in the table.
const maxToolRows = 10

// table returns a table of the tools with the most waiting time, hidden or not.
func (s *Stats) table() string {
	names := slices.SortedFunc(maps.Keys(s.Tools), func(a, b string) int {
		x, y := s.Tools[a], s.Tools[b]
		return cmp.Or(cmp.Compare(y.HiddenMS+y.WaitedMS, x.HiddenMS+x.WaitedMS), cmp.Compare(a, b))
	})
	if len(names) == 0 {
		return ""
	}
	lines := [][]any{{"tool", "calls", "hidden", "waited", "prefetches", "used", "p50", "p90"}}
	for _, name := range names[:min(len(names), maxToolRows)] {
		p := s.Tools[name]
		lines = append(lines, []any{Printable(name), p.Calls, duration(p.HiddenMS), duration(p.WaitedMS), p.Prefetch.Issued, p.Prefetch.Used, duration(p.LatencyMS.P50), duration(p.LatencyMS.P90)})
	}
	text := aligned(lines)
	if more := len(names) - maxToolRows; more > 0 {
		text += fmt.Sprintf("and %d more\n", more)
	}
	return text
}

// aligned formats a table with aligned columns.
func aligned(lines [][]any) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		for i, cell := range line {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, cell)
		}
		fmt.Fprint(w, "\n")
	}
	w.Flush() // writing to memory does not fail
	return b.String()
}

// listed formats the sum of counts, and the counts in descending order.
func listed(m map[string]int64) string {
	var parts []string
	for _, name := range largest(m) {
		parts = append(parts, fmt.Sprintf("%d %s", m[name], displayName(name)))
	}
	if len(parts) == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", sumOf(m), strings.Join(parts, ", "))
}

// largest returns the names of counts in descending order of the count.
func largest(m map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
}

func sumOf(m map[string]int64) (sum int64) {
	for _, n := range m {
		sum += n
	}
	return sum
}

// duration formats milliseconds with about three digits.
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

// WriteCSV writes a header and a line for each session. Control characters in names are
// replaced, and a name that a spreadsheet would take for a formula gets a leading '. Times are
// UTC.
func WriteCSV(w io.Writer, rows []SessionRow) error {
	out := csv.NewWriter(w)
	names, _ := columns(totalsMetrics(), reflect.ValueOf(Totals{}))
	out.Write(append([]string{"process", "session", "client", "begin", "end"}, names...)) // Error below returns the first error
	for _, r := range rows {
		_, values := columns(totalsMetrics(), reflect.ValueOf(r.Totals))
		out.Write(append([]string{csvText(r.Process), csvText(r.Session), csvText(r.Client), csvTime(r.BeginUS), csvTime(r.EndUS)}, values...))
	}
	out.Flush()
	return out.Error()
}

// csvText makes an untrusted name safe to open in a spreadsheet.
func csvText(name string) string {
	if first, _ := utf8.DecodeRuneInString(strings.TrimLeft(name, " ")); strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) {
		return "'" + Printable(name)
	}
	return Printable(name)
}

// csvTime formats microseconds since 1970; 0, not known, becomes "".
func csvTime(us int64) string {
	if us == 0 {
		return ""
	}
	return fromMicros(us).Format("2006-01-02T15:04:05.000000Z")
}
