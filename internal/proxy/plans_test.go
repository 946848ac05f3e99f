package proxy_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/catalog"
	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// shop is a server with the tools of the plans below. It records its calls.
type shop struct {
	mu    sync.Mutex
	calls []string // tool and arguments
	total atomic.Int64
}

func (s *shop) answer(ctx context.Context, m jsonrpc.Message) []byte {
	if m.Method != "tools/call" {
		return nil
	}
	name, _ := jsonrpc.String(jsonrpc.Get(m.Params, "name"))
	arguments := jsonrpc.Get(m.Params, "arguments")
	if name == "ask" || name == "hang" || name == "die" {
		return nil
	}
	s.total.Add(1)
	s.mu.Lock()
	s.calls = append(s.calls, name+" "+string(arguments))
	s.mu.Unlock()
	switch name {
	case "find":
		return []byte(said(`{"items":[{"n":1,"t":"one"},{"n":2,"t":"$ref:find.items"},{"n":3,"t":"three"}]}`))
	case "fail":
		return []byte(`{"content":[{"type":"text","text":"no such thing"}],"isError":true}`)
	case "large":
		return []byte(said(`{"rows":[` + strings.Repeat(`{"id":1,"text":"lorem ipsum dolor sit amet"},`, 5000) + `{"id":2}]}`))
	}
	return []byte(said(`{"did":` + string(arguments) + `}`)) // get, put
}

func (s *shop) called() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.calls, "\n")
}

// shopTools are the tools listed by a shop.
func shopTools() []string {
	return append(tools("find", "get", "put", "fail", "large", "ask", "hang", "secret_get"),
		`{"name":"typed","inputSchema":{"type":"object","properties":{"text":{"type":"string"},"number":{"type":"integer"}},"required":["text"],"additionalProperties":false}}`)
}

// planning returns a proxy with plans in front of a shop.
func planning(t *testing.T, era string, change func(*proxy.Options)) (*proxy.Server, *shop, *mcptest.Server) {
	t.Helper()
	s := &shop{}
	server, up := remote(t, mcptest.Options{Name: "shop", Era: era, Tools: shopTools(), Answer: s.answer})
	up.Allows = func(tool string) bool { return tool != "secret_get" }
	rules := []valuemodel.Rule{writesAll("shop/put")}
	for _, tool := range []string{"find", "get", "fail", "large", "ask", "hang", "typed"} {
		rules = append(rules, reading("shop/"+tool, 0))
	}
	o := stored(t, rules, up)
	o.Plans = planSettings(proxy.Plans{Enabled: true})
	if change != nil {
		change(&o)
	}
	return start(t, o), s, server
}

// planSettings returns settings with the defaults of the configuration where they are not set.
func planSettings(p proxy.Plans) proxy.Plans {
	p.Mutations, p.KeepFor = cmp.Or(p.Mutations, "confirm"), cmp.Or(p.KeepFor, 30*time.Minute)
	l := &p.Limits
	l.Steps, l.Parallel, l.Depth = cmp.Or(l.Steps, 100), cmp.Or(l.Parallel, 8), cmp.Or(l.Depth, 32)
	l.Bytes, l.Budget = cmp.Or(l.Bytes, 16<<20), cmp.Or(l.Budget, 10_000)
	return p
}

// planAnswer is the result of a plan.
type planAnswer struct {
	Steps []struct {
		ID, Status, Reason, Source string
		Calls                      int
	}
	Outputs map[string]json.RawMessage
	Left    []struct {
		Pointer, What string
		From          int `json:"offset"`
		Count         int
	} `json:"left_out"`
	Handle, Ended string
}

func (c *caller) plan(arguments string) planAnswer {
	c.t.Helper()
	return readPlan(c.t, c.begin("execute_tool_plan", line(arguments)).wait())
}

// line returns JSON without the line ends that a test has for readability.
func line(text string) string {
	out := []byte(text)
	jsonrpc.Flatten(out)
	return string(out)
}

func readPlan(t *testing.T, m jsonrpc.Message) planAnswer {
	t.Helper()
	structured := jsonrpc.Get(m.Result, "structuredContent")
	var out planAnswer
	if err := json.Unmarshal(structured, &out); err != nil {
		t.Fatalf("got %s: %v", m.Raw, err)
	}
	for i := range out.Steps { // an absent source means fetched
		if st := &out.Steps[i]; st.Source == "" && st.Status == "ok" {
			st.Source = "fetched"
		}
	}
	var content []struct{ Text string }
	if err := json.Unmarshal(jsonrpc.Get(m.Result, "content"), &content); err != nil || content[0].Text != string(structured) {
		t.Errorf("text and structured content differ: %s", m.Raw)
	}
	return out
}

