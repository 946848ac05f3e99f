package plan_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
)

// checkLeft fails if a missing part of a result is not listed: by itself, with its neighbours or
// with the rest.
func checkLeft(t *testing.T, r *plan.Report, structured, kept []byte) {
	t.Helper()
	var a struct {
		Outputs map[string]json.RawMessage
		Handle  string
		Left    []struct{ Pointer, What string } `json:"left_out"`
	}
	if err := json.Unmarshal(structured, &a); err != nil {
		t.Fatal(err)
	}
	named, others := make(map[string]bool), false
	for _, l := range a.Left {
		id, _, _ := strings.Cut(strings.TrimPrefix(l.Pointer, "/"), "/")
		named[id] = true
		others = others || l.Pointer == ""
		if jsonrpc.At(kept, l.Pointer) == nil {
			t.Errorf("nothing is stored at %q", l.Pointer)
		}
	}
	for _, st := range r.Steps {
		if !st.Output || st.State != plan.OK {
			continue
		}
		if got := a.Outputs[st.Step.ID]; !bytes.Equal(got, st.Result.JSON) && !named[st.Step.ID] && !others {
			t.Errorf("%s is cut, and not listed as cut: %s", st.Step.ID, got)
		}
		if kept != nil && !bytes.Equal(jsonrpc.At(kept, "/"+st.Step.ID), st.Result.JSON) {
			t.Errorf("%s differs from the stored result", st.Step.ID)
		}
	}
	if (a.Handle != "") != (len(a.Left) > 0) || (kept != nil) != (a.Handle != "") {
		t.Errorf("got handle %q to %d bytes, and %d named", a.Handle, len(kept), len(a.Left))
	}
}

// With a small budget, results that are left out are listed and have a handle.
func TestAnswerSmallBudget(t *testing.T) {
	for _, c := range []struct {
		steps, bytes, tokens int
		within               bool
		outputs              int // minimum number of outputs
	}{
		{1, 3000, 50, true, 0},
		{1, 3000, 1, false, 0},
		{1, 3000, 150, true, 1},
		{100, 1000, 2000, true, 100},
		{100, 8, 2000, true, 100},
		{100, 1000, 60, true, 0},
		{1000, 1000, 100, true, 0},
		{1000, slice(5_000, 50_000), 2000, true, 1},
	} {
		var steps []string
		for i := range c.steps {
			steps = append(steps, fmt.Sprintf(`{"id":"step_%d","tool":"read"}`, i))
		}
		p := parse(t, plan.Limits{}, `{"steps":[`+strings.Join(steps, ",")+`]}`)
		r := &plan.Runner{Limits: unlimited, Call: func(context.Context, plan.Call) plan.Result {
			return resultOf(`["` + strings.Repeat("x", c.bytes) + `"]`)
		}}
		report := r.Run(t.Context(), p)
		var kept []byte
		structured, _ := report.Answer(p, excerpt.Limit{Tokens: c.tokens}, func(all []byte) string {
			kept = all
			return strings.Repeat("h", 26)
		})
		limit := 0
		if c.within {
			limit = c.tokens
		}
		checkAnswer(t, structured, limit, 0)
		checkLeft(t, report, structured, kept)
		outputs := 0
		for range jsonrpc.Members(jsonrpc.Get(structured, "outputs")) {
			outputs++
		}
		if outputs < c.outputs {
			t.Errorf("%+v: got %d outputs", c, outputs)
		}
		t.Logf("%+v: %d tokens, %d outputs", c, len(structured)/4, outputs)
	}
}

// Omitted results are listed even if they cannot be stored.
func TestAnswerKeepsNothing(t *testing.T) {
	p := parse(t, plan.Limits{}, `{"steps":[{"id":"a","tool":"read"}]}`)
	r := &plan.Runner{Limits: unlimited, Call: func(context.Context, plan.Call) plan.Result {
		return resultOf(`"` + strings.Repeat("x", 3000) + `"`)
	}}
	report := r.Run(t.Context(), p)
	structured, _ := report.Answer(p, excerpt.Limit{Tokens: 50}, func([]byte) string { return "" })
	if text := string(structured); !strings.Contains(text, `"left_out":[{"pointer":"/a"`) || strings.Contains(text, "handle") {
		t.Errorf("got %s", text)
	}
}
