package plan_test

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mcpschedd/internal/plan"
	"mcpschedd/internal/schema"
)

// issueInput is compiled once, as that takes long.
var issueInput = sync.OnceValue(func() *schema.Schema {
	s, err := schema.Compile([]byte(`{"type":"object","properties":{"number":{"type":"integer"},"repo":{"type":"string"}},
		"required":["number"],"additionalProperties":false}`))
	if err != nil {
		panic(err)
	}
	return s
})

// parsing returns the options of the tests in this file.
func parsing(t testing.TB) plan.Options {
	t.Helper()
	tools := map[string]*plan.Tool{
		"list": {Output: []byte(`{"type":"object","properties":{
			"items":{"type":"array","items":{"type":"object","properties":{"number":{"type":"integer"},"title":{"type":"string"}},"additionalProperties":false}},
			"total":{"type":"integer"}},"additionalProperties":false}`)},
		"get_issue":    {Domains: []string{"github"}, Input: issueInput()},
		"create_issue": {Domains: []string{"github"}, Writes: always},
		"shell":        {Domains: []string{"local"}, Writes: func(args []byte) bool { return string(args) != `{"command":"ls"}` }},
		"read_file":    {Domains: []string{"local"}},
		"mystery":      {Writes: always},
	}
	for _, name := range []string{"get_weather", "compare_data", "summarize", "flaky_api", "reliable_api", "process", "a", "github__search"} {
		tools[name] = &plan.Tool{Writes: never}
	}
	for name, tool := range tools {
		tool.Name = name
		if tool.Writes == nil {
			tool.Writes = never
		}
	}
	return plan.Options{
		Limits: plan.Limits{Steps: 100, Parallel: 8, Depth: 32, Bytes: 1 << 20, Budget: 10_000},
		Find:   func(name string) *plan.Tool { return tools[name] },
		Names: func() []string {
			var names []string
			for name := range tools {
				names = append(names, name)
			}
			return names
		},
	}
}

// steps returns a plan with these steps.
func steps(each ...string) string { return `{"steps":[` + strings.Join(each, ",") + `]}` }

// Example plans of the guide.
const (
	guideComparison = `{
  "steps": [
    {
      "id": "weather_tokyo",
      "tool": "get_weather",
      "arguments": "{\"location\": \"Tokyo\"}"
    },
    {
      "id": "weather_london",
      "tool": "get_weather",
      "arguments": "{\"location\": \"London\"}"
    },
    {
      "id": "comparison",
      "tool": "compare_data",
      "arguments": "{\"data_a\": \"$ref:weather_tokyo\", \"data_b\": \"$ref:weather_london\"}"
    }
  ],
  "output_steps": ["comparison"]
}`
	guideSummary = `{
  "steps": [
    {"id": "a", "tool": "get_weather", "arguments": "{\"location\": \"Tokyo\"}"},
    {"id": "b", "tool": "get_weather", "arguments": "{\"location\": \"London\"}"},
    {"id": "c", "tool": "get_weather", "arguments": "{\"location\": \"Paris\"}"},
    {"id": "summary", "tool": "summarize", "arguments": "{\"data\": [\"$ref:a\", \"$ref:b\", \"$ref:c\"]}"}
  ],
  "output_steps": ["summary"]
}`
	guideErrors = `{
  "steps": [
    {"id": "s1", "tool": "flaky_api", "arguments": "{}"},
    {"id": "s2", "tool": "reliable_api", "arguments": "{}"},
    {"id": "s3", "tool": "process", "arguments": "{\"data\": \"$ref:s1\"}"}
  ],
  "output_steps": ["s2", "s3"]
}`
)

