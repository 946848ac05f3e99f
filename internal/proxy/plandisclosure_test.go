package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// modes are the values of [plan].mutations.
var modes = []string{"confirm", "allow", "deny"}

// disclosing is a proxy in front of a shop that also has the tool fetch, which reads and
// discloses its arguments to third parties, and the unclassified tool do.
func disclosing(t *testing.T, s *shop, mutations string) *proxy.Server {
	t.Helper()
	_, up := remote(t, mcptest.Options{Name: "shop", Tools: append(shopTools(), tools("fetch", "do")...), Answer: s.answer})
	o := stored(t, []valuemodel.Rule{reading("shop/find", 0), reading("shop/get", 0), writesAll("shop/put"), thirdParty("shop/fetch")}, up)
	o.Plans = proxy.Plans{Enabled: true, Mutations: mutations}
	return start(t, o)
}

func thirdParty(pattern string) valuemodel.Rule {
	rule := reading(pattern, 0)
	rule.Layer.Disclosure = valuemodel.ThirdParty
	return rule
}

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

// gossip is a random plan, with the disclosures that it can make.
type gossip struct {
	steps []string
	tells map[string]bool // ids of the steps whose calls disclose results of others
	tools []string        // step → its tool
}

// newGossip returns a plan of up to 6 steps. It records each disclosure when it writes its
// cause into the plan, and does not derive it from the finished plan.
func newGossip(rnd *rand.Rand, mode string) *gossip {
	g := &gossip{tells: make(map[string]bool)}
	tools := []string{"find", "get", "fetch", "fetch", "put", "do"}
	if mode == "deny" {
		tools = tools[:4]
	}
	goesOn := make([]bool, 6) // a step's failure prevents no other step
	for i := range 2 + rnd.IntN(5) {
		tool := tools[rnd.IntN(len(tools))]
		id := fmt.Sprintf("s%d", i)
		step := fmt.Sprintf(`{"id":"%s","tool":"%s"`, id, tool)
		values := []string{fmt.Sprintf(`"by":"%s"`, id)}
		told := false
		from := func() int { // an earlier step
			told = true
			return rnd.IntN(i)
		}
		if i > 0 && rnd.IntN(3) == 0 {
			values = append(values, fmt.Sprintf([]string{
				`"x":{"$ref":"s%d#"}`, `"x":"$ref:s%d"`, `"x":[1,[{"y":[{"$ref":"s%d#/nothing","default":0}]}]]`, `"x":{"$tpl":"a ${s%d#} b"}`, `"x":"$result_s%d"`,
			}[rnd.IntN(5)], from()))
		}
		if i > 0 && rnd.IntN(6) == 0 {
			step += fmt.Sprintf(`,"for_each":{"$ref":"s%d#/items","default":[1,2]}`, from())
			if rnd.IntN(2) == 0 {
				values = append(values, `"each":{"$ref":"item#"}`)
			}
		}
		if i > 0 && rnd.IntN(6) == 0 {
			step += fmt.Sprintf(`,"when":{"ref":{"$ref":"s%d#"},"op":"exists"}`, from())
		}
		if i > 0 && rnd.IntN(5) == 0 {
			k := rnd.IntN(i)
			step += fmt.Sprintf(`,"depends_on":["s%d"]`, k)
			told = told || !goesOn[k]
		}
		if rnd.IntN(4) == 0 {
			step += `,"on_error":"continue"`
			goesOn[i] = true
		}
		if rnd.IntN(8) == 0 {
			values = append(values, `"lit":{"$lit":{"$ref":"s0#"}}`)
		}
		g.steps = append(g.steps, step+`,"arguments":{`+strings.Join(values, ",")+`}}`)
		g.tools = append(g.tools, tool)
		if tool == "fetch" && told {
			g.tells[id] = true
		}
	}
	return g
}

// In any plan, a call discloses results of another step only if the user was shown the
// disclosing step and accepted. The user is asked only if there is something to confirm.
func TestPlansTellNothingUnasked(t *testing.T) {
	if testing.Short() {
		t.Skip("many plans")
	}
	for _, mode := range modes {
		for _, how := range []string{"accept", "decline", "cannot"} {
			t.Run(mode+", "+how, func(t *testing.T) {
				t.Parallel()
				s := &shop{}
				p := disclosing(t, s, mode)
				seen := 0
				for seed := range uint64(slice(10, 100)) {
					g := newGossip(rand.New(rand.NewPCG(seed, 13)), mode)
					plan := `{"steps":[` + strings.Join(g.steps, ",") + `]}`
					c := attach(t, p, []string{handshake, stateless}[seed%2])
					message := make(chan string, 10)
					c.reply(func(_ string, params []byte) []byte {
						text, _ := jsonrpc.String(jsonrpc.Get(params, "message"))
						message <- text
						return []byte(`{"action":"` + how + `"}`)
					})
					capabilities := able
					if how == "cannot" {
						capabilities = `{"sampling":{}}`
					}
					c.ableTo(capabilities, "execute_tool_plan", plan)
					asked := ""
					if len(message) > 0 {
						asked = <-message
					}
					calls := s.take()
					for _, call := range calls {
						id, _ := jsonrpc.String(jsonrpc.Get(call.arguments, "by"))
						if call.tool != "fetch" || !g.tells[id] && !holdsOthers(call.arguments, id) {
							continue
						}
						seen++
						if how != "accept" || !strings.Contains(asked, "\n- "+id+": ") || !strings.Contains(asked, "tells third parties") {
							t.Errorf("%s\nstep %s called fetch %s, asked %q", plan, id, call.arguments, asked)
						}
					}
					risky := len(g.tells) > 0 || mode == "confirm" && slices.ContainsFunc(g.tools, func(tool string) bool { return tool == "put" || tool == "do" })
					if asks := risky && how != "cannot"; (asked != "") != asks {
						t.Errorf("%s\nasked %q, want that it asks: %v", plan, asked, asks)
					}
					if refused := risky && how != "accept"; (len(calls) == 0) != refused {
						t.Errorf("%s\n%d calls, want that it is refused: %v", plan, len(calls), refused)
					}
					c.hangUp()
				}
				if (seen > 0) != (how == "accept") {
					t.Errorf("%d calls told third parties the outcome of others", seen)
				}
			})
		}
	}
}

// holdsOthers reports whether the arguments of a step contain results of others: the items
// found, or the arguments that the other tools repeat.
func holdsOthers(arguments []byte, id string) bool {
	text := strings.ReplaceAll(string(arguments), `\"`, `"`)
	text = strings.Replace(text, `"by":"`+id+`"`, "", 1)
	return strings.Contains(text, `"by":`) || strings.Contains(text, `"t":`)
}

// journal is a call received by a shop.
type journal struct {
	tool      string
	arguments []byte
}

// take returns the calls received since its last call.
func (s *shop) take() (calls []journal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.calls {
		tool, arguments, _ := strings.Cut(one, " ")
		calls = append(calls, journal{tool, []byte(arguments)})
	}
	s.calls = nil
	return calls
}
