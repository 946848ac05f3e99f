package proxy_test

import (
	"strings"
	"testing"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// A failed change prevents later ones, whatever else these wait for. So a change that third
// parties see discloses the failure to them.
func TestPlanTellsOthersOfFailedWrites(t *testing.T) {
	for steps, told := range map[string]string{
		`{"id":"w","tool":"put","arguments":{"x":{"$ref":"a#"}}},{"id":"p","tool":"post"}`:                       `the outcome of "w"`,
		`{"id":"w","tool":"put","when":{"$ref":"a#"},"on_error":"skip"},{"id":"p","tool":"post"}`:                `the outcome of "w"`,
		`{"id":"p","tool":"post","depends_on":["w"]},{"id":"w","tool":"put","on_error":"default","default":1}`:   `the outcome of "w"`,
		`{"id":"w","tool":"put","arguments":{"x":{"$ref":"a#"}},"on_error":"continue"},{"id":"p","tool":"post"}`: "",
		`{"id":"p","tool":"post"},{"id":"g","tool":"get","depends_on":["a"]}`:                                    "",
	} {
		s := &shop{}
		_, up := remote(t, mcptest.Options{Name: "shop", Tools: append(shopTools(), tools("post")...), Answer: s.answer})
		post := writesAll("shop/post")
		post.Layer.Disclosure = valuemodel.ThirdParty
		o := stored(t, []valuemodel.Rule{reading("shop/find", 0), reading("shop/get", 0), writesAll("shop/put"), post}, up)
		o.Plans = proxy.Plans{Enabled: true, Mutations: "allow"}
		message, _ := consent(t, start(t, o), "execute_tool_plan", `{"steps":[{"id":"a","tool":"find"},`+steps+`]}`, "decline")
		switch {
		case told == "" && (message != "" || !strings.Contains(s.called(), "post")):
			t.Errorf("%s: asked %q, called %s", steps, message, s.called())
		case told != "" && (!strings.Contains(message, "tells third parties "+told) || s.called() != ""):
			t.Errorf("%s: asked %q, called %s", steps, message, s.called())
		}
	}
}

// A refusal gives for each step the reason why it needs confirmation, and the alternative.
func TestPlanRefusalNamesReasons(t *testing.T) {
	const plan = `{"steps":[{"id":"a","tool":"fetch","arguments":{"url":"https://good.example/"}},{"id":"b","tool":"get","arguments":{"x":{"$ref":"a#/did"}}},
		{"id":"c","tool":"fetch","arguments":{"url":{"$ref":"b#/did"}}},{"id":"w","tool":"put"},{"id":"u","tool":"do"}]}`
	for mode, want := range map[string][]string{
		"confirm": {`step "c" (fetch) tells third parties the outcome of "b"`, `step "w" (put) may change something`, `step "u" (do) is unclassified, so it may change something`,
			`[plan].mutations = "allow"`, `[tools."shop/do"].side_effect_class = "read_only"`, `[tools."shop/fetch"].disclosure = "same_service"`},
		"allow": {`To be confirmed: step "c" (fetch) tells third parties the outcome of "b". Instead`, `sets [tools."shop/fetch"].disclosure = "same_service"`},
		"deny":  {`"put" may change something: plans may only read`, `"do" is unclassified, so it may change something: plans may only read`},
	} {
		s := &shop{}
		c := attach(t, disclosing(t, s, mode), handshake)
		text := brokenText(t, c.ableTo(`{}`, "execute_tool_plan", line(plan)))
		for _, want := range want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: got %q, want %q in it", mode, text, want)
			}
		}
		if s.called() != "" {
			t.Errorf("%s: called %s", mode, s.called())
		}
	}
}