// states returns the statuses of the steps, in order.
func (a planAnswer) states() string {
	var out []string
	for _, s := range a.Steps {
		out = append(out, s.ID+" "+s.Status)
	}
	return strings.Join(out, ", ")
}

func eachEra(t *testing.T, test func(t *testing.T, client, server string)) {
	for _, client := range []string{handshake, stateless} {
		for _, server := range []string{"handshake", "stateless"} {
			t.Run(client+" client, "+server+" server", func(t *testing.T) { test(t, client, server) })
		}
	}
}

func TestPlanRuns(t *testing.T) {
	eachEra(t, func(t *testing.T, client, server string) {
		p, s, _ := planning(t, server, nil)
		c := connect(t, p, client)
		got := c.plan(`{"steps":[
			{"id":"list","tool":"find","arguments":"{}"},
			{"id":"second","tool":"get","arguments":{"n":{"$ref":"list#/items/1/n"},"t":{"$ref":"list#/items/1/t"}}},
			{"id":"each","tool":"get","for_each":{"$ref":"list#/items"},"arguments":{"x":{"$ref":"item#/n"},"i":{"$ref":"index#"}}},
			{"id":"old","tool":"get","arguments":"{\"all\": \"$ref:list.items.0\", \"none\": \"$ref:list.nothing\"}"}
		],"output_steps":["second","each","old"]}`)
		if want := "list ok, second ok, each ok, old ok"; got.states() != want {
			t.Errorf("got %s, want %s", got.states(), want)
		}
		for id, want := range map[string]string{
			"second": `{"did":{"n":2,"t":"$ref:find.items"}}`,
			"each":   `[{"did":{"x":1,"i":0}},{"did":{"x":2,"i":1}},{"did":{"x":3,"i":2}}]`,
			"old":    `{"did":{"all":{"n":1,"t":"one"},"none":null}}`,
		} {
			if string(got.Outputs[id]) != want {
				t.Errorf("%s: got %s, want %s", id, got.Outputs[id], want)
			}
		}
		if _, ok := got.Outputs["list"]; ok {
			t.Error("the result of a step that is no output was returned")
		}
		if n := s.total.Load(); n != 6 {
			t.Errorf("got %d calls, want 6: %s", n, s.called())
		}
	})
}

// The proxy's own tools are part of every model's context, so their size is limited.
func TestPlanToolsCostLittle(t *testing.T) {
	p, _, _ := planning(t, handshake, nil)
	c := connect(t, p, handshake)
	tokens := 0
	for item := range jsonrpc.Elements(jsonrpc.Get([]byte(c.request("tools/list", "")), "tools")) {
		if name, _ := jsonrpc.String(jsonrpc.Get(item, "name")); name == "execute_tool_plan" || name == "mcpschedd_read_result" {
			tokens += deliver.Tokens(item)
		}
	}
	if tokens == 0 || tokens > 700 {
		t.Errorf("got %d tokens, want at most 700", tokens)
	}
	if guide := c.resource(plan.GuideURI); guide != plan.Guide || !strings.Contains(c.request("resources/list", ""), plan.GuideURI) {
		t.Errorf("got a guide of %d bytes", len(guide))
	}
}

// A hidden tool cannot be called by any of its names, and is not mentioned. A defect is reported before
// the first call.
func TestPlanDefectsBeforeAnyCall(t *testing.T) {
	p, s, _ := planning(t, handshake, func(o *proxy.Options) { o.Plans.Mutations = "allow" })
	c := connect(t, p, handshake)
	for _, name := range []string{"secret_get", "shop/secret_get", "shop__secret_get", "secret_gett"} {
		text := c.broken("execute_tool_plan", fmt.Sprintf(`{"steps":[{"id":"a","tool":"put"},{"id":"b","tool":%q}]}`, name))
		if !strings.Contains(text, "unknown tool") || strings.Contains(text, `did you mean "secret_get"`) {
			t.Errorf("%s: got %s", name, text)
		}
	}
	if text := c.broken("execute_tool_plan", `{"steps":[{"id":"a","tool":"put"},{"id":"b","tool":"typed","arguments":{"text":7}}]}`); !strings.Contains(text, "want string") {
		t.Errorf("got %s, want the tool's schema", text)
	}
	if n := s.total.Load(); n != 0 {
		t.Errorf("got %d calls, want none", n)
	}
}

