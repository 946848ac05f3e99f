package replay

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
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

// WriteTo writes the sums for people, by their names in the JSON, which has those of each tool too.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	out := new(bytes.Buffer)
	fmt.Fprintf(out, "policy %s, %d sessions\n", r.Name, r.Sessions)
	if r.Untimed > 0 {
		fmt.Fprintf(out, "of %d calls it is not recorded how long they took: as long as their models say; the model thinks %v where that is not recorded\n", r.Untimed, time.Duration(r.Think)*time.Millisecond)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range columns(&r.Figures) {
		fmt.Fprintf(t, "%s\t%s\n", c.name, c.value)
	}
	for _, why := range slices.Sorted(maps.Keys(r.Declined)) {
		fmt.Fprintf(t, "declined.%s\t%d\n", why, r.Declined[why])
	}
	t.Flush() // to memory
	return out.WriteTo(w)
}
