package predict_test

import (
	"strings"
	"testing"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// Each case is one follow-up list → get {n: 7} with other rules for get.
func TestReasons(t *testing.T) {
	rule := func(l valuemodel.Layer) []valuemodel.Rule { return []valuemodel.Rule{{Pattern: "get", Layer: l}} }
	tests := []struct {
		name   string
		rules  []valuemodel.Rule
		args   []any
		schema string
		change func(offer)
		before func(*predict.Model)
		want   enrich.Reason
	}{
		{name: "nothing against it", rules: rule(valuemodel.Layer{Class: valuemodel.ReadOnly}), want: ""},
		{name: "no such tool", rules: rule(valuemodel.Layer{Class: valuemodel.ReadOnly}), change: func(o offer) { delete(o, "get") }, want: enrich.NotSpeculatable},
		{name: "it may write", rules: nil, want: enrich.NotSpeculatable},
		{name: "it writes", rules: rule(valuemodel.Layer{Class: valuemodel.MutatesExternal}), want: enrich.NotSpeculatable},
		{name: "the operator forbids it", rules: rule(valuemodel.Layer{Class: valuemodel.ReadOnly, Speculate: new(false)}), want: enrich.NotSpeculatable},
		{name: "it never holds still", rules: rule(valuemodel.Layer{Class: valuemodel.ReadOnly, Volatile: new(true)}), want: enrich.NotSpeculatable},
		{
			name: "it is barred", rules: rule(valuemodel.Layer{Class: valuemodel.ReadOnly}),
			before: func(f *predict.Model) { f.Bar("get", "it asked something") }, want: enrich.NotSpeculatable,
		},
		{
			name: "a command that reads", rules: rule(valuemodel.Layer{Classify: valuemodel.Shell}),
			args: []any{"command", "ls -la"}, want: "",
		},
		{
			name: "a command that writes", rules: rule(valuemodel.Layer{Classify: valuemodel.Shell}),
			args: []any{"command", "git push"}, want: enrich.NotSpeculatable,
		},
		{
			name: "a command read off an answer", rules: rule(valuemodel.Layer{Classify: valuemodel.Shell}),
			args: []any{"command", "$result.run"}, want: enrich.NotSpeculatable,
		},
		{
			name: "not what the tool takes", rules: rule(valuemodel.Layer{Class: valuemodel.ReadOnly}),
			schema: `{"type":"object","properties":{"n":{"type":"boolean"}}}`, want: enrich.Schema,
		},
		{
			name: "a constant that is not what the tool takes is the operator's to mend", rules: rule(valuemodel.Layer{Class: valuemodel.ReadOnly}),
			args: []any{"n", "1"}, schema: `{"type":"object","properties":{"n":{"type":"integer"}}}`, want: enrich.Schema,
		},
		{
			name: "it tells third parties a value of the answer", rules: rule(valuemodel.Layer{Class: valuemodel.ReadOnly, Disclosure: valuemodel.ThirdParty}),
			want: enrich.Disclosure,
		},
		{
			name: "it tells third parties what the model gave itself", rules: rule(valuemodel.Layer{Class: valuemodel.ReadOnly, Disclosure: valuemodel.ThirdParty}),
			args: []any{"n", "$args.n", "lang", "en"}, want: "",
		},
		{
			name: "it tells third parties one value of the answer among others", rules: rule(valuemodel.Layer{Class: valuemodel.ReadOnly, Disclosure: valuemodel.ThirdParty}),
			args: []any{"n", "$args.n", "m", "$result.n"}, want: enrich.Disclosure,
		},
		{
			name: "known to read from annotations only", rules: rule(valuemodel.Layer{Class: valuemodel.ReadOnly}),
			change: func(o offer) { get := o["get"]; get.Annotated = true; o["get"] = get }, want: enrich.Shadow,
		},
		{
			name: "not what it takes, and known from annotations only: what forbids it counts", rules: rule(valuemodel.Layer{Class: valuemodel.ReadOnly}),
			schema: `{"type":"object","properties":{"n":{"type":"boolean"}}}`,
			change: func(o offer) { get := o["get"]; get.Annotated = true; o["get"] = get }, want: enrich.Schema,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.args == nil {
				test.args = []any{"n", "$result.n"}
			}
			rules := append(test.rules, reading("list", follow(t, "get", 0.4, test.args...)))
			o := resolve(t, hub, rules, "list", "", "get", test.schema)
			if test.change != nil {
				test.change(o)
			}
			f := predict.New(predict.Options{Tool: o.tool, Learn: true})
			if test.before != nil {
				test.before(f)
			}
			p := play(f)
			p.call("list", `{"n":1}`, `{"n":7,"run":"git push"}`)
			candidates := p.candidates()
			if len(candidates) != 1 || candidates[0].Key.Tool != "get" || candidates[0].Reason != test.want {
				t.Errorf("got %+v, want one candidate for get with the reason %q", candidates, test.want)
			}
		})
	}
}

