package proxy_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

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

// If a tool's effect depends on its arguments, arguments that are not known before the plan
// runs, or that servers may read differently, count as a write.
func TestPlanClassByArguments(t *testing.T) {
	for _, test := range []struct {
		tool, arguments string
		asks            bool
	}{
		{"get", `{"command":"ls -l"}`, false},
		{"get", `"{\"command\":\"ls -l\"}"`, false},
		{"get", `{"command":{"$lit":"ls -l"}}`, false},
		{"get", `{"command":"rm -r x"}`, true},
		{"get", `{"command":"ls","shell":"rm"}`, true},
		{"get", `{"command":{"$ref":"f#/items/0/t"}}`, true},
		{"get", `{"command":"$ref:f.items.0.t"}`, true},
		{"get", `{"command":{"$tpl":"ls ${f#/items/0/t}"}}`, true},
		{"get", `{"command":"ls","timeout":{"$ref":"f#/items/0/n"}}`, true},
		{"large", `{"sql":"select 1"}`, false},
		{"large", `{"sql":"select 1; drop table x"}`, true},
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

// A change of the configuration while a plan runs applies to the steps that have not started.
func TestPlanRejudged(t *testing.T) {
	type change = func(t *testing.T, o *proxy.Options)
	mutations := func(to string) change {
		return func(_ *testing.T, o *proxy.Options) { o.Plans.Mutations = to }
	}
	writes := func(t *testing.T, o *proxy.Options) {
		o.Models = modelled(t, reading("shop/find", 0), reading("shop/hold", 0), writesAll("shop/get"), writesAll("shop/put"))
	}
	denied := func(_ *testing.T, o *proxy.Options) {
		o.Upstreams[0].Allows = func(tool string) bool { return tool != "get" && tool != "put" }
	}
	for _, test := range []struct {
		name, before string
		change       change
		get, put     string // why they were not called; "" if they were
	}{
		{"nothing", "allow", func(*testing.T, *proxy.Options) {}, "", ""},
		{"what read writes, confirmed", "confirm", writes, "may change something", ""},
		{"what read writes, allowed", "allow", writes, "may change something", ""},
		{"denied", "confirm", denied, "unknown tool", "unknown tool"},
		{"no writes any more", "confirm", mutations("deny"), "", "[plan].mutations"},
		{"no writes any more, allowed before", "allow", mutations("deny"), "", "[plan].mutations"},
		{"to be confirmed now", "allow", mutations("confirm"), "", "[plan].mutations"},
		{"allowed now", "confirm", mutations("allow"), "", ""},
	} {
		for _, named := range []bool{false, true} {
			for _, era := range []string{handshake, stateless} {
				t.Run(fmt.Sprintf("%s, named %v, %s", test.name, named, era), func(t *testing.T) {
					gate := mcptest.NewGate(t)
					s := &shop{}
					_, up := remote(t, mcptest.Options{Name: "shop", Tools: append(shopTools(), tools("hold")...), Answer: s.beside("hold")})
					steps := `[{"id":"h","tool":"hold","arguments":{"gate":"` + gate.Addr() + `"}},
						{"id":"g","tool":"get","arguments":{"x":{"$ref":"h#/name"}},"on_error":"continue"},
						{"id":"p","tool":"put","arguments":{"x":{"$ref":"h#/name"}}}]`
					o := stored(t, []valuemodel.Rule{reading("shop/find", 0), reading("shop/get", 0), reading("shop/hold", 0), writesAll("shop/put")}, up)
					o.Plans = proxy.Plans{Enabled: true, Mutations: test.before, Named: []plan.Named{{Name: "n", Steps: []byte(line(steps))}}}
					p := start(t, o)
					c := attach(t, p, era)
					c.reply(func(string, []byte) []byte { return []byte(`{"action":"accept","content":{}}`) })
					go func() {
						at := gate.Next()
						next := o
						next.Upstreams = append([]proxy.Upstream(nil), o.Upstreams...)
						test.change(t, &next)
						p.Apply(next)
						at.Open()
					}()
					tool, arguments := "execute_tool_plan", `{"steps":`+line(steps)+`}`
					if named {
						tool, arguments = "plan__n", "{}"
					}
					a := readPlan(t, c.ableTo(able, tool, arguments))
					for id, want := range map[string]string{"g": test.get, "p": test.put} {
						if got := a.why(id); !strings.Contains(got, want) || (want == "") != (got == "") {
							t.Errorf("%s: got %q, want %q", id, got, want)
						}
						name := map[string]string{"g": "get", "p": "put"}[id]
						if called := strings.Contains(s.called(), name+" "); called != (want == "") {
							t.Errorf("%s was called: %v", name, called)
						}
					}
				})
			}
		}
	}
}

// beside answers like a shop, and leaves some tools to the underlying server.
func (s *shop) beside(names ...string) func(context.Context, jsonrpc.Message) []byte {
	return func(ctx context.Context, m jsonrpc.Message) []byte {
		for _, name := range names {
			if tool(m) == name {
				return nil
			}
		}
		return s.answer(ctx, m)
	}
}

// A named plan: its parameters are typed, some have defaults, and the user who confirms it
// sees them.
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
				t.Errorf("%s: the user was asked %s", arguments, request)
			}
			mu.Unlock()
		}
		before := s.total.Load()
		for arguments, want := range map[string]string{
			`{}`:                           "n",
			`{"n":"7"}`:                    "n",
			`{"n":0}`:                      "n",
			`{"n":1.5}`:                    "n",
			`{"n":1,"label":7}`:            "label",
			`{"n":1,"tags":["a",1]}`:       "tags",
			`{"n":1,"other":1}`:            "other",
			`{"n":null}`:                   "n",
			`{"n":1,"steps":[]}`:           "steps",
			`[]`:                           "want an object",
			`"{\"n\":1}"`:                  "want an object",
			`{"n":{"$ref":"p#"}}`:          "n",
			`{"n":1,"label":{"$lit":"x"}}`: "label",
		} {
			if text := brokenText(t, c.ableTo(able, "plan__put", arguments)); !strings.Contains(text, want) {
				t.Errorf("%s: got %q, want %q in it", arguments, text, want)
			}
		}
		if n := s.total.Load(); n != before {
			t.Errorf("%d calls were made for what is wrong", n-before)
		}
	}
}

