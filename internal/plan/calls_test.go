package plan_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/plan"
)

// emailTriage is the example of seed 0, 5.
const emailTriage = `{"calls":[
	{"id":"MEMORY","tool":"read_MEMORY.md","cost_tokens":1500,"value":0.9,"probability":1},
	{"id":"USER","tool":"read_USER.md","cost_tokens":800,"value":0.85,"probability":1},
	{"id":"search","tool":"memory_search:contacts","cost_tokens":600,"value":0.7,"probability":1},
	{"id":"email_1","tool":"read_email_1","cost_tokens":1200,"value":0.8,"probability":1,"after":["search"]},
	{"id":"email_2","tool":"read_email_2","cost_tokens":1100,"value":0.75,"probability":1,"after":["search"]},
	{"id":"email_3","tool":"read_email_3","cost_tokens":900,"value":0.6,"probability":1,"after":["search"]}],
	"budget_tokens":5000}`

// The best choice costs all of the 5000 and is worth 3.85 (science.md 4, row 2).
func TestScheduleEmail(t *testing.T) {
	got := schedule(t, emailTriage, parsing(t))
	want := `{"selected":[{"id":"MEMORY","start_ms":0,"end_ms":1000,"batch":1},{"id":"USER","start_ms":0,"end_ms":1000,"batch":1},` +
		`{"id":"search","start_ms":0,"end_ms":1000,"batch":1},{"id":"email_1","start_ms":1000,"end_ms":2000,"batch":2},{"id":"email_3","start_ms":1000,"end_ms":2000,"batch":2}],` +
		`"left_out":[{"id":"email_2","reason":"other calls are worth more of the budget"}],` +
		`"value":3.85,"cost_tokens":5000,"exact":true,` +
		`"expected":{"makespan_ms":2000,"lower_bound_ms":2000,"critical_path":["search","email_1"],"guessed":["MEMORY","USER","search","email_1","email_3"]}}`
	if diff := cmp.Diff(strings.Split(want, ","), strings.Split(string(got), ",")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func schedule(t testing.TB, raw string, o plan.Options) []byte {
	t.Helper()
	out, defects := plan.Schedule([]byte(raw), o)
	if len(defects) > 0 {
		t.Fatalf("Schedule(%.300s): %v", raw, defects)
	}
	return out
}

// answer is what a client reads of a schedule.
type answer struct {
	Selected []struct {
		ID         string
		Start, End int64
		Batch      int
	}
	LeftOut []struct{ ID, Reason string } `json:"left_out"`
	Cost    int                           `json:"cost_tokens"`
}

func answered(t testing.TB, out []byte) (a answer) {
	t.Helper()
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return a
}

// What is not said of a call is what is known of its tool, and what it refers to
// comes before it.
func TestScheduleDefaults(t *testing.T) {
	a := answered(t, schedule(t, `{"calls":[
		{"tool":"t5"},
		{"tool":"t4","arguments":{"x":"$result_1"}},
		{"id":"none","tool":"t4","value":0},
		{"id":"behind","tool":"t4","after":["big"]},
		{"id":"big","tool":"t4","cost_tokens":950},
		{"id":"huge","tool":"t1","cost_tokens":1001},
		{"id":"w","tool":"w2"},{"id":"v","tool":"w2"}],"budget_tokens":1000,"slots":1}`, timed(t)))
	var got []string
	for _, s := range a.Selected {
		got = append(got, s.ID)
	}
	slices.Sort(got)
	if want := []string{"1", "2", "v", "w"}; !slices.Equal(got, want) || a.Cost != 400 {
		t.Errorf("got %v for %d tokens, want %v for 400", got, a.Cost, want)
	}
	reasons := make(map[string]string)
	for _, l := range a.LeftOut {
		reasons[l.ID] = l.Reason
	}
	want := map[string]string{
		"none": "worth nothing by itself", "behind": "takes 1050 tokens with what it needs, of 1000",
		"big": "other calls are worth more of the budget", "huge": "takes 1001 tokens, of 1000",
	}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	batches := make(map[string]int)
	for _, s := range a.Selected {
		batches[s.ID] = s.Batch
	}
	if diff := cmp.Diff(map[string]int{"1": 1, "2": 2, "w": 1, "v": 2}, batches); diff != "" { // v writes after w
		t.Errorf("batches (-want +got):\n%s", diff)
	}
}

// Arguments that are not said are not known yet, which is no defect.
func TestScheduleWithoutArguments(t *testing.T) {
	a := answered(t, schedule(t, `{"calls":[{"tool":"get_issue"},{"tool":"shell"}]}`, parsing(t)))
	if len(a.LeftOut) != 2 { // worth nothing: nobody said what they are worth
		t.Errorf("got %+v", a)
	}
	_, defects := plan.Schedule([]byte(`{"calls":[{"tool":"get_issue","arguments":{}}]}`), parsing(t))
	told(t, defects, []string{`step "1" at /calls/0/arguments/number: missing (input schema of "get_issue")`})
}

// A tool that nobody knows was never selected: without a value its answer counted as
// worth nothing.
func TestScheduleUnknownTool(t *testing.T) {
	out := schedule(t, `{"calls":[{"id":"x","tool":"unknown","cost_tokens":10},{"id":"y","tool":"unknown","cost_tokens":10,"value":0}]}`, parsing(t))
	if a := answered(t, out); len(a.Selected) != 1 || a.Selected[0].ID != "x" || !strings.Contains(string(out), `"value":0.25,`) {
		t.Errorf("got %s, want x for half of half", out)
	}
}

// Nothing is run: what plans may not do can be scheduled.
func TestScheduleRunsNothing(t *testing.T) {
	o := timed(t)
	o.ReadOnly, o.Depth, o.Params = true, 1, []byte(`{}`)
	a := answered(t, schedule(t, `{"calls":[{"id":"params","tool":"w1"},{"tool":"t1","after":["params"]}]}`, o))
	if len(a.Selected) != 2 {
		t.Errorf("got %+v, want both", a)
	}
}

func TestScheduleDefects(t *testing.T) {
	for _, c := range []struct {
		raw  string
		want []string
	}{
		{`[]`, []string{"want an object with calls, have an array"}},
		{`{"steps":[]}`, []string{"at /steps: unknown member; there are calls, budget_tokens, slots", "at /calls: missing: want an array of objects with id and tool"}},
		{`{"calls":[{"tool":"get_wether"}]}`, []string{`step "1" at /calls/0/tool: unknown tool "get_wether" (to schedule it all the same give its cost_tokens); did you mean "get_weather"?`}},
		{`{"calls":[{"tool":"a","value":1.5}]}`, []string{`step "1" at /calls/0/value: want a number from 0 to 1, have 1.5`}},
		{`{"calls":[{"tool":"mcpschedd_schedule","cost_tokens":1}]}`, []string{`step "1" at /calls/0/tool: a plan cannot hold a plan: "mcpschedd_schedule" is no tool of a server`}},
		{`{"calls":[{"tool":"a","after":["2"]},{"tool":"a","arguments":{"x":"$result_1"}}]}`, []string{`step "1" at /calls/0: cycle: 1 -> 2 -> 1, each waits for the next`}},
		{`{"calls":[{"id":"2","tool":"a"},{"tool":"a","cost_tokens":-1,"depends_on":[]}],"slots":0,"budget_tokens":0}`, []string{
			"at /budget_tokens: want a whole number of at least 1, have 0", "at /slots: want a whole number of at least 1, have 0",
			`step "2" at /calls/1/depends_on: unknown member; there are id, tool, arguments, value, probability, cost_tokens, …`, `step "2" at /calls/1/cost_tokens: want a whole number of at least 0, have -1`,
			`step "2" at /calls/1/id: duplicate id: /calls/0 has it too`,
		}},
	} {
		_, defects := plan.Schedule([]byte(c.raw), parsing(t))
		told(t, defects, c.want)
	}
}
