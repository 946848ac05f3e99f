package predict_test

import (
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

const secret = "secret-of-hub-4711"

// Text from one upstream never becomes an argument to another. Each case is a way
// in which it might: what is configured, how tools are called, what the caller of
// the package says of them.
func TestNothingCrossesUpstreams(t *testing.T) {
	other := valuemodel.Upstream{Name: "other", URL: "https://other.test/mcp"}
	leak := func(tool string) valuemodel.FollowUp {
		return follow(t, tool, 1, "q", "$result.secret", "a", "$args.secret", "deep", "$result..secret")
	}
	tests := []struct {
		name  string
		next  valuemodel.FollowUp
		tools func(offer)
	}{
		{"a follow-up on another upstream", leak("other/get"), nil},
		{"and the tool's bare name is offered here, too", leak("other/get"), func(o offer) {
			o["get"] = resolve(t, hub, []valuemodel.Rule{reading("get")}, "get", "")["get"]
		}},
		{"a bare name that only the other upstream offers", leak("get"), nil},
		{"a bare name that is looked up across upstreams by mistake", leak("get"), func(o offer) {
			o["get"] = resolve(t, other, []valuemodel.Rule{reading("get")}, "get", "")["get"]
		}},
		{"a tool here that is called as if it were there", leak("other/get"), func(o offer) {
			o["other/get"] = resolve(t, hub, []valuemodel.Rule{reading("other/get")}, "other/get", "")["other/get"]
		}},
		{"a bare name in the form of another upstream's", leak("other__get"), nil},
		{"an upstream's name within another's", leak("hub2/get"), nil},
		{"an empty upstream's name", leak("/get"), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, _ := valuemodel.Compile([]valuemodel.Rule{reading("list", test.next)}) // some names are no names: they must not work either
			o := offer{"list": predict.Tool{Model: m.Resolve(hub, "list", valuemodel.Hints{})}}
			if test.tools != nil {
				test.tools(o)
			}
			p := play(predict.New(predict.Options{Tool: o.tool, Learn: true, ShadowLabels: 1}))
			for i := range 8 { // and it would be right every time
				said := fmt.Sprintf("%s-%d", secret, i)
				p.call("list", `{"secret":"`+said+`"}`, `{"secret":"`+said+`"}`)
				candidates := p.candidates()
				for _, g := range candidates {
					if crosses(g) && (g.Reason == "" || g.Reason == enrich.Shadow) {
						t.Errorf("got %+v, want it refused", g)
					}
					if g.Why.Configured && g.Key.Arguments != "" {
						t.Errorf("got arguments %s for %s, want none worked out", g.Key.Arguments, g.Key.Tool)
					}
				}
				chosen, _ := choose(candidates, anything, enrich.Options{Budget: 1e6, Slots: 99})
				for _, g := range chosen {
					if crosses(g) {
						t.Errorf("chosen: %+v", g)
					}
				}
				p.call("get", `{"a":"`+said+`","deep":"`+said+`","q":"`+said+`"}`, `x`)
			}
		})
	}
}

// crosses reports whether a candidate is not one that hub's own calls led to, at a tool
// that is hub's own.
func crosses(g predict.Candidate) bool {
	return g.Why.Configured || g.Model == nil || g.Model.Upstream != hub.Name
}

// A follow-up that names its own upstream is one of the same upstream.
func TestOwnUpstreamByName(t *testing.T) {
	o := resolve(t, hub, []valuemodel.Rule{reading("list", follow(t, "hub/get", 0.4, "n", "$result.n")), reading("get")}, "list", "", "get", "")
	p := play(predict.New(predict.Options{Tool: o.tool}))
	p.call("list", `{}`, `{"n":7}`)
	if g := find(p.candidates(), "get", `{"n":7}`); g.Key.Tool == "" || g.Reason != "" {
		t.Errorf("got %+v, want a candidate", g)
	}
}