const writing = `{"steps":[{"id":"a","tool":"find"},{"id":"b","tool":"put","arguments":{"n":{"$ref":"a#/items/0/n"}}}]}`

func TestPlanAsksBeforeItWrites(t *testing.T) {
	for _, test := range []struct {
		name, mutations, capabilities string
		says                          string // the user's answer
		calls                         int64
		want                          string
	}{
		{"confirmed", "confirm", able, `{"action":"accept","content":{}}`, 2, ""},
		{"declined", "confirm", able, `{"action":"decline"}`, 0, "declined it"},
		{"cancelled", "confirm", able, `{"action":"cancel"}`, 0, "make these calls by themselves"},
		{"by a form by default", "confirm", `{"elicitation":{}}`, `{"action":"accept","content":{}}`, 2, ""},
		{"only at a URL", "confirm", `{"elicitation":{"url":{}}}`, "", 0, "[plan].mutations"},
		{"not at all", "confirm", `{"sampling":{}}`, "", 0, "[plan].mutations"},
		{"allowed", "allow", `{}`, "", 2, ""},
		{"denied", "deny", able, `{"action":"accept"}`, 0, "[plan].mutations"},
	} {
		for _, era := range []string{handshake, stateless} {
			t.Run(test.name+", "+era, func(t *testing.T) {
				p, s, _ := planning(t, handshake, func(o *proxy.Options) { o.Plans.Mutations = test.mutations })
				c := attach(t, p, era)
				asked := 0
				c.answer = func(method string, params []byte) []byte {
					asked++
					if method != "elicitation/create" || !strings.Contains(string(params), "put") {
						t.Errorf("asked %s %s", method, params)
					}
					if n := s.total.Load(); n != 0 {
						t.Errorf("%d calls before the user was asked", n)
					}
					return []byte(test.says)
				}
				m := c.ableTo(test.capabilities, "execute_tool_plan", writing)
				if n := s.total.Load(); n != test.calls {
					t.Errorf("got %d calls, want %d: %s", n, test.calls, s.called())
				}
				if test.want == "" {
					if got := readPlan(t, m).states(); got != "a ok, b ok" {
						t.Errorf("got %s", got)
					}
				} else if text := brokenText(t, m); !strings.Contains(text, test.want) {
					t.Errorf("got %q, want %q in it", text, test.want)
				}
			})
		}
	}
}

// ableTo makes a call as a client with the given capabilities, and answers the questions in its
// results.
func (c *caller) ableTo(capabilities, tool, arguments string) jsonrpc.Message {
	c.t.Helper()
	if c.era == handshake {
		c.opens("tester", capabilities)
		return c.begin(tool, arguments).wait()
	}
	return c.converse(withMeta(toolCall(tool, arguments), capabilities, ""), c.answer)
}

// modelled returns the compiled rules of the operator.
func modelled(t testing.TB, rules ...valuemodel.Rule) *valuemodel.Models {
	t.Helper()
	models, problems := valuemodel.Compile(rules)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return models
}

func writesAll(pattern string) valuemodel.Rule {
	return valuemodel.Rule{Pattern: pattern, Source: "test", Layer: valuemodel.Layer{Class: valuemodel.MutatesExternal}}
}

func classified(pattern string, how valuemodel.Classify) valuemodel.Rule {
	return valuemodel.Rule{Pattern: pattern, Source: "test", Layer: valuemodel.Layer{Classify: how}}
}

