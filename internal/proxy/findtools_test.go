package proxy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
)

// searching returns a proxy with tool search in front of a shop.
func searching(t *testing.T, era string, change func(*proxy.Options)) (*proxy.Server, *shop) {
	t.Helper()
	p, s, _ := planning(t, era, func(o *proxy.Options) {
		o.Plans = proxy.Plans{}
		o.Selection.Tools = "search"
		if change != nil {
			change(o)
		}
	})
	return p, s
}

// foundTools is a result of find_tools.
type foundTools struct {
	Tools []struct {
		Name, Effect, Description string
		CallWith                  string `json:"call_with"`
		Parameters                string
		InputSchema               json.RawMessage
	}
	Note string
}

// found searches, and returns the result.
func (c *caller) found(arguments string) (out foundTools) {
	c.t.Helper()
	text := firstText([]byte(c.call("find_tools", arguments)))
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		c.t.Fatalf("got %s: %v", text, err)
	}
	return out
}

// names lists the tools found, and the tool through which to call each.
func (f foundTools) names() string {
	var out []string
	for _, tool := range f.Tools {
		out = append(out, tool.Name+" "+tool.CallWith)
	}
	return strings.Join(out, ", ")
}

func TestFindTools(t *testing.T) {
	eachEra(t, func(t *testing.T, client, server string) {
		p, _ := searching(t, server, nil)
		c := connect(t, p, client)
		if got, want := c.tools(), "find_tools call_read_tool call_tool"; got != want {
			t.Errorf("listed: got %s, want %s", got, want)
		}
		before := c.request("tools/list", "")
		if got, want := c.found(`{"query":"get"}`).names(), "get call_read_tool"; !strings.HasPrefix(got, want) {
			t.Errorf("found %s, want %s first", got, want)
		}
		typed := c.found(`{"query":"typed","limit":1}`)
		if len(typed.Tools) != 1 || !strings.Contains(string(typed.Tools[0].InputSchema), `"number":{"type":"integer"}`) || typed.Tools[0].Effect != "only reads" {
			t.Errorf("got %+v, want one with its schema", typed)
		}
		if got := c.found(`{"query":"put"}`); got.Tools[0].CallWith != "call_tool" || got.Tools[0].Effect != "may write" {
			t.Errorf("got %+v, want one that writes", got)
		}
		if got := c.found(`{"query":"secret_get","limit":10}`); strings.Contains(got.names(), "secret") {
			t.Errorf("got %s, want no denied tool", got.names())
		}
		if got := c.found(`{"query":"xyzzy plugh"}`); len(got.Tools) != 0 || !strings.Contains(got.Note, "other words") {
			t.Errorf("got %+v, want no tool, and a hint", got)
		}
		if after := c.request("tools/list", ""); after != before {
			t.Errorf("a search changed the list:\n%s\n%s", before, after)
		}
	})
}

// A call through a wrapper equals a direct call: the same request, the same result, the same
// cache.
func TestCallFound(t *testing.T) {
	eachEra(t, func(t *testing.T, client, server string) {
		p, s := searching(t, server, nil)
		c := connect(t, p, client)
		through := c.call("call_read_tool", `{"name":"get","arguments":{"n":7}}`)
		if got, want := s.called(), `get {"n":7}`; got != want {
			t.Errorf("called %s, want %s", got, want)
		}
		if direct := c.call("get", `{"n":7}`); firstText([]byte(direct)) != firstText([]byte(through)) {
			t.Errorf("got %s, directly %s", through, direct)
		}
		c.call("call_tool", `{"name":"find"}`)
		c.call("call_tool", `{"name":"get","arguments":"{\n\"n\":8}"}`)
		if got, want := s.called(), "get {\"n\":7}\nget {\"n\":7}\nfind {}\nget { \"n\":8}"; got != want {
			t.Errorf("called\n%s\nwant\n%s", got, want)
		}
		for _, line := range c.transcript() {
			if strings.Contains(line, "elicitation") {
				t.Errorf("the user was asked to confirm a read: %s", line)
			}
		}
		tools := p.Report().Tools
		if tools["shop/get"].Calls != 3 || tools["shop/find"].Calls != 1 {
			t.Errorf("got %v, want the calls under the tools' own names", tools)
		}
	})
}

