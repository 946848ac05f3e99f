package plan_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/schema"
)

// strict is a writing tool with an input schema.
func strict(t testing.TB, writes func([]byte) bool) plan.Options {
	t.Helper()
	s, err := schema.Compile([]byte(`{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"integer"},"rows":{"type":"array"}},"required":["text"]}`))
	if err != nil {
		t.Fatal(err)
	}
	return plan.Options{Limits: unlimited, Find: func(name string) *plan.Tool {
		if name == "put" {
			return &plan.Tool{Name: "put", Input: s, Writes: writes}
		}
		return tools[name]
	}}
}

// Arguments are checked against the tool's schema before the call. A misspelled short reference
// gives null, which was once sent to a tool that writes.
func TestRunChecksArguments(t *testing.T) {
	const a = `{"id":"a","tool":"read","arguments":{"give":{"total":"7","n":[1]}}},`
	many := `{"id":"a","tool":"read","arguments":{"give":[` + strings.Repeat("1,", 20_000) + `1]}},`
	for _, c := range []struct{ name, steps, want string }{
		{
			"null", a + `{"id":"p","tool":"put","arguments":{"text":"$ref:a.totl"}}`,
			`p failed: not called: text: want string, have null (input schema of put); /steps/1/arguments/text: "a#/totl" refers to nothing: the members there are total, n`,
		},
		{
			"two", a + `{"id":"p","tool":"put","arguments":{"text":"$ref:a.totl","n":"$ref:a.n"}}`,
			`p failed: not called: n: want integer, have array; text: want string, have null (input schema of put); /steps/1/arguments/text: "a#/totl" refers to nothing: the members there are total, n`,
		},
		{"what fits", a + `{"id":"p","tool":"put","arguments":{"text":"$ref:a.total","n":{"$ref":"a#/n/0"}}}`, "p ok"},
		{
			"an item", a + `{"id":"p","tool":"put","for_each":{"$ref":"a#/n"},"arguments":{"text":"$ref:item.x"}}`,
			`p failed: 1 of 1 items tried; 1 failed; item 0: not called: text: want string, have null (input schema of put); /steps/1/arguments/text: "item#/x" refers to nothing: it is in 1`,
		},
		{"too much to check", many + `{"id":"p","tool":"put","arguments":{"text":"x","rows":"$ref:a"}}`, "p ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := newServers()
				p, defects := plan.Parse([]byte(`{"steps":[`+c.steps+`]}`), strict(t, always))
				if len(defects) > 0 {
					t.Fatal(defects)
				}
				report := (&plan.Runner{Limits: unlimited, Call: s.call}).Run(t.Context(), p)
				if got := strings.Split(fates(report), "\n")[1]; got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
				if called := strings.Contains(s.ids(), "p"); called != strings.HasSuffix(c.want, "ok") {
					t.Errorf("got calls %s", s.ids())
				}
			})
		})
	}
}

// large returns a result of several MB with many items. Its last member is far from the start.
func large(n int) []byte {
	return []byte(`{"items":[` + strings.Repeat(`{"id":12345,"name":"a name","tags":["x","y","z"]},`, n) + `0],"total":7,"none":null}`)
}