// If a tool is classified by its arguments, arguments that are not known before the run, or that
// servers may decode differently, count as a write.
func TestPlanClassByArguments(t *testing.T) {
	for _, test := range []struct {
		tool, arguments string
		asks            bool
	}{
		{"get", `{"command":"ls -l"}`, false},
		{"get", `"{\"command\":\"ls -l\"}"`, false},
		{"get", `{"command":{"$lit":"ls -l"}}`, false},
		{"get", `{"command":"rm -r x"}`, true},
		{"get", `{"command":{"$ref":"f#/items/0/t"}}`, true},
		{"get", `{"command":{"$tpl":"ls ${f#/items/0/t}"}}`, true},
		{"get", `{"command":"ls","timeout":{"$ref":"f#/items/0/n"}}`, true},
		{"large", `{"sql":"select 1"}`, false},
		{"large", `{"sql":{"$ref":"f#/items/0/t"}}`, true},
	} {
		t.Run(test.tool+test.arguments, func(t *testing.T) {
			p, s, _ := planning(t, handshake, func(o *proxy.Options) {
				o.Models = modelled(t, reading("shop/find", 0), classified("shop/get", valuemodel.Shell), classified("shop/large", valuemodel.SQL))
			})
			c := attach(t, p, handshake)
			asked := false
			c.reply(func(string, []byte) []byte {
				asked = true
				return []byte(`{"action":"decline"}`)
			})
			m := c.ableTo(able, "execute_tool_plan", `{"steps":[{"id":"f","tool":"find"},{"id":"a","tool":"`+test.tool+`","arguments":`+test.arguments+`}]}`)
			if asked != test.asks {
				t.Errorf("asked: %v, want %v: %.300s", asked, test.asks, m.Raw)
			}
			if calls := s.total.Load(); calls != 0 == asked {
				t.Errorf("%d calls", calls)
			}
		})
	}
}

// The parameters of a named plan have types and defaults, and the question for confirmation shows
// them.
func TestNamedPlanParameters(t *testing.T) {
	named := plan.Named{
		Name: "put", Description: "puts", Outputs: []string{"p"},
		Parameters: []byte(`{"n":{"type":"integer","minimum":1},"label":{"type":"string","default":"none"},"tags":{"type":"array","items":{"type":"string"},"default":[]}}`),
		Steps:      []byte(`[{"id":"p","tool":"put","arguments":{"n":{"$ref":"params#/n"},"l":"$ref:params.label","t":{"$tpl":"${params#/label}/${params#/n}"},"all":{"$ref":"params#/tags"}}}]`),
	}
	for _, era := range []string{handshake, stateless} {
		p, s, _ := planning(t, handshake, func(o *proxy.Options) { o.Plans.Named = []plan.Named{named} })
		var request string
		var mu sync.Mutex
		c := attach(t, p, era)
		c.reply(func(_ string, params []byte) []byte {
			mu.Lock()
			defer mu.Unlock()
			request = string(params)
			return []byte(`{"action":"accept","content":{}}`)
		})
		for arguments, want := range map[string]string{
			`{"n":7}`: `{"did":{"n":7,"l":"none","t":"none/7","all":[]}}`,
			`{"n":12345678901234567890,"label":"$ref:p","tags":["{\"$ref\":\"p#\"}"]}`: `{"did":{"n":12345678901234567890,"l":"$ref:p","t":"$ref:p/12345678901234567890","all":["{\"$ref\":\"p#\"}"]}}`,
		} {
			a := readPlan(t, c.ableTo(able, "plan__put", arguments))
			if got := string(a.Outputs["p"]); got != want {
				t.Errorf("%s: got %s, want %s", arguments, got, want)
			}
			mu.Lock()
			if n := strings.TrimSuffix(strings.TrimPrefix(strings.Split(arguments, ",")[0], `{"n":`), "}"); !strings.Contains(request, n) {
				t.Errorf("%s: got the question %s", arguments, request)
			}
			mu.Unlock()
		}
		before := s.total.Load()
		for arguments, want := range map[string]string{
			`{"n":{"$ref":"p#"}}`: "n", `{"n":1,"label":{"$lit":"x"}}`: "label", `{"n":1,"steps":[]}`: "steps",
		} {
			if text := brokenText(t, c.ableTo(able, "plan__put", arguments)); !strings.Contains(text, want) {
				t.Errorf("%s: got %q, want %q in it", arguments, text, want)
			}
		}
		if n := s.total.Load(); n != before {
			t.Errorf("%d calls were made with wrong parameters", n-before)
		}
	}
}

func plain(t testing.TB) proxy.Options { return planned(t) }

