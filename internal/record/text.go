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
	"time"
	"unicode/utf8"
)

// Line is the report line: what came of prefetches and predictions, and what was saved; ""
// if nothing was done. race_win is the share of the prefetches used whose answer was there
// when a call came, waste that of all of which none was given the answer. Of served,
// prefetch are the first uses of prefetches and repeat all other calls that were not sent
// to their upstream.
//
// Its rates can be worked out again from the lines of the log. With jq:
//
//	prefetch_hit        jq -s '[.[]|select(.kind=="prefetch")]|(map(select(.fate=="used" or .fate=="late"))|length)/length'
//	decline_recall_loss jq -s '[.[]|select(.kind=="choice")]|(map(.late_called//0)|add)/(map(.declined//{}|add//0)|add)'
//	cost_overrun        jq -s '[.[]|select(.tokens>0 and .predicted_tokens>0 and (.kind=="prefetch" or .kind=="call" and (.use_of//0)==0))]|(map(select(.tokens>=1.3*.predicted_tokens))|length)/length'
//	turns_saved         jq -s '[.[]|select(.kind=="plan" and (.cancelled|not))|.depth//0|if .>1 then .-1 else 0 end]|add'
func (s *Stats) Line() string {
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

// row is a line of the summary: what it is about, and what there is to say of that.
type row struct{ name, text string }

// rowOrder is that of the summary: what was saved comes first, then what that cost, then
// how it came about.
var rowOrder = []string{"waiting", "saved", "cost", "calls", "sessions", "lost", "prefetches", "declined", "sizes", "regret"}

// firstRows of them are the last to be left out where there is no room.
const firstRows = 4

// rows are the figures in words. A row without any is left out, unless there is something to
// say instead; of the others figures that are zero are, but for the first.
func rows(metrics []metric, v reflect.Value, instead map[string]string) (all []row) {
	said := make(map[string][]string)
	some := make(map[string]bool)
	order := slices.Clone(rowOrder)
	for i := range metrics {
		m := &metrics[i]
		if m.row == "" {
			continue
		}
		value := m.of(v)
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
		} else if text := instead[name]; text != "" {
			all = append(all, row{name, text})
		}
	}
	return all
}

// shown is a value as its format takes it.
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

// callsToSay is how many calls there must be until it is worth a line that none of them was
// answered ahead.
const callsToSay = 20