// If only its annotation declares a tool read-only, its candidates are observed until enough of
// them have a label, and its results are compared until enough trials agree. A trial that differs
// bars the tool.
func TestAnnotated(t *testing.T) {
	o := resolve(t, hub, []valuemodel.Rule{reading("list", follow(t, "get", 0.9, "n", "$result.n")), reading("get")}, "list", "", "get", "")
	get := o["get"]
	get.Annotated = true
	o["get"] = get
	p := play(predict.New(predict.Options{Tool: o.tool, Learn: true, ShadowLabels: 3}))
	for i := range 3 {
		p.call("list", `{}`, `{"n":7}`)
		if got := find(p.candidates(), "get", `{"n":7}`).Reason; got != enrich.Shadow {
			t.Fatalf("round %d: got the reason %q, want shadow", i, got)
		}
		p.call("get", `{"n":7}`, `x`)
	}
	p.call("list", `{}`, `{"n":8}`)
	if got := find(p.candidates(), "get", `{"n":8}`); got.Key.Tool == "" || got.Reason != "" {
		t.Errorf("after three labels: got %+v, want a candidate without a reason", got)
	}
	for i := range 3 {
		if p.f.ProvenReadOnly()("get") {
			t.Errorf("proven after %d trials, want 3", i)
		}
		p.f.RecordTrial("get", true)
	}
	if !p.f.ProvenReadOnly()("get") {
		t.Error("not proven after 3 trials that agreed")
	}
	p.f.RecordTrial("get", false)
	if p.f.ProvenReadOnly()("get") || p.f.Barred("get") == "" {
		t.Error("still proven after a trial that differed")
	}
	p.call("list", `{}`, `{"n":9}`)
	if got := find(p.candidates(), "get", `{"n":9}`).Reason; got != enrich.NotSpeculatable {
		t.Errorf("barred: got the reason %q, want not_speculatable", got)
	}
}

// Candidates of a learned template are observed before they are prefetched; those of a configured
// follow-up are not.
func TestLearnedShadow(t *testing.T) {
	o := resolve(t, hub, []valuemodel.Rule{reading("list"), reading("get")}, "list", "", "get", "")
	p := play(predict.New(predict.Options{Tool: o.tool, Learn: true, ShadowLabels: 4}))
	shadowed, issued := 0, 0
	for i := range 12 {
		n := string(rune('a' + i))
		p.call("list", `{}`, `{"n":"item-`+n+`"}`)
		switch g := find(p.candidates(), "get", `{"n":"item-`+n+`"}`); {
		case g.Key.Tool == "":
		case g.Reason == enrich.Shadow:
			shadowed++
			if issued > 0 {
				t.Errorf("round %d: observed only, after it was prefetched", i)
			}
		case g.Reason == "":
			issued++
			if g.Why.Configured || g.Why.Edge != "list → get" {
				t.Errorf("got %+v, want a learned candidate of the edge list → get", g)
			}
		}
		p.call("get", `{"n":"item-`+n+`"}`, `x`)
	}
	if shadowed < 4 || issued == 0 {
		t.Errorf("observed %d times and prefetched %d times, want at least 4 and 1", shadowed, issued)
	}
}

// Without learning, only configured follow-ups make candidates, and P stays as configured.
func TestWithoutLearning(t *testing.T) {
	o := resolve(t, hub, []valuemodel.Rule{reading("list", follow(t, "get", 0.4, "n", "$result.n")), reading("get"), reading("other")},
		"list", "", "get", "", "other", "")
	p := play(predict.New(predict.Options{Tool: o.tool}))
	for range 8 {
		p.call("list", `{}`, `{"n":7}`)
		p.candidates()
		p.call("other", `{"n":7}`, `x`)
		p.candidates()
	}
	p.call("list", `{}`, `{"n":7}`)
	candidates := p.candidates()
	if g := find(candidates, "get", `{"n":7}`); g.P != 0.4 || !g.Why.Configured {
		t.Errorf("got P %v, configured %v; want 0.4 and true", g.P, g.Why.Configured)
	}
	if g := find(candidates, "other", `{"n":7}`); g.Key.Tool != "" {
		t.Errorf("got %+v, want nothing learned", g)
	}
}