// A cancelled plan gets no response. Its open calls are cancelled at the server, no other call
// starts, and the results of its writes can be read.
func TestPlanWithdrawn(t *testing.T) {
	besetEach(t, plain, slowly, func(t *testing.T, d *ordeal, p *planner) {
		s := p.begin("execute_tool_plan", `{"steps":[{"id":"w","tool":"write","arguments":{"n":1}},
			{"id":"g","tool":"get","arguments":{"x":"hang"}},
			{"id":"v","tool":"write","arguments":{"n":{"$ref":"g#"}}}]}`)
		time.Sleep(3 * time.Second)
		s.cancel()
		synctest.Wait()
		ledger := d.foe.ledger()
		if got, want := calls(ledger), `write{"n":1} get{"x":"hang"}`; got != want || ledger[1].ctx.Err() == nil {
			t.Errorf("got calls %s, want %s, the last cancelled: %v", got, want, ledger[1].ctx.Err())
		}
		if n := d.proxy.Stats().Store.Flights; n != 0 {
			t.Errorf("%d flights are left", n)
		}
		a := p.kept()
		if want := "w ok, g failed, v cancelled"; a.states() != want || !strings.HasPrefix(a.why("g"), "cut short") {
			t.Errorf("got %s (%s), want %s", a.states(), a.why("g"), want)
		}
		if string(a.Outputs["w"]) == "" {
			t.Errorf("got outputs %v", a.Outputs)
		}
	})
}

// noticed returns the params of the notifications of a method, and whether any came after the
// response.
func (c *caller) noticed(method, id string) (params []string, late bool) {
	over := false
	for _, line := range c.transcript() {
		m, err := jsonrpc.Parse([]byte(line))
		if err != nil {
			continue
		}
		if m.IsResponse() && string(m.ID) == id {
			over = true
		}
		if m.Method == method {
			params, late = append(params, string(m.Params)), late || over
		}
	}
	return params, late
}

// With a progress token, a client gets one notification for each step, with that token and before
// the response. Without a token it gets none.
func TestPlanProgress(t *testing.T) {
	const steps = `{"steps":[{"id":"a","tool":"progress","arguments":{"n":3,"late":true}},{"id":"b","tool":"echo"},
		{"id":"c","tool":"echo","when":{"ref":{"$ref":"b#/x"},"op":"exists"},"arguments":{"x":1}},{"id":"d","tool":"echo","arguments":{"x":{"$ref":"b#/x"}}},{"id":"e","tool":"echo","arguments":{"x":{"$ref":"d#"}}}]}`
	eachEra(t, func(t *testing.T, client, server string) {
		o := stored(t, []valuemodel.Rule{reading("one/*", 0)}, child(t, mcptest.Options{Name: "one", Era: server}))
		o.Plans = planSettings(proxy.Plans{Enabled: true})
		c := connect(t, start(t, o), client)
		c.plan(steps)
		c.request(map[string]string{handshake: "ping", stateless: "tools/list"}[client], "")
		if told, _ := c.noticed("notifications/progress", "0"); len(told) != 0 {
			t.Errorf("without a token: got %v", told)
		}
		p := c.start("tools/call", `{"name":"execute_tool_plan","arguments":`+line(steps)+`,"_meta":{"progressToken":"mine"}}`)
		p.wait()
		c.plan(steps) // late notifications have arrived
		told, late := c.noticed("notifications/progress", p.id)
		told = slices.DeleteFunc(told, func(params string) bool { return strings.Contains(params, `"a: running"`) }) // see TestPlanStepProgress
		if late || len(told) != 5 {
			t.Fatalf("got %d, some after the answer: %v, want one for each step: %v", len(told), late, told)
		}
		all := strings.Join(told, "\n")
		for i, params := range told {
			if !strings.HasPrefix(params, fmt.Sprintf(`{"progress":%d,"total":5,`, i+1)) || !strings.HasSuffix(params, `"progressToken":"mine"}`) {
				t.Errorf("%d: got %s", i, params)
			}
		}
		for _, want := range []string{`"a: ok`, `"b: ok`, `"c: skipped"`, `"d: failed`, `"e: skipped"`} {
			if strings.Count(all, want) != 1 {
				t.Errorf("got %s, want %s in it once", all, want)
			}
		}
	})
}

// The progress of a running step is told to a client with a token: it may give up a plan without progress.
func TestPlanStepProgress(t *testing.T) {
	p, up := puppet(t, "stdio")
	o := options(up)
	o.Plans = planSettings(proxy.Plans{Enabled: true, Mutations: "allow"})
	c := connect(t, start(t, o), handshake)
	run := c.start("tools/call", `{"name":"execute_tool_plan","arguments":{"steps":[{"id":"a","tool":"work"}]},"_meta":{"progressToken":"mine"}}`)
	call := await(t, p.Calls)
	token := jsonrpc.Get(jsonrpc.Get(call.Params, "_meta"), "progressToken")
	p.Say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(token) + `,"progress":30}}`)
	if m := c.next("notifications/progress"); string(m.Params) != `{"progress":0.0001,"total":1,"message":"a: running","progressToken":"mine"}` {
		t.Errorf("got %s", m.Params)
	}
	p.Answer(call.ID, []byte(`{"content":[]}`))
	run.wait()
}