// A call that may write is only made after the user has confirmed it, whichever wrapper or name it
// uses.
func TestCallFoundConfirmed(t *testing.T) {
	for _, how := range []struct{ tool, arguments string }{
		{"call_tool", `{"name":"put","arguments":{"path":"/etc"}}`},
		{"put", `{"path":"/etc"}`}, // not listed, so the user has not allowed it
	} {
		for _, action := range []string{"accept", "decline", "cancel", ""} {
			eachEra(t, func(t *testing.T, client, server string) {
				p, s := searching(t, server, nil)
				c := attach(t, p, client)
				asked := make(chan string, 2)
				c.reply(func(_ string, params []byte) []byte {
					if s.called() != "" {
						t.Errorf("called before the user was asked: %s", s.called())
					}
					text, _ := jsonrpc.String(jsonrpc.Get(params, "message"))
					asked <- text
					return []byte(`{"action":"` + action + `","content":{}}`)
				})
				capabilities, want := able, ""
				if action == "" {
					capabilities = `{}`
				}
				m := c.ableTo(capabilities, how.tool, how.arguments)
				if action == "accept" {
					want = `put {"path":"/etc"}`
					if got := firstText(m.Result); got != `{"did":{"path":"/etc"}}` {
						t.Errorf("got %s, want the server's answer", m.Raw)
					}
				} else if text := brokenText(t, m); !strings.Contains(text, "not called") {
					t.Errorf("got %q, want it refused", text)
				}
				if got := s.called(); got != want {
					t.Errorf("called %q, want %q", got, want)
				}
				if action == "" {
					return
				}
				if got, want := <-asked, "Call put? It may change something.\nwith {\"path\":\"/etc\"}"; got != want || len(asked) > 0 {
					t.Errorf("asked %q and %d more, want %q", got, len(asked), want)
				}
			})
		}
	}
}

// A wrong name is answered with the right one, and the user is not asked about arguments that the schema excludes.
func TestCallFoundWrongly(t *testing.T) {
	p, s := searching(t, handshake, func(o *proxy.Options) { o.Models = modelled(t, writesAll("shop/*")) })
	c := connect(t, p, handshake)
	c.reply(func(string, []byte) []byte { return []byte(`{"action":"accept","content":{}}`) })
	for arguments, want := range map[string]string{
		`{"name":"secret_gett"}`:                  `unknown tool "secret_gett"; use find_tools to search for tools`, // the only near one is hidden
		`{"name":"typedd"}`:                       `unknown tool "typedd"; did you mean "typed"?`,
		`{"name":"find_tools"}`:                   `"find_tools" is a tool of the list: call it by itself`,
		`{"name":"typed","arguments":{"text":7}}`: `not called: text: want string, have number (input schema of typed)`,
	} {
		if text := c.broken("call_tool", arguments); text != want {
			t.Errorf("%s: got %s, want %s", arguments, text, want)
		}
	}
	if got := s.called(); got != "" {
		t.Errorf("called %s", got)
	}
	for _, line := range c.transcript() {
		if strings.Contains(line, "elicitation/create") {
			t.Errorf("the user was asked: %s", line)
		}
	}
}

// A tool that only its server's annotations call read-only does not count as read-only, even
// if the server is trusted.
func TestCallFoundHints(t *testing.T) {
	tool := func(name, hints string) string {
		return fmt.Sprintf(`{"name":%q,"description":"Do %s.","inputSchema":{"type":"object"},"annotations":%s}`, name, name, hints)
	}
	s := &shop{}
	_, up := remote(t, mcptest.Options{Name: "shop", Answer: s.answer, Tools: []string{
		tool("get", `{"readOnlyHint":true}`), tool("purge", `{"destructiveHint":true}`), tool("write", `{"readOnlyHint":false,"destructiveHint":false}`), tool("other", `{}`),
	}})
	o := stored(t, nil, up)
	o.Upstreams[0].Model.Trust = true
	o.Selection.Tools = "search"
	o.NameStyle = "always"
	o.Plans = planSettings(proxy.Plans{Enabled: true})
	c := connect(t, start(t, o), handshake)
	c.reply(func(string, []byte) []byte { return []byte(`{"action":"decline"}`) })
	effects := make(map[string]string)
	for _, name := range []string{"shop__get", "shop__purge", "shop__write", "shop__other"} {
		found := c.found(`{"query":"` + name + `","limit":1}`).Tools[0]
		effects[found.Name] = found.Effect
		if found.CallWith != "call_tool" {
			t.Errorf("%s: called with %s, want call_tool", name, found.CallWith)
		}
		if text := c.broken("call_read_tool", `{"name":"`+name+`"}`); !strings.Contains(text, `"`+name+`"`) || !strings.HasSuffix(text, "read-only; use call_tool") {
			t.Errorf("%s: got %q, want it refused", name, text)
		}
		if text := c.broken("execute_tool_plan", `{"steps":[{"id":"a","tool":"`+name+`"}]}`); !strings.Contains(text, "the user declined it") {
			t.Errorf("%s in a plan: got %q, want it refused", name, text)
		}
	}
	if text := brokenText(t, c.ableTo(`{}`, "call_tool", `{"name":"shop__get"}`)); !strings.Contains(text, `side_effect_class = "read_only" in [tools."shop/get"]`) {
		t.Errorf("got %q, want it refused with the line that allows it", text)
	}
	for name, want := range map[string]string{
		"shop__get": "its server says that it only reads", "shop__purge": "may write", "shop__write": "may write",
		"shop__other": "may write",
	} {
		if effects[name] != want {
			t.Errorf("%s: got %q, want %q", name, effects[name], want)
		}
	}
	if s.called() != "" {
		t.Errorf("called %s", s.called())
	}
}

