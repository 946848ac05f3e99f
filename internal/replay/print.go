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
)

// WriteCSV writes a line for each session, in the order in which they were played,
// and one for all of them.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head, total := columns(&r.Figures)
	out.Write(append([]string{"session"}, head...)) // its errors are kept until the end
	for i := range r.Rows {
		_, values := columns(&r.Rows[i].Figures)
		out.Write(append([]string{r.Rows[i].Session}, values...))
	}
	out.Write(append([]string{"total"}, total...))
	out.Flush()
	return out.Error()
}

// columns are the figures by their names in the JSON, and what they are.
func columns(f *Figures) (names, values []string) {
	of := reflect.ValueOf(*f)
	for _, field := range reflect.VisibleFields(of.Type()) {
		name := field.Tag.Get("json")
		if name == "" {
			continue
		}
		text := fmt.Sprint(of.FieldByIndex(field.Index))
		if field.Type.Kind() == reflect.Float64 {
			text = strconv.FormatFloat(of.FieldByIndex(field.Index).Float(), 'f', 4, 64)
		}
		names, values = append(names, name), append(values, text)
	}
	return names, values
}

// WriteTo writes the sums for people, by their names in the JSON, which has those of each tool too.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	out := new(bytes.Buffer)
	fmt.Fprintf(out, "policy %s, %d sessions\n", r.Name, r.Sessions)
	if r.Untimed > 0 {
		fmt.Fprintf(out, "of %d calls it is not recorded how long they took: as long as their models say; the model thinks %v where that is not recorded\n", r.Untimed, time.Duration(r.Think)*time.Millisecond)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	names, values := columns(&r.Figures)
	for i, name := range names {
		fmt.Fprintf(t, "%s\t%s\n", name, values[i])
	}
	for _, why := range slices.Sorted(maps.Keys(r.Declined)) {
		fmt.Fprintf(t, "declined.%s\t%d\n", why, r.Declined[why])
	}
	t.Flush() // to memory
	return out.WriteTo(w)
}
