package plan_test

import (
	"strings"
	"testing"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/schema"
)

// The description is part of every session's context, so it must be short.
func TestDescriptionIsShort(t *testing.T) {
	text := plan.Description(&plan.Settings{Mutations: "deny", Limits: plan.Limits{Steps: 100}})
	for _, part := range []string{"100 steps", "Only tools that read", `"ID#"`, "without your client's prefix", plan.GuideURI} {
		if !strings.Contains(text, part) {
			t.Errorf("nothing of %q: %s", part, text)
		}
	}
	if n := len(text) + len(plan.InputSchema()); n > 2200 {
		t.Errorf("got %d bytes, want at most 2200", n)
	}
}

// The guide documents every member, and its example is a valid plan.
func TestGuideExample(t *testing.T) {
	for m := range jsonrpc.Members(jsonrpc.At(plan.InputSchema(), "/properties/steps/items/properties")) {
		if !strings.Contains(plan.Guide, "`"+string(m.Name)+"`") {
			t.Errorf("the guide does not mention %s", m.Name)
		}
	}
	_, example, _ := strings.Cut(plan.Guide, "```json\n")
	example, _, _ = strings.Cut(example, "```")
	o := parsing(t)
	o.Find = func(name string) *plan.Tool { return &plan.Tool{Name: name, Writes: never} }
	if p := parsed(t, example, o); len(p.Steps) != 3 || len(p.Steps[2].Needs) != 2 {
		t.Errorf("got %+v", p.Steps)
	}
	fits(t, plan.InputSchema(), example, true)
}

// The example in the description is a valid plan.
func TestDescriptionExample(t *testing.T) {
	text := plan.Description(&plan.Settings{})
	_, example, _ := strings.Cut(text, "Example: ")
	example, _, _ = strings.Cut(example, "\n")
	o := parsing(t)
	o.Find = func(name string) *plan.Tool { return &plan.Tool{Name: name, Writes: never} }
	p := parsed(t, example, o)
	if len(p.Steps) != 2 || p.Steps[1].ForEach == nil || p.Steps[1].Needs[0] != 0 {
		t.Errorf("got %+v", p.Steps)
	}
	fits(t, plan.InputSchema(), example, true)
}

func TestSchemas(t *testing.T) {
	for _, raw := range []string{guideComparison, guideSummary, guideErrors} {
		fits(t, plan.InputSchema(), raw, true)
	}
	full := `{"steps":[{"id":"a","tool":"t","arguments":{"x":1},"depends_on":["b"],"when":{"ref":"$ref:b","op":"eq","value":1},"for_each":{"$ref":"b#"},
		"max_items":1,"max_parallel":1,"timeout":5,"retry":1,"on_error":"default","default":[null],"optional":false,"value":1,"probability":0.5,
		"max_tokens":5},{"id":"b","tool":"t","timeout":"5s","when":"$ref:c"}],"output_steps":["a"],"budget_tokens":1,"dry_run":true}`
	fits(t, plan.InputSchema(), full, true)
	fits(t, plan.InputSchema(), `{"steps":[{"id":"a"}]}`, false)
	fits(t, plan.OutputSchema(), string(forecast(parsed(t, guideSummary, parsing(t)), plan.Limits{}).Answer()), true)
}

func fits(t *testing.T, raw []byte, arguments string, want bool) {
	t.Helper()
	s, err := schema.Compile(raw)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	if wrong := s.Faults([]byte(arguments), nil); (wrong == nil) != want {
		t.Errorf("%.200s: got %v, want it valid: %v", arguments, wrong, want)
	}
}
