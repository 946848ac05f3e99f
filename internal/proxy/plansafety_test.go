package proxy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// consent runs a plan with the given answer of the user, and returns the question to the user, or
// "".
func consent(t *testing.T, p *proxy.Server, tool, arguments, action string) (message string, answer jsonrpc.Message) {
	t.Helper()
	c := attach(t, p, handshake)
	asked := make(chan string, 10)
	c.reply(func(_ string, params []byte) []byte {
		text, _ := jsonrpc.String(jsonrpc.Get(params, "message"))
		asked <- text
		return []byte(`{"action":"` + action + `","content":{}}`)
	})
	answer = c.ableTo(able, tool, arguments)
	select {
	case message = <-asked:
	default:
	}
	return message, answer
}

// The question shows everything that a plan may change, on one line, however the client
// writes it.
func TestPlanConfirmationShowsAll(t *testing.T) {
	put := func(arguments string) string { return `{"id":"w","tool":"put","arguments":` + arguments + `}` }
	const etc = `- w: put {"path":"/etc/passwd","rm":true}` + "\n"
	for name, test := range map[string]struct{ steps, shows string }{
		"white space":        {put(`{` + strings.Repeat(" ", 500) + `"path":` + strings.Repeat(" ", 7000) + `"/etc/passwd","rm":true}`), etc},
		"in a text":          {put(`"{\"path\":\"/etc/passwd\",   \"rm\":true}"`), etc},
		"escaped in a text":  {put(`"{\"p\\u0061th\":\"\\u002fetc\\u002fpasswd\",\"rm\":true}"`), etc},
		"a letter as blank":  {put(`{"p":"x` + strings.Repeat("\u3164", 3) + `","rm":"/etc"}`), `{"p":"x\u{3164}\u{3164}\u{3164}","rm":"/etc"}` + "\n"},
		"bidi":               {put("{\"p\":\"\u202etxt.exe\u2066\"}"), `{"p":"\u{202e}txt.exe\u{2066}"}` + "\n"},
		"no width":           {put("{\"p\":\"a\u200bb\u200dc\ufeffd\u00ade\"}"), `{"p":"a\u{200b}b\u{200d}c\u{feff}d\u{ad}e"}` + "\n"},
		"other spaces":       {put("{\"p\":\"a\u00a0b\u2003c\u3000d\u0085e\"}"), `{"p":"a\u{a0}b\u{2003}c\u{3000}d\u{85}e"}` + "\n"},
		"lines of Unicode":   {put("{\"p\":\"a\u2028b\u2029c\"}"), `{"p":"a\u2028b\u2029c"}` + "\n"},
		"tags and variants":  {put("{\"p\":\"a\U000e0041b\ufe0fc\U000e0100d\"}"), `{"p":"a\u{e0041}b\u{fe0f}c\u{e0100}d"}` + "\n"},
		"in a name":          {put("{\"p\u202e\":1}"), `{"p\u{202e}":1}` + "\n"},
		"looks escaped":      {put(`{"p":"\\u{3164}"}`), `{"p":"\\u{3164}"}` + "\n"},
		"lines":              {put(`{"p":"a\n- x: get {}\r\n"}`), `- w: put {"p":"a\n- x: get {}\r\n"}` + "\n"},
		"other letters":      {put(`{"p":"Grüße ✓ 日本"}`), `{"p":"Grüße ✓ 日本"}` + "\n"},
		"references":         {`{"id":"a","tool":"find"},` + put(`{"p":{"$ref":"a#/x","default":"/etc"},"q":{"$tpl":"rm ${a#/y}"}}`), `{"p":{"$ref":"a#/x","default":"/etc"},"q":{"$tpl":"rm ${a#/y}"}}` + "\n"},
		"items of a default": {`{"id":"a","tool":"find"},{"id":"w","tool":"put","for_each":{"$ref":"a#/nothing","default":["/home","/\u0065tc"]},"arguments":{"rm":{"$ref":"item#"}}}`, `["/home","/etc"]`},
		"in place of a result": {`{"id":"a","tool":"fail","on_error":"default","default":{"path":"/\u0065tc"}},` + put(`{"rm":{"$ref":"a#/path"}}`),
			`if a fails, in place of its result: {"path":"/etc"}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p, s, _ := planning(t, handshake, nil)
			message, answer := consent(t, p, "execute_tool_plan", `{"steps":[`+test.steps+`]}`, "decline")
			if !strings.Contains(message, test.shows) {
				t.Errorf("got %q\nwant %q in it: %.300s", message, test.shows, answer.Raw)
			}
			if steps := strings.Count(message, "\n- "); steps != 1 {
				t.Errorf("%d lines look like the beginning of a step: %q", steps, message)
			}
			if hidden := strings.IndexFunc(message, func(c rune) bool { return c != '\n' && !unicode.IsGraphic(c) }); hidden >= 0 {
				t.Errorf("an invisible character at %d of %q", hidden, message)
			}
			if s.called() != "" {
				t.Errorf("called %s", s.called())
			}
		})
	}
}

// A member with an escaped or repeated name is shown or refused. The plan is never run without
// showing it.
func TestPlanConfirmationOfOddMembers(t *testing.T) {
	for _, plan := range []string{
		`{"st\u0065ps":[{"id":"w","tool":"put","arguments":{"rm":"/"}}]}`,
		`{"steps":[{"id":"w","tool":"put","argum\u0065nts":{"rm":"/"}}]}`,
		`{"steps":[{"id":"w","t\u006fol":"put","arguments":{"rm":"/"}}]}`,
		`{"steps":[{"id":"w","tool":"put","arguments":{"x":1},"arguments":{"rm":"/"}}]}`,
		`{"steps":[{"id":"w","tool":"put","arguments":{"x":{"y":1,"y":"rm"}}}]}`,
		`{"steps":[{"id":"w","tool":"put","arguments":"{\"x\":1,\"x\":\"rm\"}"}]}`,
		`{"steps":[{"id":"a","tool":"find"},{"id":"w","tool":"put","for_\u0065ach":{"$ref":"a#/no","default":["rm"]},"arguments":{"x":{"$ref":"item#"}}}]}`,
	} {
		p, s, _ := planning(t, handshake, nil)
		message, answer := consent(t, p, "execute_tool_plan", plan, "accept")
		if strings.Contains(s.called(), "rm") && !strings.Contains(message, "rm") {
			t.Errorf("%s: the user saw %q, and the plan called %s", plan, message, s.called())
		}
		if message == "" {
			brokenText(t, answer)
		}
	}
}

// If a server was replaced by another one after the confirmation, no write and no disclosure is
// sent to it. A server that only has a new configuration stays confirmed.
func TestPlanServerReplacedWhileAsked(t *testing.T) {
	rules := []valuemodel.Rule{reading("one/find", 0), writesAll("one/put"), thirdParty("one/fetch")}
	as := func(up catalog.Upstream) proxy.Options {
		o := stored(t, rules, up)
		o.Plans = planSettings(proxy.Plans{Enabled: true})
		return o
	}
	for what, steps := range map[string]string{
		"put":   `{"id":"w","tool":"put","arguments":{"x":1}}`,
		"fetch": `{"id":"a","tool":"find"},{"id":"w","tool":"fetch","arguments":{"x":{"$ref":"a#/items/0/n"}}}`,
	} {
		for _, era := range []string{handshake, stateless} {
			for _, replaced := range []bool{true, false} {
				t.Run(fmt.Sprint(what, ", ", era, ", replaced ", replaced), func(t *testing.T) {
					a, b := &shop{}, &shop{}
					_, up := remote(t, mcptest.Options{Name: "one", Tools: tools("find", "put", "fetch"), Answer: a.answer})
					next := up
					if replaced {
						_, next = remote(t, mcptest.Options{Name: "one", Tools: tools("find", "put", "fetch"), Answer: b.answer})
					}
					p := start(t, as(up))
					c := attach(t, p, era)
					c.reply(func(string, []byte) []byte {
						p.Apply(as(next))
						return []byte(`{"action":"accept","content":{}}`)
					})
					m := c.ableTo(able, "execute_tool_plan", `{"steps":[`+steps+`]}`)
					got, done := readPlan(t, m), strings.Contains(a.called()+b.called(), what+` {"x":1}`)
					if !replaced && (got.why("w") != "" || !done) {
						t.Errorf("got %s, called %q", m.Raw, a.called())
					}
					if replaced && (!strings.Contains(got.why("w"), "server has been replaced") || done) {
						t.Errorf("got %s, called %q and %q", m.Raw, a.called(), b.called())
					}
				})
			}
		}
	}
}

// process returns a proxy over HTTP in front of a process of the handshake era, which does not say
// to which call a question belongs.
func process(t *testing.T, answer func(context.Context, jsonrpc.Message) []byte) *httpClient {
	t.Helper()
	o := mcptest.Options{Name: "one", Era: "handshake", Tools: tools("ask", "hold"), Answer: answer}
	opt := stored(t, []valuemodel.Rule{reading("one/*", 0)}, child(t, mcptest.Options{Name: "one", Relay: relay(t, mcptest.New(o))}))
	opt.Plans = planSettings(proxy.Plans{Enabled: true})
	return serveTCP(t, opt)
}

// resumed makes one request of a stateless plan over HTTP. It returns the response and, if it asks
// questions, the members with which to resume the plan.
func (f *httpClient) resumed(params, who string) (m jsonrpc.Message, again string) {
	f.T.Helper()
	ctx, cancel := context.WithTimeout(f.T.Context(), patience)
	defer cancel()
	r := f.Request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+params+`}`,
		"Mcp-Protocol-Version", stateless, "Mcp-Method", "tools/call", "Mcp-Name", "execute_tool_plan")
	answer, err := f.Client.Do(r.WithContext(ctx))
	if err != nil {
		f.T.Errorf("%s has no answer: %v", who, err)
		return m, ""
	}
	if m, err = jsonrpc.Parse([]byte(mcptest.Text(f.T, answer))); err != nil {
		f.T.Error(err)
	}
	return m, string(retry(params, m.Result, tagged(who)))
}

// asksFor runs a stateless plan over HTTP, and answers its questions.
func (f *httpClient) asksFor(who, steps string) (m jsonrpc.Message) {
	f.T.Helper()
	again := withMeta(toolCall("execute_tool_plan", `{"steps":[`+steps+`]}`), able, "")
	for again != "" {
		m, again = f.resumed(again, who)
	}
	return m
}

// together blocks calls of ask until n have arrived.
func together(n int64) func(context.Context, jsonrpc.Message) []byte {
	var came atomic.Int64
	all := make(chan struct{})
	return func(ctx context.Context, m jsonrpc.Message) []byte {
		if tool(m) == "ask" {
			if came.Add(1) == n {
				close(all)
			}
			heldUntil(ctx, all)
		}
		return nil
	}
}

// Many clients share a process. Questions of one plan's steps reach its own client, and each step
// gets its own answer.
func TestPlanStepsAskAcrossAPool(t *testing.T) {
	for i := range 4 { // a question is attributed to one of the calls at random
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel() // a question may take a second
			f := process(t, together(2))
			a := readPlan(t, f.asksFor("me", asking("a", 2, "")+","+asking("b", 1, "")))
			if a.states() != "a ok, b ok" {
				t.Fatalf("got %+v", a)
			}
			for id, rounds := range map[string]int{"a": 2, "b": 1} {
				if got := string(a.Outputs[id]); got != replies(id, rounds) {
					t.Errorf("%s: got %s, want %s", id, got, replies(id, rounds))
				}
			}
		})
	}
}

// With two plans at a process, a question may belong to either, so neither client gets it.
func TestPlansAskAcrossAPool(t *testing.T) {
	f := process(t, together(2))
	var all sync.WaitGroup
	for _, who := range []string{"a", "b"} {
		all.Go(func() {
			m := f.asksFor(who, asking(who, 1, ""))
			if got := string(m.Raw); !strings.Contains(got, "several calls are open") && !strings.Contains(got, fmt.Sprintf(`{"who":%q,"method":"elicitation/create","tag":%q}`, who, who)) {
				t.Errorf("%s: got %s", who, got)
			}
		})
	}
	all.Wait()
}

// disclosing returns a proxy in front of a shop with two more tools: fetch, which reads and
// discloses its arguments to third parties, and the unclassified do.
func disclosing(t *testing.T, s *shop, mutations string) *proxy.Server {
	t.Helper()
	_, up := remote(t, mcptest.Options{Name: "shop", Tools: append(shopTools(), tools("fetch", "do")...), Answer: s.answer})
	o := stored(t, []valuemodel.Rule{reading("shop/find", 0), reading("shop/get", 0), writesAll("shop/put"), thirdParty("shop/fetch")}, up)
	o.Plans = planSettings(proxy.Plans{Enabled: true, Mutations: mutations})
	return start(t, o)
}

func thirdParty(pattern string) valuemodel.Rule {
	rule := reading(pattern, 0)
	rule.Layer.Disclosure = valuemodel.ThirdParty
	return rule
}

// gossip is a random plan, and the disclosures in it.
type gossip struct {
	steps []string
	tells map[string]bool // ids of the steps that disclose results of others in their calls
	tools []string        // step → tool
}

// newGossip returns a plan of up to six steps. It records each disclosure while it generates its
// cause, rather than deriving it from the plan.
func newGossip(rnd *rand.Rand, mode string) *gossip {
	g := &gossip{tells: make(map[string]bool)}
	tools := []string{"find", "get", "fetch", "fetch", "put", "do"}
	if mode == "deny" {
		tools = tools[:4]
	}
	resumes := make([]bool, 6) // the failure of the step prevents no other step
	for i := range 2 + rnd.IntN(5) {
		tool := tools[rnd.IntN(len(tools))]
		id := fmt.Sprintf("s%d", i)
		step := fmt.Sprintf(`{"id":"%s","tool":"%s"`, id, tool)
		values := []string{fmt.Sprintf(`"by":"%s"`, id)}
		told := false
		from := func() int { // returns an earlier step
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
			told = told || !resumes[k]
		}
		if rnd.IntN(4) == 0 {
			step += `,"on_error":"continue"`
			resumes[i] = true
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

// In random plans, a call discloses results of another step only if the question showed the
// disclosing step and the user accepted. There is no question if there is nothing to confirm.
func TestPlansTellNothingUnasked(t *testing.T) {
	if testing.Short() {
		t.Skip("many plans")
	}
	for _, mode := range []string{"confirm", "allow", "deny"} {
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
						t.Errorf("%s\ngot the question %q, want one: %v", plan, asked, asks)
					}
					if refused := risky && how != "accept"; (len(calls) == 0) != refused {
						t.Errorf("%s\n%d calls, want the plan refused: %v", plan, len(calls), refused)
					}
					c.hangUp()
				}
				if (seen > 0) != (how == "accept") {
					t.Errorf("%d calls disclosed outcomes of other steps", seen)
				}
			})
		}
	}
}

// holdsOthers reports whether the arguments contain results of other steps: found items, or
// arguments that other tools return.
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

// With mutations = "allow", the user is asked to confirm disclosures only. That does not confirm
// writes if the operator requires it while the plan runs. A tool that becomes disclosing while the
// plan runs is not called.
func TestPlanRulesChangeMeanwhile(t *testing.T) {
	for _, mode := range []string{"allow", "deny"} {
		s := &shop{}
		_, up := remote(t, mcptest.Options{Name: "shop", Tools: append(shopTools(), tools("fetch", "look")...), Answer: s.answer})
		as := func(mutations string, rules ...valuemodel.Rule) proxy.Options {
			o := stored(t, append([]valuemodel.Rule{reading("shop/find", 0), writesAll("shop/put"), thirdParty("shop/fetch")}, rules...), up)
			o.Plans = planSettings(proxy.Plans{Enabled: true, Mutations: mutations})
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

// Parameters of a named plan come from the client, so they may be disclosed; results of its steps
// may not.
func TestNamedPlanTellsOthers(t *testing.T) {
	for url, asks := range map[string]bool{`"params#/url"`: false, `"a#/items/0/t"`: true} {
		s := &shop{}
		_, up := remote(t, mcptest.Options{Name: "shop", Tools: append(shopTools(), tools("fetch")...), Answer: s.answer})
		o := stored(t, []valuemodel.Rule{reading("shop/find", 0), thirdParty("shop/fetch")}, up)
		o.Plans = planSettings(proxy.Plans{Enabled: true, Mutations: "deny", Named: []plan.Named{{
			Name: "look", Parameters: []byte(`{"url":{"type":"string"}}`),
			Steps: []byte(`[{"id":"a","tool":"find"},{"id":"b","tool":"fetch","arguments":{"url":{"$ref":` + url + `}},"when":{"ref":{"$ref":"params#/url"},"op":"exists"}}]`),
		}}})
		message, answer := consent(t, start(t, o), "plan__look", `{"url":"https://good.example/"}`, "accept")
		if got := readPlan(t, answer).states(); got != "a ok, b ok" || (message != "") != asks {
			t.Errorf("%s: got %s, asked %q", url, got, message)
		}
	}
}