// inquirer is a server with a tool ask, which asks the client, and a tool find, which does not. It
// counts calls, and repeated calls separately.
type inquirer struct{ seen tally }

func (q *inquirer) answer(_ context.Context, m jsonrpc.Message) []byte {
	name := tool(m)
	if name == "" {
		return nil
	}
	if jsonrpc.Get(m.Params, "requestState") != nil {
		name += " again"
	}
	q.seen.count(name)
	if name == "find" || name == "put" {
		return []byte(said(string(jsonrpc.Get(m.Params, "arguments"))))
	}
	return nil
}

// inquiring returns a proxy in front of an inquirer.
func inquiring(t *testing.T, era, transport string, change func(*proxy.Options)) (*proxy.Server, *inquirer) {
	t.Helper()
	q := &inquirer{}
	o := mcptest.Options{Name: "one", Era: era, Tools: tools("find", "ask", "put", "hold"), Answer: q.answer}
	var up catalog.Upstream
	if transport == "http" {
		_, up = remote(t, o)
	} else {
		up = child(t, mcptest.Options{Name: "one", Relay: relay(t, mcptest.New(o))})
	}
	opt := stored(t, []valuemodel.Rule{reading("one/find", 0), reading("one/ask", 0), reading("one/hold", 0)}, up)
	opt.Plans = planSettings(proxy.Plans{Enabled: true})
	if change != nil {
		change(&opt)
	}
	return start(t, opt), q
}

// asking returns a step that asks one question in each round.
func asking(id string, rounds int, more string) string {
	return fmt.Sprintf(`{"id":%q,"tool":"ask","arguments":{"rounds":%d,"asks":[{"method":"elicitation/create","params":{"message":"?","tag":%q}}]}%s}`, id, rounds, id, more)
}

func replies(id string, rounds int) string {
	one := fmt.Sprintf(`{"who":"me","method":"elicitation/create","tag":%q}`, id)
	return "[" + strings.Repeat(one+",", rounds-1) + one + "]"
}

// Several steps of a plan ask questions, concurrently and in rounds, with clients and servers of
// both eras. Each gets its own answer, and no call is made twice.
func TestPlanStepsAsk(t *testing.T) {
	eachEra(t, func(t *testing.T, client, server string) {
		for _, transport := range []string{"stdio", "http"} {
			p, q := inquiring(t, server, transport, nil)
			c := attach(t, p, client)
			c.reply(tagged("me"))
			a := readPlan(t, c.ableTo(able, "execute_tool_plan", `{"steps":[{"id":"first","tool":"find","arguments":{"x":1}},`+
				asking("a", 1, `,"depends_on":["first"]`)+`,`+asking("b", 3, `,"depends_on":["first"]`)+`,`+asking("c", 2, ``)+
				`,{"id":"last","tool":"find","arguments":{"x":{"$ref":"b#"}}}]}`))
			if want := "first ok, a ok, b ok, c ok, last ok"; a.states() != want {
				t.Errorf("%s: got %s, want %s: %+v", transport, a.states(), want, a)
				continue
			}
			for id, rounds := range map[string]int{"a": 1, "b": 3, "c": 2} {
				if got := string(a.Outputs[id]); got != replies(id, rounds) {
					t.Errorf("%s: %s: got %s, want %s", transport, id, got, replies(id, rounds))
				}
			}
			if want := `{"x":` + replies("b", 3) + `}`; string(a.Outputs["last"]) != want {
				t.Errorf("%s: got %s, want %s", transport, a.Outputs["last"], want)
			}
			if q.seen.of("find") != 2 || q.seen.of("ask") != 3 {
				t.Errorf("%s: the server was called %v", transport, &q.seen)
			}
		}
	})
}