// With mutations = "allow", the user confirms only disclosures. That is not a confirmation of
// changes once the operator wants those confirmed. A tool that is found to disclose only while
// its plan runs is not called.
func TestPlanRulesChangeMeanwhile(t *testing.T) {
	for _, mode := range []string{"allow", "deny"} {
		s := &shop{}
		_, up := remote(t, mcptest.Options{Name: "shop", Tools: append(shopTools(), tools("fetch", "look")...), Answer: s.answer})
		as := func(mutations string, rules ...valuemodel.Rule) proxy.Options {
			o := stored(t, append([]valuemodel.Rule{reading("shop/find", 0), writesAll("shop/put"), thirdParty("shop/fetch")}, rules...), up)
			o.Plans = proxy.Plans{Enabled: true, Mutations: mutations}
			return o
		}
		p := start(t, as(mode, reading("shop/look", 0)))
		c := attach(t, p, handshake)
		c.reply(func(string, []byte) []byte {
			p.Apply(as(map[string]string{"allow": "confirm", "deny": "deny"}[mode], thirdParty("shop/look")))
			return []byte(`{"action":"accept"}`)
		})
		steps := `{"id":"a","tool":"find"},{"id":"b","tool":"fetch","arguments":{"x":{"$ref":"a#/items/0/n"}}},{"id":"c","tool":"look","arguments":{"x":{"$ref":"a#/items/0/n"}}}`
		if mode == "allow" {
			steps += `,{"id":"w","tool":"put"}`
		}
		a := readPlan(t, c.ableTo(able, "execute_tool_plan", `{"steps":[`+steps+`]}`))
		if a.why("b") != "" || !strings.Contains(a.why("c"), "tells third parties") || strings.Contains(s.called(), "look") {
			t.Errorf("%s: got %+v, called %s", mode, a, s.called())
		}
		if mode == "allow" && (!strings.Contains(a.why("w"), "[plan].mutations") || strings.Contains(s.called(), "put")) {
			t.Errorf("got %+v, called %s", a, s.called())
		}
	}
}

// A named plan's parameters are the client's own words; the results of its steps are not.
func TestNamedPlanTellsOthers(t *testing.T) {
	for url, asks := range map[string]bool{`"params#/url"`: false, `"a#/items/0/t"`: true} {
		s := &shop{}
		_, up := remote(t, mcptest.Options{Name: "shop", Tools: append(shopTools(), tools("fetch")...), Answer: s.answer})
		o := stored(t, []valuemodel.Rule{reading("shop/find", 0), thirdParty("shop/fetch")}, up)
		o.Plans = proxy.Plans{Enabled: true, Mutations: "deny", Named: []plan.Named{{
			Name: "look", Parameters: []byte(`{"url":{"type":"string"}}`),
			Steps: []byte(`[{"id":"a","tool":"find"},{"id":"b","tool":"fetch","arguments":{"url":{"$ref":` + url + `}},"when":{"ref":{"$ref":"params#/url"},"op":"exists"}}]`),
		}}}
		message, answer := consent(t, start(t, o), "plan__look", `{"url":"https://good.example/"}`, "accept")
		if got := readPlan(t, answer).states(); got != "a ok, b ok" || (message != "") != asks {
			t.Errorf("%s: got %s, asked %q", url, got, message)
		}
	}
}

// A dry run names the steps that would disclose results of others to third parties, and asks
// no user.
func TestDryRunNamesDisclosure(t *testing.T) {
	for _, mode := range modes {
		s := &shop{}
		message, answer := consent(t, disclosing(t, s, mode), "execute_tool_plan",
			`{"dry_run":true,"steps":[{"id":"a","tool":"find"},{"id":"b","tool":"fetch","arguments":{"x":{"$ref":"a#"}}},{"id":"c","tool":"fetch"}]}`, "accept")
		discloses := jsonrpc.At(jsonrpc.Get(answer.Result, "structuredContent"), "/plan/discloses")
		if string(discloses) != `["b"]` || message != "" || s.called() != "" {
			t.Errorf("%s: got %s, asked %q, called %s", mode, answer.Raw, message, s.called())
		}
	}
}
