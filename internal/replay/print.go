package replay

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"mcpschedd/internal/age"
)

// WriteCSV writes a line for each session, in the order in which they were played, and one for
// their total.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head, total := columns(&r.Figures)
	out.Write(append([]string{"session"}, head...)) // Error below returns the first error
	for i := range r.Rows {
		_, values := columns(&r.Rows[i])
		out.Write(append([]string{r.Rows[i].Session}, values...))
	}
	out.Write(append([]string{"total"}, total...))
	out.Flush()
	return out.Error()
}

// columns returns the JSON names of the figures and their values.
func columns(f *Figures) (names, values []string) {
	v := reflect.ValueOf(*f)
	for _, field := range reflect.VisibleFields(v.Type()) {
		name := field.Tag.Get("json")
		if name == "" || name == "-" {
			continue
		}
		text := fmt.Sprint(v.FieldByIndex(field.Index))
		if field.Type.Kind() == reflect.Float64 {
			text = strconv.FormatFloat(v.FieldByIndex(field.Index).Float(), 'f', 4, 64)
		}
		names, values = append(names, name), append(values, text)
	}
	return names, values
}

// WriteTo writes the totals as text, under their JSON names. The figures of single tools are
// only in the JSON.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	out := new(bytes.Buffer)
	fmt.Fprintf(out, "policy %s, %d sessions\n", r.Name, r.Sessions)
	if r.Untimed > 0 {
		fmt.Fprintf(out, "%d calls have no recorded duration and take the time of their tool's model; unrecorded pauses between turns take %s\n", r.Untimed, age.Text(time.Duration(r.Think)*time.Millisecond))
	}
	if r.Calls > 0 && r.Reads == 0 {
		fmt.Fprintln(out, `no call is of a read-only tool, so nothing can be prefetched; if one is, write [tools."trace/NAME"] side_effect_class = "read_only"`)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	names, values := columns(&r.Figures)
	for i, name := range names {
		fmt.Fprintf(t, "%s\t%s\n", name, values[i])
	}
	for _, why := range slices.Sorted(maps.Keys(r.Declined)) {
		fmt.Fprintf(t, "declined.%s\t%d\n", why, r.Declined[why])
	}
	t.Flush() // writing to memory does not fail
	return out.WriteTo(w)
}