// A handle is valid in its session, for a limited time, and until the session ends.
func TestPlanHandlesEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFoe(func(v *visit) reply { return reply{result: said(strings.Repeat("lorem ipsum ", 4000))} })
		o := planned(t)
		o.Plans.Budget, o.Plans.KeepFor = 500, 10*time.Minute
		d := beset(t, f, o)
		p, other := d.plans(handshake), d.plans(stateless)
		handle := func() string {
			a := p.run(`{"id":"a","tool":"get"}`)
			return fmt.Sprintf(`{"handle":%q}`, a.Handle)
		}
		h := handle()
		time.Sleep(10*time.Minute - time.Second)
		if text := p.read(h); !strings.Contains(text, "lorem") {
			t.Errorf("before its time is over: got %s", text)
		}
		if text := other.read(h); strings.Contains(text, "lorem") {
			t.Errorf("another session's: got %s", text)
		}
		time.Sleep(2 * time.Second)
		if text := p.read(h); !strings.Contains(text, "unknown or expired (10m, [plan].handle_ttl)") {
			t.Errorf("after it: got %s", text)
		}
		handle()
		if n := proxy.Results(d.proxy); n != 1 {
			t.Errorf("%d results are kept, want 1, as expired results are dropped when one is added", n)
		}
		p.leave()
		d.guests = d.guests[1:]
		if n := proxy.Results(d.proxy); n != 0 {
			t.Errorf("%d results are kept of a session that has ended", n)
		}
	})
}

// All omitted parts of a result can be read by following the pointers and offsets in it.
func TestPlanResultsReassembled(t *testing.T) {
	p, _, _ := planning(t, handshake, nil)
	c := connect(t, p, handshake)
	answer := c.plan(`{"steps":[{"id":"a","tool":"large"}]}`)
	if answer.Handle == "" || len(answer.Left) != 1 || answer.Left[0].Pointer != "/a/rows" {
		t.Fatalf("got %+v, want rows left out", answer)
	}
	read := func(arguments string) string {
		return c.said("mcpschedd_read_result", fmt.Sprintf(`{"handle":%q,%s}`, answer.Handle, arguments))
	}
	rows := 0
	for offset := "0"; offset != ""; {
		part := []byte(read(`"pointer":"/a/rows","offset":` + offset))
		for range jsonrpc.Elements(jsonrpc.Get(part, "value")) {
			rows++
		}
		offset = ""
		for left := range jsonrpc.Elements(jsonrpc.Get(part, "left_out")) {
			if jsonrpc.Text(left, "pointer") == "/a/rows" {
				offset = string(jsonrpc.Get(left, "offset"))
			}
		}
	}
	if rows != 5001 {
		t.Errorf("read %d rows, want 5001", rows)
	}
	for arguments, want := range map[string]string{
		`"offset":-1`: "whole number", `"pointer":"/b"`: "nothing there", `"pointer":"/a/rows/99999999"`: "nothing there",
		`"pointer":"/a/rows/01"`: "nothing there", `"pointer":"a"`: "want a JSON pointer",
	} {
		if got := c.broken("mcpschedd_read_result", fmt.Sprintf(`{"handle":%q,%s}`, answer.Handle, arguments)); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", arguments, got, want)
		}
	}
}

// there returns the number of open calls at the server.
func (f *foe) there() (n int) {
	for _, v := range f.ledger() {
		if v.went.IsZero() && v.ctx.Err() == nil {
			n++
		}
	}
	return n
}

// ask makes a stateless call over HTTP. It returns "" if ctx ended before the response.
func (d *ordeal) ask(ctx context.Context, params string) string {
	name, _ := jsonrpc.String(jsonrpc.Get([]byte(params), "name"))
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + withMeta(params, able, "") + `}`
	answer := d.post(ctx, body, "Mcp-Protocol-Version", stateless, "Mcp-Method", "tools/call", "Mcp-Name", name)
	if answer == nil {
		return ""
	}
	defer answer.Body.Close()
	m, err := io.ReadAll(answer.Body)
	if err != nil && ctx.Err() == nil {
		d.t.Errorf("post: %v", err)
	}
	return string(m)
}

func tools(names ...string) (all []string) {
	for _, name := range names {
		all = append(all, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
	}
	return all
}

// gone is a plan with a read that takes an hour, and a write after it.
const gone = `{"steps":[{"id":"a","tool":"get","arguments":{"x":"hang"}},{"id":"b","tool":"get","arguments":{"y":"hang"}},
	{"id":"w","tool":"write","arguments":{"n":{"$ref":"a#"}}},{"id":"v","tool":"write","depends_on":["b"]}]}`

// The same over HTTP: a client with a session ends it; a stateless client disconnects.
func TestPlanVisitorGone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := beset(t, newFoe(slowly), planned(t))
		v := d.visit()
		ctx, hangUp := context.WithCancel(t.Context())
		go v.call(ctx, "tools/call", toolCall("execute_tool_plan", line(gone)))
		time.Sleep(3 * time.Second)
		hangUp()
		synctest.Wait()
		if n := d.proxy.Stats().Store.Flights; n != 2 {
			t.Errorf("%d flights after the client hung up, want both", n)
		}
		v.ends()
		d.over()
	})
	for _, server := range []string{"handshake", "stateless"} {
		bubble.Test(t, func(t *testing.T) {
			d := beset(t, newFoe(slowly).of(server), planned(t))
			ctx, hangUp := context.WithCancel(t.Context())
			go d.ask(ctx, toolCall("execute_tool_plan", line(gone)))
			time.Sleep(3 * time.Second)
			hangUp()
			d.over()
		})
	}
}

