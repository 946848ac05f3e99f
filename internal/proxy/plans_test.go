package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// shop is a server whose tools the tests below use in plans. It records its calls.
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
		return texted(`{"items":[{"n":1,"t":"one"},{"n":2,"t":"$ref:find.items"},{"n":3,"t":"three"}]}`)
	case "fail":
		return []byte(`{"content":[{"type":"text","text":"no such thing"}],"isError":true}`)
	case "large":
		return texted(`{"rows":[` + strings.Repeat(`{"id":1,"text":"lorem ipsum dolor sit amet"},`, 5000) + `{"id":2}]}`)
	}
	return texted(`{"did":` + string(arguments) + `}`) // get, put
}

func texted(text string) []byte {
	return append(jsonrpc.AppendString([]byte(`{"content":[{"type":"text","text":`), text), `}]}`...)
}

func (s *shop) called() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.calls, "\n")
}

// shopTools are the tools listed by a shop.
func shopTools() []string {
	var out []string
	for _, name := range []string{"find", "get", "put", "fail", "large", "ask", "hang", "secret_get"} {
		out = append(out, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
	}
	return append(out, `{"name":"typed","inputSchema":{"type":"object","properties":{"text":{"type":"string"},"number":{"type":"integer"}},"required":["text"],"additionalProperties":false}}`)
}

// planning is a proxy in front of a shop, with plans.
func planning(t *testing.T, era string, change func(*proxy.Options)) (*proxy.Server, *shop, *mcptest.Server) {
	t.Helper()
	s := &shop{}
	server, up := remote(t, mcptest.Options{Name: "shop", Era: era, Tools: shopTools(), Answer: s.answer})
	up.Allows = func(tool string) bool { return tool != "secret_get" }
	var rules []valuemodel.Rule
	for _, tool := range []string{"find", "get", "fail", "large", "ask", "hang", "typed"} {
		rules = append(rules, reading("shop/"+tool, 0))
	}
	rules = append(rules, valuemodel.Rule{Pattern: "shop/put", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.MutatesExternal}})
	o := stored(t, rules, up)
	o.Plans = proxy.Plans{Enabled: true}
	if change != nil {
		change(&o)
	}
	p := proxy.New(o, nil)
	t.Cleanup(p.Close)
	return p, s, server
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
		t.Errorf("the text is not what is structured: %s", m.Raw)
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
			t.Error("a step's result came back that was not asked for")
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

func TestPlanDefectsBeforeAnyCall(t *testing.T) {
	p, s, _ := planning(t, handshake, nil)
	c := connect(t, p, handshake)
	text := c.broken("execute_tool_plan", line(`{"steps":[
		{"id":"a","tool":"find","arguments":{"x":"$ref:zz"}},
		{"id":"b","tool":"gett","arguments":{}},
		{"id":"c","tool":"secret_get"},
		{"id":"d","tool":"execute_tool_plan","arguments":{"steps":[]}},
		{"id":"e","tool":"typed","arguments":{"text":7}},
		{"id":"f","tool":"get","depends_on":["g"]},
		{"id":"g","tool":"get","depends_on":["f"]}
	]}`))
	for _, want := range []string{`"zz"`, `did you mean "get"`, `unknown tool "secret_get"`, "a plan cannot contain a plan", "text", "f -> g -> f"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %s\nwant %q in it", text, want)
		}
	}
	if n := s.total.Load(); n != 0 {
		t.Errorf("got %d calls, want none", n)
	}
}

// A hidden tool cannot be called by any of its names and is not mentioned.
func TestPlanReachesNothingDenied(t *testing.T) {
	p, s, _ := planning(t, handshake, func(o *proxy.Options) { o.Plans.Mutations = "allow" })
	c := connect(t, p, handshake)
	for _, name := range []string{"secret_get", "shop/secret_get", "shop__secret_get"} {
		text := c.broken("execute_tool_plan", fmt.Sprintf(`{"steps":[{"id":"a","tool":%q}]}`, name))
		if !strings.Contains(text, "unknown tool") || strings.Contains(text, `did you mean "secret_get"`) {
			t.Errorf("%s: got %s", name, text)
		}
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
		{"nobody to ask", "confirm", `{}`, "", 0, "[plan].mutations"},
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

// ableTo makes a call as a client with the given capabilities, and answers questions as its
// user would.
func (c *caller) ableTo(capabilities, tool, arguments string) jsonrpc.Message {
	c.t.Helper()
	if c.era == handshake {
		c.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"tester","version":"1"}}`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		return c.begin(tool, arguments).wait()
	}
	params := withMeta(toolCall(tool, arguments), capabilities, "")
	for {
		m := c.startAs("tools/call", params).wait()
		requests := jsonrpc.Get(m.Result, "inputRequests")
		if requests == nil {
			return m
		}
		var responses []byte
		for q := range jsonrpc.Members(requests) {
			method, _ := jsonrpc.String(jsonrpc.Get(q.Value, "method"))
			responses = jsonrpc.Set(responses, string(q.Name), c.answer(method, jsonrpc.Get(q.Value, "params")))
		}
		next := jsonrpc.Set([]byte(params), "inputResponses", responses)
		params = string(jsonrpc.Set(next, "requestState", jsonrpc.Get(m.Result, "requestState")))
	}
}