// Resolving references does not delay other steps or a cancellation, even nine hundred references
// into a result of several MB.
func TestRunCancelledWhileReading(t *testing.T) {
	var refs []string
	for i := range 900 {
		refs = append(refs, fmt.Sprintf(`{"$ref":"a#/items/%d/id"}`, 20_000-i))
	}
	var read atomic.Bool // all references were resolved
	o := plan.Options{Limits: unlimited, Find: func(name string) *plan.Tool {
		return &plan.Tool{Name: name, Writes: func(arguments []byte) bool {
			if len(arguments) > 2*900 {
				read.Store(true)
			}
			return false
		}}
	}}
	p, defects := plan.Parse([]byte(`{"steps":[{"id":"a","tool":"t"},{"id":"quick","tool":"t","depends_on":["a"]},{"id":"next","tool":"t","depends_on":["quick"]},
		{"id":"last","tool":"t","depends_on":["next"]},{"id":"b","tool":"t","arguments":{"x":[`+strings.Join(refs, ",")+`]}}]}`), o)
	if len(defects) > 0 {
		t.Fatal(defects)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &plan.Runner{Limits: unlimited, Call: func(_ context.Context, c plan.Call) plan.Result {
		switch c.Step.ID {
		case "a":
			return resultOf(large(20_001))
		case "last":
			cancel() // while the other step's references are being resolved
		}
		return resultOf("1")
	}}
	report := r.Run(ctx, p)
	want := "a ok\nquick ok\nnext ok\nlast ok\nb failed: cut short: cancelled"
	if got := fates(report); got != want || report.Steps[4].Calls > 0 || read.Load() {
		t.Errorf("got\n%s\nread to the end: %t, want\n%s", got, read.Load(), want)
	}
}

// JSON text counts once towards the bytes of results, and no other text exceeds them. A reference to
// the whole result returns the original text.
func TestRunCountsTextOnce(t *testing.T) {
	text := " [1,\n 2]  \n"
	p, defects := plan.Parse([]byte(`{"steps":[{"id":"a","tool":"read"},{"id":"s","tool":"put","arguments":{"text":"$ref:a"}},
		{"id":"j","tool":"read","arguments":{"x":"$ref:a"}},{"id":"rows","tool":"read"},{"id":"t","tool":"put","arguments":{"text":"$ref:rows"}}]}`), strict(t, never))
	if len(defects) > 0 {
		t.Fatal(defects)
	}
	got := make(map[string]string)
	r := &plan.Runner{Limits: within(plan.Limits{Bytes: 70, Parallel: 1}), Call: func(_ context.Context, c plan.Call) plan.Result {
		switch c.Step.ID {
		case "a":
			return plan.Result{Value: plan.Value{JSON: []byte(strings.TrimSpace(text)), Text: text}}
		case "rows":
			return plan.Result{Value: plan.Value{JSON: []byte(`[{},{}]`), Text: "{}\n{}"}}
		}
		got[c.Step.ID] = string(c.Arguments)
		return resultOf("1")
	}}
	report := r.Run(t.Context(), p)
	want := map[string]string{"s": `{"text":" [1,\n 2]  \n"}`, "j": `{"x":[1,2]}`, "t": `{"text":"{}\n{}"}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s\n%s", diff, fates(report))
	}

	whole := `"` + strings.Repeat("x", 60) + `"`
	r.Call = func(context.Context, plan.Call) plan.Result {
		return plan.Result{Value: plan.Value{JSON: []byte(whole), Text: whole}}
	}
	report = r.Run(t.Context(), parse(t, plan.Limits{}, `{"steps":[{"id":"a","tool":"read"}]}`))
	if got := fates(report); got != "a ok" {
		t.Errorf("got %s", got)
	}

	r.Call = func(_ context.Context, c plan.Call) plan.Result { // the text beside structuredContent
		if c.Step.ID == "list" {
			return resultOf("[1,2]")
		}
		return plan.Result{Value: plan.Value{JSON: []byte("{}"), Text: strings.Repeat("x", 80)}}
	}
	report = r.Run(t.Context(), parse(t, plan.Limits{}, `{"steps":[{"id":"a","tool":"read"},{"id":"list","tool":"read"},{"id":"each","tool":"read","for_each":"$ref:list"}]}`))
	if got := fates(report); got != "a failed: answer of 80 bytes: all results of a plan may have 70 (max_result_bytes)\nlist ok\neach ok" {
		t.Errorf("got %s", got)
	}
}

// The progress of a call is reported, at most every 100 ms, as a value that increases.
func TestRunTellsOfProgress(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var told []string
		last := 0.0
		r := &plan.Runner{
			Limits: unlimited,
			Call: func(_ context.Context, c plan.Call) plan.Result {
				for range 8 {
					time.Sleep(40 * time.Millisecond)
					c.Progress()
				}
				synctest.Wait()
				c.Progress()
				return resultOf("[1]")
			},
			Progress: func(done float64, of int, what string) {
				if done <= last {
					t.Errorf("got %g after %g", done, last)
				}
				last = done
				told = append(told, fmt.Sprintf("%.1f of %d: %s", done, of, what))
			},
		}
		r.Run(t.Context(), parse(t, plan.Limits{}, `{"steps":[{"id":"a","tool":"read"},{"id":"e","tool":"read","for_each":"$ref:a"}]}`))
		want := []string{
			"0.0 of 2: a: running", "0.0 of 2: a: running", "0.0 of 2: a: running", "1.0 of 2: a: ok (320 ms)",
			"1.0 of 2: e: 0 of 1 items", "1.0 of 2: e: 0 of 1 items", "1.0 of 2: e: 0 of 1 items", "2.0 of 2: e: ok (320 ms)",
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}

// A long for_each reports progress once a second.
func TestRunTellsOfItems(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newServers()
		var told []string
		r := &plan.Runner{
			Limits: within(plan.Limits{Parallel: 1}), Call: s.call,
			Progress: func(done float64, of int, what string) {
				told = append(told, fmt.Sprintf("%g of %d: %s", done, of, what))
			},
		}
		r.Run(t.Context(), parse(t, plan.Limits{}, `{"steps":[{"id":"list","tool":"read","arguments":{"give":[{"ms":900},{"ms":90},{"ms":1000},{"ms":1}]}},
			{"id":"e","tool":"read","for_each":"$ref:list","on_error":"skip","arguments":{"ms":{"$ref":"item#/ms"}}}]}`))
		if diff := cmp.Diff([]string{"1 of 2: list: ok (0 ms)", "1.2 of 2: e: 1 of 4 items", "1.6 of 2: e: 3 of 4 items", "2 of 2: e: ok (1991 ms)"}, told); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}