func TestParseGuide(t *testing.T) {
	for _, c := range []struct {
		name, raw string
		outputs   []string
		needs     [][]int
	}{
		{"comparison", guideComparison, []string{"comparison"}, [][]int{nil, nil, {0, 1}}},
		{"summary", guideSummary, []string{"summary"}, [][]int{nil, nil, nil, {0, 1, 2}}},
		{"error handling", guideErrors, []string{"s2", "s3"}, [][]int{nil, nil, {0}}},
		{"no output_steps: all of them", steps(`{"id":"x","tool":"a","arguments":"{}"}`, `{"id":"y","tool":"a","arguments":"{}"}`), []string{"x", "y"}, [][]int{nil, nil}},
		{
			"fields, and a dash in an id", steps(
				`{"id":"get-user","tool":"a"}`, `{"id":"t","tool":"a","arguments":"{\"a\": \"$ref:get-user.temp\", \"b\": [\"$ref:get-user.address.city\"]}"}`),
			[]string{"get-user", "t"}, [][]int{nil, {0}},
		},
		{
			"calls that say by $result_ID what they depend on", steps(
				`{"id":"1","tool":"a"}`, `{"id":"10","tool":"a","arguments":{"x":"$result_1"}}`, `{"id":"2","tool":"a","arguments":{"x":"$result_10","y":"$result_1"}}`),
			[]string{"1", "10", "2"}, [][]int{nil, {0}, {0, 1}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := parsed(t, c.raw, parsing(t))
			if diff := gocmp.Diff(c.outputs, outputs(p)); diff != "" {
				t.Errorf("outputs (-want +got):\n%s", diff)
			}
			for i, s := range p.Steps {
				if !slices.Equal(s.Needs, c.needs[i]) || !slices.Equal(s.Waits, c.needs[i]) {
					t.Errorf("step %s: got needs %v, waits %v, want %v", s.ID, s.Needs, s.Waits, c.needs[i])
				}
			}
		})
	}
}

// outputs returns the ids of the outputs.
func outputs(p *plan.Plan) (ids []string) {
	for _, s := range p.Outputs {
		ids = append(ids, s.ID)
	}
	return ids
}

func parsed(t testing.TB, raw string, o plan.Options) *plan.Plan {
	t.Helper()
	o.Limits = within(o.Limits)
	p, defects := plan.Parse([]byte(raw), o)
	if len(defects) > 0 {
		t.Fatalf("Parse(%.300s): %v", raw, defects)
	}
	return p
}