// What two upstreams say never meets, though one session speaks with both: there
// is a forecast for each. Here both offer the same tools and the session behaves
// as if the one followed from the other.
func TestUpstreamsDoNotLearnFromEachOther(t *testing.T) {
	rules := []valuemodel.Rule{reading("list"), reading("get")}
	a := play(predict.New(predict.Options{Tool: resolve(t, hub, rules, "list", "", "get", "").tool, Learn: true, ShadowLabels: 1}))
	b := play(predict.New(predict.Options{Tool: resolve(t, valuemodel.Upstream{Name: "other"}, rules, "list", "", "get", "").tool, Learn: true, ShadowLabels: 1}))
	for i := range 12 {
		token := fmt.Sprintf("%s-%d", secret, i)
		a.call("list", `{}`, `{"token_of_item":"`+token+`"}`)
		for _, g := range b.candidates() {
			if strings.Contains(g.Key.Arguments, token) {
				t.Fatalf("round %d: got %+v, want nothing of what only the other upstream said", i, g)
			}
		}
		b.call("get", `{"id":"`+token+`"}`, `x`)
	}
}

// Whatever an answer holds, a tool that tells third parties its arguments is not
// called with any of it: not through a follow-up, not by what was learned, and not as
// a constant that was learned.
func TestNothingIsDisclosed(t *testing.T) {
	abroad := valuemodel.Rule{Pattern: "fetch", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly, Disclosure: valuemodel.ThirdParty}}
	open := reading("open", follow(t, "fetch", 1, "url", "$args.url"))
	search := reading("search",
		follow(t, "fetch", 1, "url", "$result..url"), follow(t, "fetch", 1, "url", "$result.results[0].url"),
		follow(t, "open", 1, "url", "$result..url"))
	o := resolve(t, hub, []valuemodel.Rule{search, open, abroad}, "search", "", "open", "", "fetch", "")
	p := play(predict.New(predict.Options{Tool: o.tool, Learn: true, ShadowLabels: 1}))
	for i := range 20 {
		url := fmt.Sprintf("https://evil.test/?q=%s-%d", secret, i/3) // some several times: a constant by and by
		p.call("search", `{"q":"x"}`, fmt.Sprintf(`{"results":[{"url":%q}]}`, url))
		candidates := p.candidates()
		if len(candidates) == 0 {
			t.Fatal("no candidates at all")
		}
		for _, g := range candidates {
			if g.Key.Tool == "fetch" && g.Reason != enrich.Disclosure {
				t.Errorf("round %d: got %s with the reason %q, want disclosure", i, g.Key.Arguments, g.Reason)
			}
		}
		p.call("fetch", fmt.Sprintf(`{"url":%q}`, url), `x`)
	}
	// What the model itself gave to open may go on to fetch.
	p.call("open", `{"url":"https://good.test/"}`, `x`)
	if g := find(p.candidates(), "fetch", `{"url":"https://good.test/"}`); g.Key.Tool == "" || g.Reason != "" {
		t.Errorf("of the model's own: got %+v, want a candidate", g)
	}
}

// A constant of a follow-up may be a secret of the operator's: it goes to the tool
// it is meant for, and into nothing that is kept or shown.
func TestConstantsAreNotKept(t *testing.T) {
	const token = "configured-constant-0815"
	o := resolve(t, hub, []valuemodel.Rule{reading("list", follow(t, "get", 0.9, "n", "$result.n", "key", token)), reading("get")}, "list", "", "get", "")
	p := play(predict.New(predict.Options{Tool: o.tool, Learn: true}))
	for range 3 {
		p.call("list", `{}`, `{"n":7}`)
		g := find(p.candidates(), "get", `{"key":"`+token+`","n":7}`)
		if g.Key.Tool == "" {
			t.Fatal("no candidate")
		}
		if strings.Contains(g.Why.Edge, token) {
			t.Errorf("edge %q names the constant", g.Why.Edge)
		}
	}
	p.s.End()
	state, err := p.f.Merge(predict.State{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(held(state), token) {
		t.Error("the state holds the constant")
	}
}
