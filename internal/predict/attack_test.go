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

// Data of one upstream never become arguments of another upstream's tool, whatever follow-up is
// configured, however its tool is named, and even if Options.Tool returns a tool of the wrong
// upstream.
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
			m, _ := valuemodel.Compile([]valuemodel.Rule{reading("list", test.next)}) // Compile's problems are ignored: invalid names must not work either
			o := offer{"list": predict.Tool{Model: m.Resolve(hub, "list", valuemodel.Hints{})}}
			if test.tools != nil {
				test.tools(o)
			}
			p := play(predict.New(predict.Options{Tool: o.tool, Learn: true, ShadowLabels: 1}))
			for i := range 8 { // the calls repeat, so that the pattern could be learned
				said := fmt.Sprintf("%s-%d", secret, i)
				p.call("list", `{"secret":"`+said+`"}`, `{"secret":"`+said+`"}`)
				candidates := p.candidates()
				for _, g := range candidates {
					if crosses(g) && (g.Reason == "" || g.Reason == enrich.Shadow) {
						t.Errorf("got %+v, want it declined", g)
					}
					if g.Why.Configured && g.Key.Arguments != "" {
						t.Errorf("got arguments %s for %s, want none built", g.Key.Arguments, g.Key.Tool)
					}
				}
				chosen, _ := choose(candidates, anything, enrich.Options{Budget: 1e6, Slots: 99, DefaultLead: budget.DefaultLead})
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

// crosses reports whether a candidate is configured, or is not for a tool of hub.
func crosses(g predict.Candidate) bool {
	return g.Why.Configured || g.Model == nil || g.Model.Upstream != hub.Name
}

// A follow-up may name its tool with the prefix of its own upstream.
func TestOwnUpstreamByName(t *testing.T) {
	o := resolve(t, hub, []valuemodel.Rule{reading("list", follow(t, "hub/get", 0.4, "n", "$result.n")), reading("get")}, "list", "", "get", "")
	p := play(predict.New(predict.Options{Tool: o.tool}))
	p.call("list", `{}`, `{"n":7}`)
	if g := find(p.candidates(), "get", `{"n":7}`); g.Key.Tool == "" || g.Reason != "" {
		t.Errorf("got %+v, want a candidate", g)
	}
}

// Models of two upstreams share no data, though one session calls both. Here both offer the same
// tools, and each get of the one follows a list of the other.
func TestUpstreamsDoNotLearnFromEachOther(t *testing.T) {
	rules := []valuemodel.Rule{reading("list"), reading("get")}
	a := play(predict.New(predict.Options{Tool: resolve(t, hub, rules, "list", "", "get", "").tool, Learn: true, ShadowLabels: 1}))
	b := play(predict.New(predict.Options{Tool: resolve(t, valuemodel.Upstream{Name: "other"}, rules, "list", "", "get", "").tool, Learn: true, ShadowLabels: 1}))
	for i := range 12 {
		token := fmt.Sprintf("%s-%d", secret, i)
		a.call("list", `{}`, `{"token_of_item":"`+token+`"}`)
		for _, g := range b.candidates() {
			if strings.Contains(g.Key.Arguments, token) {
				t.Fatalf("round %d: got %+v, want no data of the other upstream", i, g)
			}
		}
		b.call("get", `{"id":"`+token+`"}`, `x`)
	}
}

// A tool with third-party disclosure gets no argument from a result: not through a configured
// follow-up, not through a learned template, and not as a learned constant.
func TestNothingIsDisclosed(t *testing.T) {
	abroad := valuemodel.Rule{Pattern: "fetch", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly, Disclosure: valuemodel.ThirdParty}}
	open := reading("open", follow(t, "fetch", 1, "url", "$args.url"))
	search := reading("search",
		follow(t, "fetch", 1, "url", "$result..url"), follow(t, "fetch", 1, "url", "$result.results[0].url"),
		follow(t, "open", 1, "url", "$result..url"))
	o := resolve(t, hub, []valuemodel.Rule{search, open, abroad}, "search", "", "open", "", "fetch", "")
	p := play(predict.New(predict.Options{Tool: o.tool, Learn: true, ShadowLabels: 1}))
	for i := range 20 {
		url := fmt.Sprintf("https://evil.test/?q=%s-%d", secret, i/3) // each URL is used several times, so that it may become a constant
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
	// An argument that the client passed to open may be passed to fetch.
	p.call("open", `{"url":"https://good.test/"}`, `x`)
	if g := find(p.candidates(), "fetch", `{"url":"https://good.test/"}`); g.Key.Tool == "" || g.Reason != "" {
		t.Errorf("from an argument: got %+v, want a candidate", g)
	}
}

// A constant of a follow-up may be a secret of the operator: it is used in arguments of its tool,
// but not in the saved state or in the label of the edge.
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
