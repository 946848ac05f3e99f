package plan_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/plan"
)

// A kept result can be read by its owner alone, until it expires, is dropped, or newer results
// take its memory.
func TestKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var k plan.Kept
		readable := func(owner, handle string) bool {
			out, err := k.Read(owner, plan.Query{Handle: handle}, excerpt.Limit{Tokens: 100})
			if (err == nil) == errors.Is(err, plan.ErrNotKept) || (err == nil) != strings.HasPrefix(string(out), `{"value":`) {
				t.Fatalf("got %s, %v", out, err)
			}
			return err == nil
		}
		small, huge := []byte(`{"n":1}`), []byte(`"`+strings.Repeat("x", 31<<20)+`"`)
		if h := k.Add("a", "too large", make([]byte, 33<<20), time.Hour); h != "" {
			t.Error("a result of 33 MiB is kept")
		}
		first, other := k.Add("a", "first", small, time.Minute), k.Add("b", "other", small, time.Hour)
		if !readable("a", first) || readable("b", first) || readable("a", other) || !readable("b", other) {
			t.Error("a result is not its owner's alone")
		}
		if list := k.List("a"); !strings.Contains(list, first) || strings.Contains(list, other) {
			t.Errorf("the list is %q", list)
		}
		time.Sleep(time.Minute + 1)
		if readable("a", first) || !readable("b", other) {
			t.Error("a result ends at another time than its own")
		}
		for range 5 {
			first = k.Add("a", "huge", huge, time.Hour)
		}
		if readable("b", other) || !readable("a", first) || k.Len() != 4 {
			t.Errorf("%d results are kept, want the 4 newest", k.Len())
		}
		if k.Drop("a"); k.Len() != 0 {
			t.Error("dropped results are kept")
		}
	})
}

func TestParseQuery(t *testing.T) {
	for raw, want := range map[string]string{
		`{"handle":"h","pointer":"/a","offset":3}`: "",
		`{}`:            "",
		`{"offset":-1}`: "offset: wrong type, number -1; want an object",
		`{"x":1}`:       `unknown field "x"; want an object`,
		`[]`:            "arguments: wrong type, array; want an object",
	} {
		_, err := plan.ParseQuery([]byte(raw))
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", raw, err, want)
		}
	}
}
