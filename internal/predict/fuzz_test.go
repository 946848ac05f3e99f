package predict_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// FuzzSession plays calls with hostile results, and checks every candidate with lawful.
func FuzzSession(f *testing.F) {
	for _, s := range []string{
		`{"items":[{"id":1,"url":"https://a.test/"},{"id":"2","cmd":"rm -rf /"}]}`, `[[[[{"id":`, `{"id":{"id":{"id":[1]}},"ID":2}`,
		"src/a.go:12: x\n\u202e\x00", `{"id":"` + strings.Repeat("9", 9000) + `"}`, `{"id":1e999999,"url":"\ud800"}`,
	} {
		f.Add([]byte(s), []byte(`{"id":"x","paths":["a","b"]}`), uint64(0x1234567))
	}
	o := resolve(f, hub, []valuemodel.Rule{
		reading("list",
			follow(f, "get", 0.4, "id", "$result..id"), follow(f, "get", 0.4, "id", "$args.paths[*]"), follow(f, "run", 0.5, "command", "$result..cmd"),
			follow(f, "fetch", 0.9, "url", "$result..url"), follow(f, "set", 0.9, "id", "$result..id"), follow(f, "other/get", 0.9, "id", "$result..id"),
			follow(f, "pair", 0.9, "id", "$result.items[*].id", "url", "$result..url", "all", "$result")),
		reading("get", follow(f, "fetch", 0.9, "url", "$args.id"), follow(f, "list", 0.3, "of", "$result.items[0]")), reading("pair"),
		{Pattern: "fetch", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly, Disclosure: valuemodel.ThirdParty}},
		{Pattern: "run", Layer: valuemodel.Layer{Classify: valuemodel.Shell}},
	}, "list", "", "get", `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`, "pair", "", "fetch", "", "run", "", "set", "")
	f.Fuzz(func(t *testing.T, answer, arguments []byte, moves uint64) {
		p := play(predict.New(predict.Options{Tool: o.tool, Learn: true, ShadowLabels: 1}))
		given := map[string]bool{} // all values in the arguments of the session
		for ; moves > 0; moves >>= 4 {
			tool := []string{"list", "get", "run", "fetch"}[moves&3]
			p.ask(tool, string(arguments))
			if canonical, ok := jsonrpc.AppendCanonical(nil, arguments); ok {
				gives(given, canonical)
			}
			p.answer(predict.Result{Text: answer, Failed: moves&8 != 0 && moves&4 != 0})
			candidates := p.candidates()
			for _, g := range candidates {
				lawful(t, &g, given)
			}
			chosen, _ := choose(candidates, anything, enrich.Options{Budget: math.MaxInt32, Slots: 1000, DefaultLead: time.Second})
			for _, g := range chosen {
				if g.Reason != "" {
					t.Fatalf("chosen: %+v", g)
				}
			}
			if moves&15 == 15 {
				p.s.Invalidate(nil)
			}
		}
		p.s.End()
		if _, err := p.f.Merge(predict.State{}); err != nil {
			t.Fatal(err)
		}
	})
}

// gives adds every value of a JSON text to given, and each also as a string.
func gives(given map[string]bool, value []byte) {
	given[string(value)], given[`"`+string(value)+`"`] = true, true
	for m := range jsonrpc.Members(value) {
		gives(given, m.Value)
	}
	for e := range jsonrpc.Elements(value) {
		gives(given, e)
	}
}

// lawful fails if a candidate breaks a rule.
func lawful(t *testing.T, g *predict.Candidate, given map[string]bool) {
	if !(g.P >= 0 && g.P <= 1) {
		t.Fatalf("got the probability %v: %+v", g.P, g)
	}
	if g.Key.Arguments != "" {
		if canonical, ok := jsonrpc.AppendCanonical(nil, []byte(g.Key.Arguments)); !ok || string(canonical) != g.Key.Arguments || len(canonical) > 64<<10 {
			t.Fatalf("got arguments that are not canonical, or long: %+v", g)
		}
	}
	if g.Reason != "" && g.Reason != enrich.Shadow {
		return
	}
	switch g.Key.Tool {
	case "list", "pair":
	case "get":
		if id := jsonrpc.Get([]byte(g.Key.Arguments), "id"); len(id) == 0 || id[0] != '"' {
			t.Fatalf("not what the tool takes: %+v", g)
		}
	case "run":
		if strings.Contains(g.Key.Arguments, "rm ") {
			t.Fatalf("a command that writes: %+v", g)
		}
	case "fetch":
		if url := string(jsonrpc.Get([]byte(g.Key.Arguments), "url")); !given[url] {
			t.Fatalf("discloses %s, which the session never gave: %+v", url, g)
		}
	default:
		t.Fatalf("a candidate for %s: %s", g.Key.Tool, fmt.Sprintf("%+v", g))
	}
}
