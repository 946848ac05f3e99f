package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/plan"
)

// A stored result can be read by its owner only, until it expires, is dropped, or is evicted by
// newer results.
func TestKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var k plan.Kept
		readable := func(owner, handle string) bool {
			out, _, err := k.Read(owner, false, fmt.Appendf(nil, `{"handle":%q}`, handle), &plan.Settings{Limits: plan.Limits{Budget: 100}}, nil)
			if err != nil && !strings.Contains(err.Error(), "unknown or expired") || (err == nil) != strings.HasPrefix(string(out), `{"value":`) {
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
			t.Error("another owner can read the result")
		}
		if _, list, _ := k.Read("a", false, []byte("{}"), &plan.Settings{}, nil); !strings.Contains(list, first) || strings.Contains(list, other) {
			t.Errorf("the list is %q", list)
		}
		time.Sleep(time.Minute + 1)
		if readable("a", first) || !readable("b", other) {
			t.Error("a result expired too early or too late")
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

// Errors about wrong arguments say what is wanted and do not mention Go types.
func TestKeptArguments(t *testing.T) {
	for raw, want := range map[string]string{
		`{"handle":"h","pointer":"/a","offset":3}`: `handle "h": unknown or expired`,
		`{}`:             "handle: missing; want the handle of a plan's answer",
		`{"handle":7}`:   "arguments: want an object",
		`{"offset":-1}`:  "arguments: want an object",
		`{"offset":1.5}`: "arguments: want an object",
		`{"x":1}`:        "arguments: want an object",
		`[]`:             "arguments: want an object",
	} {
		var k plan.Kept
		if _, _, err := k.Read("a", true, []byte(raw), &plan.Settings{}, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", raw, err, want)
		}
	}
}

// A question about what is not there is an error that names what is.
func TestKeptNothingThere(t *testing.T) {
	var k plan.Kept
	h := k.Add("a", "r", []byte(`{"l":{"items":[1,2,3],"text":"four"},"b":7}`), time.Hour)
	for members, want := range map[string]string{
		`"pointer":"/2900"`:               `pointer "/2900": nothing there: the members there are l, b; want a JSON pointer`,
		`"pointer":"/l/itms/0"`:           `pointer "/l/itms/0": nothing there: the members there are items, text; want`,
		`"pointer":"/l/items/3"`:          `pointer "/l/items/3": nothing there: it is in [1,2,3]; want`,
		`"offset":2`:                      `offset 2: the value at pointer "" has only 2 items, fields or bytes of text: the members there are l, b`,
		`"pointer":"/l/items","offset":3`: `offset 3: the value at pointer "/l/items" has only 3 items, fields or bytes of text: it is in [1,2,3]`,
		`"pointer":"/l/text","offset":4`:  `offset 4: the value at pointer "/l/text" has only 4`,
		`"pointer":"/l/text","offset":3`:  "<nil>",
		`"pointer":"/l/items","offset":2`: "<nil>",
	} {
		if _, _, err := k.Read("a", true, fmt.Appendf(nil, `{"handle":%q,%s}`, h, members), &plan.Settings{Limits: plan.Limits{Budget: 100}}, nil); !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("%s: got %v, want %q", members, err, want)
		}
	}
}