// The members of a step and their defaults.
func TestParseMembers(t *testing.T) {
	p := parsed(t, `{"steps":[
		{"id":"plain","tool":"a"},
		{"id":"null","tool":"a","arguments":null,"when":null,"for_each":null,"optional":null,"depends_on":null,"timeout":null,"default":null},
		{"id":"empty","tool":"a","arguments":" "},
		{"id":"full","tool":"a","arguments":{"x":{"$ref":"item#/n"}},"depends_on":["plain","null","plain"],"when":{"$ref":"plain#/ok"},
			"for_each":{"$ref":"null#/items"},"max_items":7,"max_parallel":2,"timeout":"1m30s","retry":5,"on_error":"default","default":null,
			"optional":true,"value":3,"probability":0,"max_tokens":1e2},
		{"id":"loop","tool":"a","for_each":"$ref:plain.rows","timeout":2.5,"max_items":10000}],
		"output_steps":["full","plain"],"budget_tokens":500.0,"dry_run":true}`, parsing(t))
	if p.Budget != 500 || !p.DryRun || !slices.Equal(outputs(p), []string{"full", "plain"}) {
		t.Errorf("got budget %d, dry run %v, outputs %v", p.Budget, p.DryRun, outputs(p))
	}
	want := []plan.Step{
		{ID: "plain"}, {ID: "null", Default: []byte("null")}, {ID: "empty"},
		{
			ID: "full", Needs: []int{0, 1}, Waits: []int{0, 1}, Timeout: 90 * time.Second, Retry: 5, MaxItems: 7, Parallel: 2,
			OnError: plan.Default, Default: []byte("null"), Optional: true, MaxTokens: 100,
		},
		{ID: "loop", Needs: []int{0}, Waits: []int{0}, Timeout: 2500 * time.Millisecond, MaxItems: 10_000},
	}
	for i, s := range p.Steps {
		if (s.When != nil) != (i == 3) || (s.ForEach != nil) != (i > 2) {
			t.Errorf("%s: got when %v, for_each %v", s.ID, s.When, s.ForEach)
		}
		got := *s
		got.Tool, got.When, got.ForEach = nil, nil, nil
		want[i].Index = i
		if want[i].OnError == "" {
			want[i].OnError = plan.Fail
		}
		want[i].MaxItems = cmp.Or(want[i].MaxItems, 100)
		if diff := gocmp.Diff(want[i], got, cmpopts.IgnoreUnexported(plan.Step{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestParseBudget(t *testing.T) {
	for given, want := range map[string]int{`null`: 10_000, `9999`: 9999, `10001`: 10_000} {
		p := parsed(t, `{"steps":[{"id":"x","tool":"a"}],"budget_tokens":`+given+`}`, parsing(t))
		if p.Budget != want {
			t.Errorf("budget_tokens %s: got %d, want %d", given, p.Budget, want)
		}
	}
}

func TestParseWrites(t *testing.T) {
	p := parsed(t, steps(
		`{"id":"known","tool":"shell","arguments":{"command":"ls"}}`,
		`{"id":"other","tool":"shell","arguments":{"command":"rm x"}}`,
		`{"id":"open","tool":"shell","arguments":{"command":{"$ref":"known#/x"}}}`,
		`{"id":"never_told","tool":"mystery"}`,
		`{"id":"reads","tool":"read_file"}`,
	), parsing(t))
	var writes []string
	for _, s := range p.Steps {
		if s.Writes {
			writes = append(writes, s.ID)
		}
	}
	if want := []string{"other", "open", "never_told"}; !slices.Equal(writes, want) {
		t.Errorf("got %v, want %v", writes, want)
	}
}

// Parse does not keep its input, so the input may be reused.
func TestParseKeepsNothing(t *testing.T) {
	o := parsing(t)
	o.Params = []byte(`{"day":"mon"}`)
	raw := []byte(steps(`{"id":"s","tool":"a","arguments":{"x":12345},"on_error":"default","default":[7]}`))
	p, defects := plan.Parse(raw, o)
	if len(defects) > 0 {
		t.Fatal(defects)
	}
	clear(raw)
	clear(o.Params)
	var got string
	(&plan.Runner{Limits: unlimited, Call: func(_ context.Context, c plan.Call) plan.Result {
		got = fmt.Sprintf("%s %s %s %s %s", c.Step.ID, c.Step.Tool.Name, c.Arguments, c.Step.Default, p.Params)
		return plan.Result{}
	}}).Run(t.Context(), p)
	if got != `s a {"x":12345} [7] {"day":"mon"}` {
		t.Errorf("got %s, want it unchanged", got)
	}
}

// Parsing a plan full of references takes little memory. It once took forty times the plan's size.
func TestParseManyReferences(t *testing.T) {
	o := parsing(t)
	o.Bytes = unlimited.Bytes
	for _, refs := range []string{
		`[` + strings.Repeat(`"$ref:b",`, 200_000) + `0]`,
		`{"$tpl":"` + strings.Repeat(`${b#}`, 200_000) + `"}`,
		`[` + strings.Repeat(`{"$ref":"b"},`, 200_000) + `0]`,
	} {
		raw := []byte(steps(`{"id":"b","tool":"a"}`, `{"id":"s","tool":"a","arguments":{"x":`+refs+`}}`))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, defects := plan.Parse(raw, o)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 16*uint64(len(raw)) {
			t.Errorf("%.20s: took %d bytes for %d", refs, took, len(raw))
		}
		if len(defects) == 0 {
			t.Errorf("%.20s: accepted", refs)
		}
	}
}

// Unusual but valid plans.
func TestParseAccepts(t *testing.T) {
	for name, raw := range map[string]string{
		"brackets in a string":           steps(`{"id":"s","tool":"a","arguments":{"x":"\"` + strings.Repeat("[", 100) + `"}}`),
		"an array of a member of all":    steps(`{"id":"list","tool":"list"}`, `{"id":"t","tool":"a","for_each":{"$ref":"list#/items/*/number"}}`),
		"an array of what all items got": steps(`{"id":"x","tool":"a"}`, `{"id":"loop","tool":"list","for_each":"$ref:x"}`, `{"id":"t","tool":"a","for_each":{"$ref":"loop#/*/total"}}`),
		"all results of a for_each":      steps(`{"id":"x","tool":"a"}`, `{"id":"loop","tool":"list","for_each":"$ref:x"}`, `{"id":"t","tool":"a","for_each":"$ref:loop"}`),
		"64 deep":                        steps(`{"id":"s","tool":"a","arguments":{"x":` + strings.Repeat("[", 60) + strings.Repeat("]", 60) + `}}`),
		"a step called params":           steps(`{"id":"params","tool":"a"}`),
		"steps called item and index":    steps(`{"id":"item","tool":"a"}`, `{"id":"index","tool":"a","arguments":{"x":{"$ref":"item#/y"}}}`),
		"a JSON Schema as an argument":   steps(`{"id":"s","tool":"a","arguments":{"schema":{"$ref":"#/definitions/x"}}}`),
	} {
		if p, defects := plan.Parse([]byte(raw), parsing(t)); p == nil {
			t.Errorf("%s: %v", name, defects)
		}
	}
}

// All defects are reported at once, in the order of the plan, each as one short line.
func TestParseAllAtOnce(t *testing.T) {
	_, defects := plan.Parse([]byte(`{"steps":[
		{"id":"a","tool":"get_wether","arguments":{"x":"$ref:zz"}},
		{"id":"a b","tool":"a","retry":-9},
		{"tool":"a","depends_on":["d"]},
		{"id":"d","tool":"a","when":"$ref:e"},
		{"id":"e","tool":"a","arguments":"{\"x\":\"$ref:d.y\"}","retrys":1}],
		"output_steps":["nope"],"budget":1}`), parsing(t))
	want := `nothing was run:
at /budget: unknown member; did you mean "budget_tokens"?
at /output_steps/0: unknown step "nope"
step "a" at /steps/0/arguments/x: unknown step "zz"
step "a" at /steps/0/tool: unknown tool "get_wether"; did you mean "get_weather"?
step "a b" at /steps/1/id: want letters, digits, _ and -, at most 128 of them, have "a b"
step "a b" at /steps/1/retry: want a whole number from 0 to 5, have -9
at /steps/2: missing member "id"
step "d" at /steps/3: cycle: d -> e -> d, each waits for the next
step "e" at /steps/4/retrys: unknown member; did you mean "retry"?`
	if diff := gocmp.Diff(want, defects.Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	one := plan.Defects{{Step: "a\n\"b", Pointer: "/x\u202e\n", Message: strings.Repeat("ä", 1000)}}.Error()
	if want := "nothing was run:\nstep \"a\\n\\\"b\" at /x\\u{202e}\\u{a}: ää"; !strings.HasPrefix(one, want) || strings.Count(one, "\n") != 1 || len(one) > 1000 {
		t.Errorf("got  %.80q\nwant %q", one, want)
	}
}

// Parse returns, for any input, either defects or a plan that can run.
func FuzzParse(f *testing.F) {
	for _, raw := range []string{
		guideComparison, guideSummary, guideErrors, `{}`, `{"steps":[]}`, `[]`, `{"steps":[{"id":"a","tool":"a"}],"output_steps":["a"]}`,
		steps(`{"id":"x","tool":"list"}`, `{"id":"y","tool":"get_issue","for_each":{"$ref":"x#/items"},"arguments":{"number":{"$ref":"item#/number"}},"max_items":3}`),
		steps(`{"id":"x","tool":"create_issue"}`, `{"id":"y","tool":"get_issue","arguments":{"number":"$ref:x.n"},"when":{"ref":"$ref:x","op":"exists"}}`),
		steps(`{"id":"x","tool":"a","depends_on":["y"]}`, `{"id":"y","tool":"a","depends_on":["x"],"on_error":"default","default":{"a":[1]}}`),
		steps(`{"id":"w","tool":"create_issue","arguments":{"a":"$ref:v"}}`, `{"id":"v","tool":"create_issue"}`, `{"id":"r","tool":"get_issue","arguments":{"number":1}}`),
		steps(`{"id":"x","tool":"shell","arguments":{"command":"ls"},"optional":true,"value":1e9,"timeout":"5s","retry":2}`),
		manyDefects(conditionsOfNothing[1]), manyDefects(conditionsOfNothing[2]),
	} {
		f.Add([]byte(raw), true)
		f.Add([]byte(raw), false)
	}
	o := parsing(f)
	f.Fuzz(func(t *testing.T, raw []byte, params bool) {
		o := o
		if params {
			o.Params = []byte(`{"x":[1],"y":null}`)
		}
		p, defects := plan.Parse(raw, o)
		if (p == nil) != (len(defects) > 0) {
			t.Fatalf("got plan %v, defects %v", p, defects)
		}
		if text := defects.Error(); p == nil && strings.Count(text, "\n") != len(defects) {
			t.Errorf("got %q of %d defects", text, len(defects))
		}
		if p != nil {
			well(t, p)
			expected(t, p, o.Limits)
		}
	})
}
