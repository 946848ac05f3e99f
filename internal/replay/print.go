package replay

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"mcpschedd/internal/record"
)

// WriteCSV writes a line for each session, in the order in which they were played,
// and one for all of them.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	var head []string
	total := columns(&r.Figures)
	for _, c := range total {
		head = append(head, c.name)
	}
	out.Write(append([]string{"session"}, head...)) // its errors are kept until the end
	for i := range r.Rows {
		out.Write(append([]string{r.Rows[i].Session}, values(columns(&r.Rows[i].Figures))...))
	}
	out.Write(append([]string{"total"}, values(total)...))
	out.Flush()
	return out.Error()
}

// column is a value of a line, by its name in the JSON.
type column struct{ name, value string }

func values(columns []column) []string {
	var all []string
	for _, c := range columns {
		all = append(all, c.value)
	}
	return all
}

func columns(f *Figures) []column {
	share := func(x float64) string { return strconv.FormatFloat(x, 'f', 4, 64) }
	return []column{
		{"calls", strconv.Itoa(f.Calls)},
		{"reads", strconv.Itoa(f.Reads)},
		{"repeats", strconv.Itoa(f.Repeats)},
		{"issued", strconv.Itoa(f.Issued)},
		{"issued_per_call", share(f.IssuedPerCall)},
		{"used", strconv.Itoa(f.Used)},
		{"accuracy", share(f.Accuracy)},
		{"coverage", share(f.Coverage)},
		{"repeats_served", strconv.Itoa(f.RepeatsServed)},
		{"amplification", share(f.Amplification)},
		{"wait_ms_before", strconv.FormatInt(f.WaitBefore, 10)},
		{"wait_ms_after", strconv.FormatInt(f.WaitAfter, 10)},
		{"hidden_ms", strconv.FormatInt(f.Hidden, 10)},
		{"stale_served", strconv.Itoa(f.Stale)},
	}
}

// WriteTo writes a summary for people.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	out := new(bytes.Buffer)
	fmt.Fprintf(out, "%d sessions, %d calls, %d reads of which %d are repeats; policy %s\n", r.Sessions, r.Calls, r.Reads, r.Repeats, r.Name)
	if r.Untimed > 0 {
		fmt.Fprintf(out, "of %d calls it is not recorded how long they took: as long as their models say; the model thinks %v where that is not recorded\n", r.Untimed, time.Duration(r.Think)*time.Millisecond)
	}
	fmt.Fprintln(out)
	r.figures(out)
	r.reasons(out)
	r.deciles(out)
	r.tools(out)
	return out.WriteTo(w)
}

func (r *Report) figures(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("issued", "%d, %.4f per call", r.Issued, r.IssuedPerCall)
	row("used", "%d, of which %d were still under way", r.Used, r.Late)
	row("accuracy", "%.3f of what was issued", r.Accuracy)
	row("coverage", "%.4f of the reads that are no repeats", r.Coverage)
	row("repeats served", "%d of %d", r.RepeatsServed, r.Repeats)
	row("amplification", "%.3f upstream calls per call", r.Amplification)
	row("waiting", "%d ms before, %d ms after: %d ms hidden", r.WaitBefore, r.WaitAfter, r.Hidden)
	row("stale served", "%d", r.Stale)
	t.Flush()
}

func (r *Report) reasons(w io.Writer) {
	if len(r.Declined) == 0 {
		return
	}
	fmt.Fprintln(w, "\nleft out")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, why := range slices.Sorted(maps.Keys(r.Declined)) {
		fmt.Fprintf(t, "  %s\t%d\n", record.Worded(string(why)), r.Declined[why])
	}
	t.Flush()
}

func (r *Report) deciles(w io.Writer) {
	if !slices.ContainsFunc(r.Calibration, func(d Decile) bool { return d.N > 0 }) {
		return
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "probability\tcalls\texpected\tobserved")
	for _, d := range r.Calibration {
		if d.N > 0 {
			fmt.Fprintf(t, "from %.1f\t%d\t%.3f\t%.3f\n", d.From, d.N, d.Expected, d.Observed)
		}
	}
	t.Flush()
}

// tools are those that were called or guessed at, the most called first.
func (r *Report) tools(w io.Writer) {
	names := slices.SortedFunc(maps.Keys(r.Tools), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Tools[b].Calls, r.Tools[a].Calls), cmp.Compare(a, b))
	})
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "tool\tcalls\treads\trepeats\tissued\tused\tcoverage\thidden ms")
	for _, name := range names {
		f := r.Tools[name]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%.4f\t%d\n", record.Printable(name), f.Calls, f.Reads, f.Repeats, f.Issued, f.Used, f.Coverage, f.Hidden)
	}
	t.Flush()
}
