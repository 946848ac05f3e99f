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

// The guide documents every member.
func TestGuideMembers(t *testing.T) {
	for m := range jsonrpc.Members(jsonrpc.At(plan.InputSchema(), "/properties/steps/items/properties")) {
		if !strings.Contains(plan.Guide, "`"+string(m.Name)+"`") {
			t.Errorf("the guide does not mention %s", m.Name)
		}
	}
}

// The examples of the guide and the description are valid plans.
func TestExamples(t *testing.T) {
	o := parsing(t)
	o.Find = func(name string) *plan.Tool { return &plan.Tool{Name: name, Writes: never} }
	_, guide, _ := strings.Cut(plan.Guide, "```json\n")
	guide, _, _ = strings.Cut(guide, "```")
	_, description, _ := strings.Cut(plan.Description(&plan.Settings{}), "Example: ")
	description, _, _ = strings.Cut(description, "\n")
	for _, example := range []string{guide, description, guideComparison, guideSummary, guideErrors} {
		parsed(t, example, o)
		fits(t, plan.InputSchema(), example, true)
	}
}

func TestSchemas(t *testing.T) {
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