// whyNothing says why no prefetch was made; "": some were, or there were few calls.
func (s *Stats) whyNothing() string {
	f := &s.Totals
	names := largest(f.Declined)
	switch {
	case f.Unclassified > callsToSay && f.Unclassified > f.Reads:
		return fmt.Sprintf("none: of %d calls nothing says that their tools only read, so they are neither stored nor prefetched: mcpschedd check --connect -v prints the lines to paste", f.Unclassified)
	case f.Reads <= callsToSay:
		return ""
	case len(names) == 0:
		return `none: no call was thought of; nothing has been seen to follow, or [enrichment] mode is "off"`
	}
	var parts []string
	for _, name := range names[:min(len(names), 2)] {
		part := fmt.Sprintf("%d %s", f.Declined[name], worded(name, Reasons))
		if w, ok := Reasons[name]; ok {
			part += " (" + w.Meaning + ")"
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf("none: of %d candidates %s", sumOf(f.Declined), strings.Join(parts, "; "))
}

// Fit is the summary for a terminal of so many columns and lines; 0 is any number. Lines
// are wrapped, and of the table so many columns are left as there is room for. Where lines
// are few, what is said in words goes first.
func (s *Stats) Fit(columns, lines int) string {
	if f := &s.Totals; f.Calls+f.Prefetch.Issued+f.Plans == 0 {
		return "no calls so far\n"
	}
	report := s.Line()
	all := rows(statsMetrics, reflect.ValueOf(*s), map[string]string{"prefetches": s.whyNothing()})
	if report != "" {
		report = strings.Join(Wrap(report, columns, 0), "\n") + "\n\n"
	}
	list := listOf(all, columns)
	for _, head := range []string{report + list, list, listOf(all[:min(len(all), firstRows)], columns), listOf(all[:1], columns)} {
		room := lines - strings.Count(head, "\n") - 2 // a blank line, and the table's own head
		if lines <= 0 {
			room = mostRows + 1
		}
		if room >= min(len(s.Tools), fewestRows) {
			return head + "\n" + s.table(columns, room)
		}
	}
	return s.table(columns, max(lines-1, 1)) // there is no room but for that
}

// Of tools, so many are shown before anything else is left out, and at most.
const fewestRows, mostRows = 3, 10

// listOf are rows with their names in a column of their own, if that is not too much.
func listOf(rows []row, columns int) string {
	names := 0
	for _, r := range rows {
		names = max(names, len(r.name)+2)
	}
	if columns > 0 && columns < 3*names {
		names = 2
	}
	var b strings.Builder
	for _, r := range rows {
		first := fmt.Sprintf("%-*s", names, r.name)
		if len(first) > names {
			first += "  "
		}
		b.WriteString(strings.Join(Wrap(first+r.text, columns, names), "\n") + "\n")
	}
	return b.String()
}

// toolColumns are those of the table, what matters most first.
var toolColumns = []struct {
	title string
	cell  func(name string, p *Part) string
}{
	{"tool", func(name string, _ *Part) string { return printable(name) }},
	{"calls", func(_ string, p *Part) string { return fmt.Sprint(p.Calls) }},
	{"hidden", func(_ string, p *Part) string { return duration(p.HiddenMS) }},
	{"waited", func(_ string, p *Part) string { return duration(p.WaitedMS) }},
	{"prefetches", func(_ string, p *Part) string { return fmt.Sprint(p.Prefetch.Issued) }},
	{"used", func(_ string, p *Part) string { return fmt.Sprint(p.Prefetch.Used) }},
	{"p50", func(_ string, p *Part) string { return duration(p.LatencyMS.P50) }},
	{"p90", func(_ string, p *Part) string { return duration(p.LatencyMS.P90) }},
}

// table is that of the tools with most waiting, hidden or not, in as many columns and lines
// as there is room for.
func (s *Stats) table(columns, lines int) string {
	if len(s.Tools) == 0 {
		return ""
	}
	names := slices.SortedFunc(maps.Keys(s.Tools), func(a, b string) int {
		x, y := s.Tools[a], s.Tools[b]
		return cmp.Or(cmp.Compare(y.HiddenMS+y.WaitedMS, x.HiddenMS+x.WaitedMS), cmp.Compare(a, b))
	})
	shown := min(len(names), mostRows, lines)
	if shown < len(names) && shown == lines && lines > 1 {
		shown-- // for the line that says so
	}
	cells := make([][]string, shown+1)
	for _, c := range toolColumns {
		cells[0] = append(cells[0], c.title)
		for i, name := range names[:shown] {
			p := s.Tools[name]
			cells[i+1] = append(cells[i+1], c.cell(name, &p))
		}
	}
	text := tabular(cells, columns)
	if more := len(names) - shown; more > 0 && lines > 1 {
		text += fmt.Sprintf("and %d more\n", more)
	}
	return text
}

// tabular is a table in so many columns of the terminal, 0: any number. Columns go from its
// end until half of the room is left for the names, which are cut then.
func tabular(cells [][]string, columns int) string {
	wide := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, text := range line {
			wide[i] = max(wide[i], utf8.RuneCountInString(text))
		}
	}
	for columns > 0 && len(wide) > 1 && wide[0] > columns-rest(wide) && rest(wide) > columns/2 {
		wide = wide[:len(wide)-1]
	}
	if columns > 0 {
		wide[0] = min(wide[0], max(columns-rest(wide), 1))
	}
	var b strings.Builder
	for n, line := range cells {
		for i, w := range wide {
			text := line[i]
			if letters := []rune(text); i == 0 && n > 0 && len(letters) > w { // a tool's own name is at the end
				text = "…" + string(letters[len(letters)-w+1:])
			}
			if i > 0 {
				b.WriteString("  ")
			}
			b.WriteString(text)
			if i < len(wide)-1 {
				b.WriteString(strings.Repeat(" ", max(w-utf8.RuneCountInString(text), 0)))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// rest is what all columns but the first take, with what is between them.
func rest(wide []int) (n int) {
	for _, w := range wide[1:] {
		n += w + 2
	}
	return n
}

// Wrap breaks a text into lines of at most so many letters, at spaces where that can be
// done; 0 is any number. Lines but the first begin with so many spaces, if that leaves half
// of the line.
func Wrap(text string, columns, indent int) (lines []string) {
	if columns <= 0 {
		return []string{text}
	}
	if indent > columns/2 {
		indent = 0
	}
	letters := []rune(text)
	for len(letters) > columns {
		start := 0 // of the words
		for start < len(letters) && letters[start] == ' ' {
			start++
		}
		end := columns
		for end > start && letters[end] != ' ' {
			end--
		}
		if end <= start {
			end = columns
		}
		lines = append(lines, strings.TrimRight(string(letters[:end]), " "))
		tail := strings.TrimLeft(string(letters[end:]), " ")
		if tail == "" {
			return lines
		}
		letters = []rune(strings.Repeat(" ", indent) + tail)
	}
	return append(lines, string(letters))
}

// listed are counts by name, the largest first, behind their sum.
func listed(m map[string]int64) string {
	var parts []string
	for _, name := range largest(m) {
		parts = append(parts, fmt.Sprintf("%d %s", m[name], worded(name, Reasons, Causes)))
	}
	if len(parts) == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", sumOf(m), strings.Join(parts, ", "))
}

// largest are the names of counts, that of the largest first.
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

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

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

// WriteCSV writes a head, and a line for each session. Names are without control
// characters, and one that a spreadsheet would take for a formula begins with a '; times
// are UTC.
func WriteCSV(w io.Writer, rows []Row) error {
	out := csv.NewWriter(w)
	for i := range max(len(rows), 1) {
		var r Row
		if i < len(rows) {
			r = rows[i]
		}
		all := append([]column{
			{"process", literal(r.Process)}, {"session", literal(r.Session)}, {"client", literal(r.Client)}, {"begin", csvTime(r.Begin)}, {"end", csvTime(r.End)},
		}, columns(totalsMetrics, reflect.ValueOf(r.Totals))...)
		var head, values []string
		for _, c := range all {
			head, values = append(head, c.name), append(values, c.value)
		}
		if i == 0 {
			out.Write(head) // its errors are kept until the end
		}
		if i < len(rows) {
			out.Write(values)
		}
	}
	out.Flush()
	return out.Error()
}

// literal is a name that a stranger gave, as no more than text.
func literal(name string) string {
	if first, _ := utf8.DecodeRuneInString(strings.TrimLeft(name, " ")); strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) {
		return "'" + printable(name)
	}
	return printable(name)
}

// csvTime is a time; "" if it is not known.
func csvTime(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05.000000Z")
}