// A client that sees only one server is not offered the plan tools and cannot call them.
func TestPlanNotInViews(t *testing.T) {
	s := &shop{}
	_, up := remote(t, mcptest.Options{Name: "shop", Tools: shopTools(), Answer: s.answer})
	o := stored(t, []valuemodel.Rule{reading("shop/*", 0)}, up)
	o.Plans = proxy.Plans{Enabled: true, Named: []plan.Named{{Name: "n", Steps: []byte(`[{"id":"a","tool":"find"}]`)}}}
	f := serveTCP(t, o)
	for _, path := range []string{"/mcp", "/mcp/shop"} {
		id := f.open(path, handshake)
		_, list := f.post(path, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Session-Id", id)
		for _, tool := range []string{"execute_tool_plan", "plan__n", "mcpschedd_read_result"} {
			whole := path == "/mcp"
			if got := strings.Contains(list, `"name":"`+tool+`"`); got != whole {
				t.Errorf("%s: %s is listed: %v", path, tool, got)
			}
			before := s.total.Load()
			_, answer := f.post(path, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":`+toolCall(tool, `{"steps":[{"id":"a","tool":"find"}]}`)+`}`, "Mcp-Session-Id", id)
			// At a single server such a name is the server's own, as it may have unlisted tools.
			if ran := strings.Contains(answer, `"status":"ok"`); ran != (whole && tool == "execute_tool_plan") {
				t.Errorf("%s: %s: got %s, %d calls", path, tool, answer, s.total.Load()-before)
			}
		}
	}
}

// A server's tool may have the name of one of the proxy's own: a call goes to the tool in the
// list, and a plan never contains a plan.
func TestPlanNamesClash(t *testing.T) {
	for _, style := range []string{"auto", "never", "always"} {
		t.Run(style, func(t *testing.T) {
			s := &shop{}
			_, up := remote(t, mcptest.Options{Name: "shop", Tools: append(shopTools(), tools("execute_tool_plan", "plan__n")...), Answer: s.answer})
			o := stored(t, []valuemodel.Rule{reading("shop/*", 0)}, up)
			o.NameStyle = style
			o.Plans = proxy.Plans{Enabled: true, Named: []plan.Named{{Name: "n", Steps: []byte(`[{"id":"a","tool":"shop/find"}]`)}}}
			c := connect(t, start(t, o), handshake)
			list := strings.Fields(c.tools())
			seen := make(map[string]bool)
			for _, name := range list {
				if seen[name] {
					t.Errorf("%s is listed twice", name)
				}
				seen[name] = true
			}
			if !seen["execute_tool_plan"] || !seen["plan__n"] || seen["shop__execute_tool_plan"] != (style != "never") {
				t.Errorf("got tools %s", list)
			}
			if a := c.plan(`{"steps":[{"id":"a","tool":"shop/find"}]}`); a.states() != "a ok" {
				t.Errorf("got %+v", a)
			}
			if style != "never" {
				if got := c.call("shop__execute_tool_plan", `{"mine":1}`); !strings.Contains(got, `did`) {
					t.Errorf("the upstream's own: got %s", got)
				}
				if a := c.plan(`{"steps":[{"id":"a","tool":"shop/execute_tool_plan","arguments":{"mine":2}}]}`); string(a.Outputs["a"]) != `{"did":{"mine":2}}` {
					t.Errorf("the upstream's own in a plan: got %+v", a)
				}
			}
			for _, name := range []string{"execute_tool_plan", "shop__execute_tool_plan", "plan__n", "mcpschedd_read_result"} {
				if text := c.broken("execute_tool_plan", fmt.Sprintf(`{"steps":[{"id":"a","tool":%q}]}`, name)); !strings.Contains(text, "cannot contain a plan") {
					t.Errorf("%s: got %q", name, text)
				}
			}
		})
	}
}

// A reload that changes the offered tools sends a notification.
func TestPlanReloadTellsClients(t *testing.T) {
	s := &shop{}
	_, up := remote(t, mcptest.Options{Name: "shop", Tools: shopTools(), Answer: s.answer})
	o := stored(t, []valuemodel.Rule{reading("shop/*", 0)}, up)
	p := start(t, o)
	c := connect(t, p, handshake)
	c.tools()
	named := func(name, description string) []plan.Named {
		return []plan.Named{{Name: name, Description: description, Steps: []byte(`[{"id":"a","tool":"find"}]`)}}
	}
	for i, next := range []struct {
		plans  proxy.Plans
		listed string
	}{
		{proxy.Plans{Enabled: true}, "execute_tool_plan mcpschedd_read_result"},
		{proxy.Plans{Enabled: true, Named: named("a", "one")}, "execute_tool_plan mcpschedd_read_result plan__a"},
		{proxy.Plans{Enabled: true, Named: named("a", "two")}, "execute_tool_plan mcpschedd_read_result plan__a"},
		{proxy.Plans{Enabled: true, Named: named("b", "two")}, "execute_tool_plan mcpschedd_read_result plan__b"},
		{proxy.Plans{Enabled: true, Named: named("b", "two"), Mutations: "deny"}, "execute_tool_plan mcpschedd_read_result plan__b"},
		{proxy.Plans{Enabled: true, Named: named("b", "two"), KeepFor: -1}, "execute_tool_plan plan__b"}, // nothing to read later
		{proxy.Plans{}, ""},
	} {
		o.Plans = next.plans
		p.Apply(o)
		c.next("notifications/tools/list_changed")
		if got := c.tools(); !strings.HasPrefix(got, next.listed) || next.listed == "" && strings.Contains(got, "plan") {
			t.Errorf("%d: got tools %s, want %s", i, got, next.listed)
		}
		list := c.request("tools/list", "")
		if got, want := strings.Contains(list, `"readOnlyHint":false,"destructiveHint":true`), next.plans.Enabled && next.plans.Mutations != "deny"; got != want {
			t.Errorf("%d: annotated destructive: %v, want %v", i, got, want)
		}
	}
	if code, message := c.refused("tools/call", toolCall("execute_tool_plan", `{"steps":[]}`)); code != -32602 {
		t.Errorf("got %d %s", code, message)
	}
}

// A plan with tools of a server that is starting waits for the server.
func TestPlanWaitsForAServer(t *testing.T) {
	eachEra(t, func(t *testing.T, client, server string) {
		gate := mcptest.NewGate(t)
		o := stored(t, []valuemodel.Rule{reading("slow/*", 0)}, child(t, mcptest.Options{Name: "slow", Era: server, Gate: gate.Addr()}))
		o.StartupWait = time.Millisecond
		o.Plans.Enabled = true
		c := connect(t, start(t, o), client)
		p := c.begin("execute_tool_plan", `{"steps":[{"id":"a","tool":"echo","arguments":{"x":1}},{"id":"b","tool":"nonsense"}]}`)
		q := c.begin("execute_tool_plan", `{"steps":[{"id":"a","tool":"echo","arguments":{"x":1}}]}`)
		at := gate.Next()
		if !p.open() || !q.open() {
			t.Errorf("answered before the server was there: %s", p.wait().Raw)
		}
		at.Open()
		if text := brokenText(t, p.wait()); !strings.Contains(text, `"nonsense"`) || strings.Contains(text, `"echo"`) {
			t.Errorf("got %q", text)
		}
		if a := readPlan(t, q.wait()); a.states() != "a ok" {
			t.Errorf("got %+v", a)
		}
	})
}

// A plan that names a missing tool does not take the name from another tool.
func TestPlanTakesNoNames(t *testing.T) {
	_, one := remote(t, mcptest.Options{Name: "one", Tools: tools("a")})
	_, two := remote(t, mcptest.Options{Name: "two", Tools: tools("b")})
	o := stored(t, []valuemodel.Rule{reading("*/*", 0)}, one, two)
	o.NameStyle = "never"
	o.Plans.Enabled = true
	c := connect(t, start(t, o), handshake)
	if text := c.broken("execute_tool_plan", `{"steps":[{"id":"a","tool":"one/b"},{"id":"b","tool":"one/a"}]}`); !strings.Contains(text, `unknown tool "one/b"`) {
		t.Errorf("got %q", text)
	}
	if got := c.tools(); !strings.HasSuffix(got, " a b") {
		t.Errorf("got tools %s", got)
	}
	if a := c.plan(`{"steps":[{"id":"b","tool":"two/b"}]}`); a.states() != "b ok" {
		t.Errorf("got %+v", a)
	}
}

// A server that replaced another in a reload is classified by its own annotations.
func TestPlanServerReplaced(t *testing.T) {
	gate := mcptest.NewGate(t)
	server := func(annotations string) proxy.Upstream {
		o := mcptest.Options{Name: "one", Tools: append(tools("hold"), `{"name":"get","inputSchema":{"type":"object"},"annotations":`+annotations+`}`)}
		_, up := remote(t, o)
		return up
	}
	options := func(up proxy.Upstream) proxy.Options {
		o := stored(t, []valuemodel.Rule{reading("one/hold", 0)}, up)
		o.Upstreams[0].Model.Trust = true
		o.Plans.Enabled = true
		return o
	}
	first, second := server(`{"readOnlyHint":true}`), server(`{"readOnlyHint":false}`)
	p := start(t, options(first))
	c := connect(t, p, handshake)
	c.reply(func(method string, _ []byte) []byte {
		t.Errorf("asked %s: the plan reads", method)
		return []byte(`{"action":"decline"}`)
	})
	const steps = `{"id":"h","tool":"hold","arguments":{"gate":%q},"on_error":"continue"},{"id":"g","tool":"get","arguments":{"x":1},"depends_on":["h"]}`
	go func() {
		at := gate.Next()
		p.Apply(options(second))
		at.Open()
	}()
	a := c.plan(`{"steps":[` + fmt.Sprintf(steps, gate.Addr()) + `]}`)
	// The waiting call may end before its session has the new server.
	if why := a.why("g"); !strings.Contains(why, "may change something") && !strings.Contains(why, "no longer configured") {
		t.Errorf("got %+v", a)
	}
}