// The call made is the call confirmed or classified: a repeated member is refused.
func TestCallFoundOddMembers(t *testing.T) {
	for _, params := range []string{
		`{"name":"call_read_tool","arguments":{"name":"get","name":"put"}}`,
		`{"name":"call_read_tool","arguments":{"name":"get","Name":"put"}}`,
		`{"name":"call_read_tool","arguments":{"name":"get","n\u0061me":"put"}}`,
		`{"name":"call_read_tool","arguments":{"name":"get"},"arguments":{"name":"put"}}`,
		`{"name":"call_read_tool","arguments":{"name":"get"},"Arguments":{"name":"put"}}`,
		`{"name":"call_tool","arguments":{"name":"put","arguments":{"x":1},"arguments":{"rm":1}}}`,
		`{"name":"call_tool","arguments":{"name":"put","arguments":{"x":1},"ARGUMENTS":{"rm":1}}}`,
		`{"name":"put","arguments":{"x":1},"arguments":{"rm":1}}`,
		`{"name":"call_tool","arguments":{"arguments":{"x":1}}}`,
		`{"name":"call_tool","arguments":{"name":7}}`,
		`{"name":"call_tool","arguments":{"name":"put","arguments":[1]}}`,
		`{"name":"call_tool","arguments":{"name":"put","arguments":"rm"}}`,
		`{"name":"call_tool","arguments":{"name":"put","path":"/etc"}}`,
		`{"name":"call_tool","arguments":{"name":"call_tool","arguments":{"name":"put"}}}`,
		`{"name":"call_tool","arguments":{"name":"find_tools","arguments":{"query":"x"}}}`,
		`{"name":"call_tool","arguments":{"name":"nothing"}}`,
		`{"name":"call_tool","arguments":{"name":"secret_get"}}`,
		`{"name":"call_tool","arguments":{"name":""}}`,
		`{"name":"call_tool"}`, `{"name":"call_tool","arguments":null}`, `{"name":"call_tool","arguments":"put"}`, `{"name":"call_tool","arguments":[]}`,
	} {
		p, s := searching(t, handshake, nil)
		c := connect(t, p, handshake)
		c.reply(func(string, []byte) []byte {
			t.Errorf("%s: the user was asked", params)
			return []byte(`{"action":"accept","content":{}}`)
		})
		m := c.start("tools/call", params).wait()
		if text := brokenText(t, m); text == "" || s.called() != "" {
			t.Errorf("%s: got %q, called %s", params, text, s.called())
		}
	}
}

// A plan that is refused for want of a user does not name calls by themselves, which would be too.
func TestPlanOfFoundToolsRefused(t *testing.T) {
	eachEra(t, func(t *testing.T, client, server string) {
		p, _ := searching(t, server, func(o *proxy.Options) { o.Plans = planSettings(proxy.Plans{Enabled: true, Mutations: "confirm"}) })
		text := brokenText(t, connect(t, p, client).ableTo(`{}`, "execute_tool_plan", `{"steps":[{"id":"w","tool":"put"}]}`))
		if strings.Contains(text, "by themselves") || !strings.Contains(text, "The operator can set") {
			t.Errorf("got %q", text)
		}
	})
}