// The caller is asked about candidates that are probable enough and have no reason, and about
// those that are only observed, since another reason would replace Shadow.
func TestChooseAsks(t *testing.T) {
	model := &valuemodel.Model{Layer: valuemodel.Layer{Class: valuemodel.ReadOnly, Speculate: new(true)}}
	candidate := func(n string, p float64, r enrich.Reason) predict.Candidate {
		return predict.Candidate{Why: predict.Why{Edge: "list → get"}, Candidate: enrich.Candidate{
			Key: call.Key{Tool: "get", Arguments: n}, P: p, Reason: r, Model: model, Latency: enrich.Fixed(1e9),
		}}
	}
	candidates := []predict.Candidate{
		candidate("likely", 0.9, ""), candidate("unlikely", 0.1, ""), candidate("forbidden", 0.9, enrich.Origin),
		candidate("watched", 0.9, enrich.Shadow), candidate("watched and stored", 0.9, enrich.Shadow), candidate("stored", 0.9, ""),
		candidate("not a call", 0.9, ""), candidate("not a call either", 0.9, ""),
	}
	var asked []string
	chosen, all := choose(candidates, func(g *predict.Candidate) around {
		asked = append(asked, g.Key.Arguments)
		w := anything(g)
		switch {
		case strings.HasSuffix(g.Key.Arguments, "stored"):
			w.Reason = enrich.Stored
		case strings.HasPrefix(g.Key.Arguments, "not a call"):
			w = around{Key: call.Key{}, Reason: enrich.NotSpeculatable}
		}
		return w
	}, budget)
	if got, want := strings.Join(asked, ", "), "likely, watched, watched and stored, stored, not a call, not a call either"; got != want {
		t.Errorf("asked about: got %s, want %s", got, want)
	}
	if len(chosen) != 1 || chosen[0].Key.Arguments != "likely" {
		t.Errorf("chosen: got %+v, want the likely one", chosen)
	}
	got := map[string]enrich.Reason{}
	for i := range all {
		got[candidates[i].Key.Arguments] = all[i].Reason
	}
	for arguments, want := range map[string]enrich.Reason{
		"unlikely": enrich.LowProbability, "forbidden": enrich.Origin, "watched": enrich.Shadow, "watched and stored": enrich.Stored,
		"stored": enrich.Stored, "not a call": enrich.NotSpeculatable, "not a call either": enrich.NotSpeculatable,
	} {
		if got[arguments] != want {
			t.Errorf("%s: got the reason %q, want %q", arguments, got[arguments], want)
		}
	}
}

// Pick uses the waste factor that the caller knows.
func TestChooseWeighs(t *testing.T) {
	o := resolve(t, hub, []valuemodel.Rule{reading("list", follow(t, "get", 0.5, "n", "$result.n")), reading("get")}, "list", "", "get", "")
	p := play(predict.New(predict.Options{Tool: o.tool}))
	p.call("list", `{}`, `{"n":1}`)
	candidates := p.candidates()
	for _, test := range []struct {
		name   string
		around around
		want   enrich.Reason
	}{
		{"a wasted call costs much", around{Caution: 1000}, enrich.Gate},
		{"as much as usual", around{}, ""},
	} {
		o := budget
		o.Budget = 5000
		_, all := choose(candidates, func(*predict.Candidate) around { return test.around }, o)
		if got := all[0].Reason; got != test.want {
			t.Errorf("%s: got the reason %q, want %q", test.name, got, test.want)
		}
	}
}

// Candidates are checked against the current schema of their tool.
func TestRulesAreReadAnew(t *testing.T) {
	rules := []valuemodel.Rule{reading("list", follow(t, "get", 0.9, "n", "$result.n")), reading("get")}
	o := resolve(t, hub, rules, "list", "", "get", `{"type":"object","properties":{"n":{"type":"boolean"}}}`)
	p := play(predict.New(predict.Options{Tool: o.tool}))
	for _, step := range []struct {
		schema string
		want   enrich.Reason
	}{
		{`{"type":"object","properties":{"n":{"type":"integer"}}}`, ""},
		{`{"type":"object","properties":{"n":{"type":"boolean"}}}`, enrich.Schema},
		{`{"type":"object"}`, ""},
	} {
		o["get"] = resolve(t, hub, rules, "get", step.schema)["get"]
		p.call("list", `{}`, `{"n":1}`)
		if got := find(p.candidates(), "get", `{"n":1}`); got.Key.Tool == "" || got.Reason != step.want {
			t.Errorf("%s: got %+v, want the reason %q", step.schema, got, step.want)
		}
	}
}

// The maximum of a follow-up counts for each result alone.
func TestChooseMaximumIsPerAnswer(t *testing.T) {
	one := follow(t, "get", 0.9, "n", "$result.n")
	one.Max = 1
	o := resolve(t, hub, []valuemodel.Rule{reading("list", one), reading("get")}, "list", "", "get", "")
	p := play(predict.New(predict.Options{Tool: o.tool}))
	p.call("list", `{"page":1}`, `{"n":1}`)
	p.call("list", `{"page":2}`, `{"n":2}`)
	chosen, _ := choose(p.candidates(), anything, budget)
	if len(chosen) != 2 {
		t.Errorf("got %d chosen, want one for each of two answers: %+v", len(chosen), chosen)
	}
}

// A trial that differs bars a tool only until the operator declares it read-only. Other bars stay.
func TestOperatorsWordLiftsABar(t *testing.T) {
	tool := predict.Tool{Annotated: true}
	f := predict.New(predict.Options{Tool: func(string) predict.Tool { return tool }})
	f.RecordTrial("get", false)
	f.RecordTrial("ask", false)
	f.Bar("ask", "it asked")
	if f.Barred("get") == "" {
		t.Error("from annotations only: got no bar, want one")
	}
	tool.Annotated = false
	if why := f.Barred("get"); why != "" {
		t.Errorf("declared read-only by the operator: got %q, want none", why)
	}
	if f.Barred("ask") == "" {
		t.Error("a tool that asked a question: got no bar, want one, even if the operator says that it only reads")
	}
}