// After a write that was open when its server's process exited, no later write is made.
func TestPlanProcessDiesWriting(t *testing.T) {
	eachEra(t, func(t *testing.T, client, server string) {
		rules := []valuemodel.Rule{reading("frail/die", 0), reading("frail/seen", 0)}
		gate := mcptest.NewGate(t)
		o := stored(t, rules, child(t, mcptest.Options{Name: "frail", Era: server, Tools: tools("hold", "die", "seen", "put")}))
		o.Plans = planSettings(proxy.Plans{Enabled: true, Mutations: "allow"})
		c := connect(t, start(t, o), client)
		p := c.begin("execute_tool_plan", line(`{"steps":[{"id":"w","tool":"hold","arguments":{"gate":"`+gate.Addr()+`"}},
			{"id":"v","tool":"put","arguments":{"n":2}}]}`))
		gate.Next()
		c.begin("die", "{}")
		got := readPlan(t, p.wait())
		if want := "w failed, v skipped"; got.states() != want {
			t.Errorf("got %s, want %s", got.states(), want)
		}
		if got, want := got.why("v"), "Skipped because 'w' failed: a write"; !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if seen := c.said("seen", ""); strings.Contains(seen, `"put"`) {
			t.Errorf("the later write was made: %s", seen)
		}
	})
}

// A plan can be resumed only with equal arguments, in any formatting.
func TestPlanTakenUpByEqualArguments(t *testing.T) {
	const plan = `{"steps":[{"id":"w","tool":"put","arguments":{"n":1,"t":"x"}},{"id":"a","tool":"ask","arguments":{"asks":[{"method":"elicitation/create","params":{"message":"?"}}]},"depends_on":["w"]}],"output_steps":["a"]}`
	for name, test := range map[string]struct {
		from, to string
		same     bool
	}{
		"in arguments":   {`{"n":1,"t":"x"}`, `{"t":"\u0078", "n":1}`, true},
		"a text":         {`"n":1`, `"n":"1"`, false},
		"order of items": {`"output_steps":["a"]`, `"output_steps":["w"]`, false},
		"twice":          {`"n":1`, `"n":2,"n":1`, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, server := range []string{"handshake", "stateless"} {
				s, q := inquiring(t, server, "http", func(o *proxy.Options) { o.Plans.Mutations = "allow" })
				c := connect(t, s, stateless)
				params := toolCall("execute_tool_plan", plan)
				result := []byte(c.request("tools/call", params))
				again := retry(params, result, tagged("me"))
				other := strings.Replace(plan, test.from, test.to, 1)
				if again == nil || other == plan {
					t.Fatalf("got %s, want a question, and %s", result, other)
				}
				m := c.start("tools/call", string(jsonrpc.Set(again, "arguments", []byte(other)))).wait()
				if test.same {
					if a := readPlan(t, m); a.states() != "w ok, a ok" {
						t.Errorf("%s: got %s", server, m.Raw)
					}
				} else if m.Error == nil {
					t.Errorf("%s: got %s, want a refusal", server, m.Raw)
				}
				if n := q.seen.of("put"); n != 1 {
					t.Errorf("%s: %d writes", server, n)
				}
			}
		})
	}
}

// over checks that the plan has ended and makes no more calls.
func (d *ordeal) over() {
	d.t.Helper()
	synctest.Wait()
	for what, n := range map[string]int{"flights": d.proxy.Stats().Store.Flights, "calls with the server": d.foe.there()} {
		if n != 0 {
			d.t.Errorf("%d %s are left", n, what)
		}
	}
	time.Sleep(time.Minute)
	if got := calls(d.foe.ledger()); strings.Contains(got, "write") || strings.Count(got, "get") != 2 {
		d.t.Errorf("got calls %s", got)
	}
	time.Sleep(time.Hour) // the shared session of stateless clients has been idle
}