// With search_reach = "read_only", only certain reads can be called, by any way.
func TestCallFoundReadOnly(t *testing.T) {
	eachEra(t, func(t *testing.T, client, server string) {
		p, s := searching(t, server, func(o *proxy.Options) {
			o.Selection.OnlyRead, o.Plans = true, planSettings(proxy.Plans{Enabled: true, Mutations: "allow"})
		})
		c := connect(t, p, client)
		if got, want := c.tools(), "find_tools call_read_tool execute_tool_plan mcpschedd_read_result"; got != want {
			t.Errorf("listed: got %s, want %s", got, want)
		}
		if got := c.found(`{"query":"put ask secret typed","limit":10}`); strings.Contains(got.names(), "put") {
			t.Errorf("found %s, want no write", got.names())
		}
		for tool, arguments := range map[string]string{
			"call_read_tool": `{"name":"put"}`, "put": `{"x":1}`, "execute_tool_plan": `{"steps":[{"id":"r","tool":"get"},{"id":"w","tool":"put","depends_on":["r"]}]}`,
		} {
			if text := c.broken(tool, arguments); !strings.Contains(text, "search_reach") {
				t.Errorf("%s: got %q, want it refused", tool, text)
			}
		}
		if s.called() != "" {
			t.Errorf("called %s, want nothing", s.called())
		}
		for _, tool := range []string{"call_tool", "made_up"} {
			if text := c.broken(tool, `{"name":"put"}`); !strings.Contains(text, "unknown tool") {
				t.Errorf("%s: got %q, want an unknown tool", tool, text)
			}
		}
		c.plan(`{"steps":[{"id":"r","tool":"get"}]}`)
		c.call("call_read_tool", `{"name":"get"}`)
		if strings.Contains(s.called(), "put") || !strings.Contains(s.called(), "get") {
			t.Errorf("called %s, want only reads", s.called())
		}
	})
}

// The best tool is returned with its schema, the others on a line each with their parameters.
func TestFoundIsShort(t *testing.T) {
	all := []string{`{"name":"get_a_thing","description":"Get a thing.","inputSchema":{"type":"object","properties":{"x":{"description":"xxx"}}}}`}
	for i := range 11 {
		all = append(all, fmt.Sprintf(`{"name":"get_%d","description":%q,"inputSchema":{"type":"object","description":%q,"required":["path","of"],"properties":{
			"path":{"type":"string"},"limit":{"type":"integer"},"of":{"enum":["a,b",2]},"tags":{"type":"array","items":{"type":"string"}},"odd":true,"any":{"type":["string","null"]}}}}`,
			i, strings.Repeat("Get a thing. ", 500), strings.Repeat("x", 10_000)))
	}
	all = append(all, fmt.Sprintf(`{"name":"huge","description":"Huge.","inputSchema":{"type":"object","properties":{"path":{"type":"string","description":%q}}}}`,
		strings.Repeat("x", 40_000)))
	_, up := remote(t, mcptest.Options{Name: "shop", Tools: all})
	o := stored(t, nil, up)
	o.Selection.Tools = "search"
	c := connect(t, start(t, o), handshake)
	got := c.found(`{"query":"get_a_thing","limit":10}`)
	if len(got.Tools) != 10 || got.Tools[0].Name != "get_a_thing" || len(got.Tools[0].InputSchema) == 0 || got.Tools[0].Parameters != "" {
		t.Fatalf("got %+v, want ten, the first one complete", got)
	}
	for _, tool := range got.Tools[1:] {
		if want := "path: string, limit?: integer, of: 'a,b'|2, tags?: array, odd?: any, any?: any"; tool.Parameters != want || len(tool.InputSchema) > 0 {
			t.Errorf("%s: got %q and schema %s, want %q and none", tool.Name, tool.Parameters, tool.InputSchema, want)
		}
		if len(tool.Description) > 150 || !strings.HasPrefix(tool.Description, "Get a thing.") {
			t.Errorf("%s: got %q", tool.Name, tool.Description)
		}
	}
	if whole := c.found(`{"query":"get_7","limit":1}`).Tools[0]; whole.Name != "get_7" || len(whole.InputSchema) < 10_000 || len(whole.Description) > 1100 {
		t.Errorf("got %+v, want its complete schema and a short description", whole)
	}
	if huge := c.found(`{"query":"huge","limit":1}`).Tools[0]; huge.Name != "huge" || len(huge.InputSchema) > 0 || huge.Parameters != "path?: string" {
		t.Errorf("got a schema of %d bytes and the parameters %q, want only the parameters", len(huge.InputSchema), huge.Parameters)
	}
}
