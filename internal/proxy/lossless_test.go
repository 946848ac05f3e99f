package proxy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/revision"
)

// corpus holds the messages that must pass unchanged.
type corpus struct {
	calls []string            // names of results and errors: "result/x"
	raw   map[string]string   // name → raw value
	items map[string][]string // "tools", "resources", "templates", "prompts" → raw items
}

func readCorpus(t *testing.T) corpus {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/lossless.txtar")
	if err != nil {
		t.Fatal(err)
	}
	c := corpus{raw: make(map[string]string), items: make(map[string][]string)}
	for _, f := range archive.Files {
		raw := strings.TrimSuffix(string(f.Data), "\n")
		if !jsonrpc.Valid([]byte(raw)) {
			t.Fatalf("%s: not JSON", f.Name)
		}
		kind, _, _ := strings.Cut(f.Name, "/")
		if kind == "result" || kind == "error" || kind == "params" {
			c.calls = append(c.calls, f.Name)
			c.raw[f.Name] = raw
		} else {
			c.items[kind] = append(c.items[kind], raw)
		}
	}
	return c
}

// server returns a server that offers, and answers with, the corpus.
func (c corpus) server(name, era string) mcptest.Options {
	o := mcptest.Options{
		Name: name, Era: era, Results: make(map[string]string), Page: 2,
		Resources: c.items["resources"], Templates: c.items["templates"], Prompts: c.items["prompts"],
		Tools: append([]string{`{"name":"echo","inputSchema":{"type":"object"}}`}, c.items["tools"]...),
	}
	for _, call := range c.calls {
		switch kind, _, _ := strings.Cut(call, "/"); kind {
		case "result":
			o.Results[call] = c.raw[call]
		case "error":
			o.Results[call] = "error " + c.raw[call]
		}
	}
	return o
}

// hopless returns a result or params without the members that apply to one hop.
func hopless(raw []byte) string {
	raw = jsonrpc.Delete(raw, func(name []byte) bool {
		return string(name) == "resultType" || string(name) == "ttlMs" || string(name) == "cacheScope"
	})
	meta := jsonrpc.Get(raw, "_meta")
	kept := jsonrpc.Delete(meta, func(name []byte) bool {
		switch rest, _ := strings.CutPrefix(string(name), "io.modelcontextprotocol/"); rest {
		case "protocolVersion", "clientInfo", "clientCapabilities", "logLevel", "serverInfo":
			return true
		}
		return false
	})
	switch {
	case meta == nil:
	case string(kept) == "{}":
		raw = jsonrpc.Delete(raw, func(name []byte) bool { return string(name) == "_meta" })
	default:
		raw = jsonrpc.Set(raw, "_meta", kept)
	}
	return string(raw)
}

func TestNothingIsLost(t *testing.T) {
	c := readCorpus(t)
	for _, clientEra := range []string{handshake, stateless} {
		for _, era := range []string{"handshake", "stateless", "both"} {
			for _, transport := range []string{"stdio", "http"} {
				t.Run(fmt.Sprintf("client %s server %s %s", clientEra, era, transport), func(t *testing.T) {
					var up catalog.Upstream
					if transport == "stdio" {
						up = child(t, c.server("lossless", era))
					} else {
						_, up = remote(t, c.server("lossless", era))
					}
					client := connect(t, start(t, options(up)), clientEra)
					c.compareLists(t, client)
					// Bytes may differ only if client and server are of different eras.
					exact := clientEra == handshake && era != "stateless"
					c.compareCalls(t, client, exact)
				})
			}
		}
	}
}

func (c corpus) compareLists(t *testing.T, client *caller) {
	t.Helper()
	for kind, method := range map[string]string{"tools": "tools/list", "resources": "resources/list", "templates": "resources/templates/list", "prompts": "prompts/list"} {
		member, want := kind, c.items[kind]
		if kind == "templates" {
			member = "resourceTemplates"
		}
		if kind == "tools" {
			want = append([]string{`{"name":"echo","inputSchema":{"type":"object"}}`}, want...)
			for i, tool := range want {
				if client.era == handshake {
					want[i] = string(revision.Tool([]byte(tool)))
				}
			}
		}
		var got []string
		for item := range jsonrpc.Elements(jsonrpc.Get([]byte(client.request(method, "")), member)) {
			if !strings.Contains(string(item), `"mcpschedd://`) { // the proxy's own
				got = append(got, string(item))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", method, diff)
		}
	}
}

// What the reference clients cannot read in an item is repaired, as they would reject the whole list.
func TestUnreadableItems(t *testing.T) {
	up := child(t, mcptest.Options{
		Name: "odd", Capabilities: `{"tools":{},"prompts":{},"resources":{},"experimental":null}`,
		Tools: []string{
			`{"name":"bare"}`, `{"name":"any","inputSchema":true}`, `{"name":"empty","inputSchema":{},"title":null,"_meta":null}`,
			`{"name":"nulls","annotations":{"title":null,"readOnlyHint":true},"inputSchema":{"type":"object","properties":null,"required":null}}`,
			`{"name":"booleans","inputSchema":{"type":"object","properties":{"a":true,"b":false,"c":{"default":true},"d":null}},"outputSchema":{"type":"object","properties":{"a":true}}}`,
			`{"name":"php","annotations":[],"inputSchema":{"type":"object","properties":[],"required":[]},"outputSchema":[]}`, // empty maps
			`{"name":"kept", "inputSchema":{"type":"object","properties":{"a":{"default":null}}}}`,
		},
		Prompts:   []string{`{"name":"p","description":null,"arguments":null}`, `{"name":"q","arguments":[{"name":"a", "required":true},{"name":"b","description":null,"required":null}]}`},
		Resources: []string{`{"uri":"odd://a"}`, `{"uri":"odd://b","name":null}`, `{"name":"","uri":"odd://c"}`},
		Templates: []string{`{"uriTemplate":"odd://{x}"}`},
	})
	client := connect(t, start(t, options(up)), handshake)
	const schema = `"inputSchema":{"type":"object"}`
	want := `{"tools":[{"name":"bare",` + schema + `},{"name":"any",` + schema + `},{"name":"empty",` + schema + `},` +
		`{"name":"nulls","annotations":{"readOnlyHint":true},` + schema + `},` +
		`{"name":"booleans","inputSchema":{"type":"object","properties":{"a":{},"b":{"not":{}},"c":{"default":true},"d":{}}},"outputSchema":{"type":"object","properties":{"a":{}}}},` +
		`{"name":"php","annotations":{},"inputSchema":{"type":"object","properties":{},"required":[]}},` +
		`{"name":"kept", "inputSchema":{"type":"object","properties":{"a":{"default":null}}}}]}`
	if diff := cmp.Diff(want, client.request("tools/list", "")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := client.request("prompts/list", ""); got != `{"prompts":[{"name":"p"},{"name":"q","arguments":[{"name":"a", "required":true},{"name":"b"}]}]}` {
		t.Errorf("got %s", got)
	}
	if got, want := client.request("resources/list", ""), `{"uri":"odd://a","name":"odd://a"},{"uri":"odd://b","name":"odd://b"},{"name":"","uri":"odd://c"}`; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s in it", got, want)
	}
	if got, want := client.request("resources/templates/list", ""), `{"uriTemplate":"odd://{x}","name":"odd://{x}"}`; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s in it", got, want)
	}
	if got := client.request("initialize", `{"protocolVersion":"`+handshake+`","capabilities":{}}`); strings.Contains(got, "null") {
		t.Errorf("got %s", got)
	}
}

func (c corpus) compareCalls(t *testing.T, client *caller, exact bool) {
	t.Helper()
	for _, name := range c.calls {
		raw := c.raw[name]
		kind, _, _ := strings.Cut(name, "/")
		switch kind {
		case "params":
			got := jsonrpc.Get([]byte(client.request("tools/call", raw)), "structuredContent")
			c.compareParams(t, name, raw, got, exact)
		case "error":
			m := client.start("tools/call", toolCall(name, "")).wait()
			if got := string(m.Error); got != raw {
				t.Errorf("%s: got %s, want %s", name, m.Raw, raw)
			}
		default:
			got := client.call(name, "")
			want := raw
			if !exact {
				want = string(revision.Result([]byte(raw), "tools/call", true, client.era != handshake))
				got, want = compact(hopless([]byte(got))), compact(hopless([]byte(want)))
			}
			if got != want {
				t.Errorf("%s:\n got %.2000s\nwant %.2000s", name, got, want)
			}
		}
	}
}

// compareParams allows _meta to be at another place if the hops differ.
func (c corpus) compareParams(t *testing.T, name, sent string, got []byte, exact bool) {
	t.Helper()
	if exact {
		if string(got) != sent {
			t.Errorf("%s:\n got %s\nwant %s", name, got, sent)
		}
		return
	}
	isMeta := func(name []byte) bool { return string(name) == "_meta" }
	if bytes.Contains(got, []byte(`"lossless"`)) {
		t.Errorf("%s: the server's answer holds itself: %s", name, got)
	}
	for _, part := range []func(string) string{
		func(raw string) string { return compact(string(jsonrpc.Delete([]byte(raw), isMeta))) },
		func(raw string) string { return string(jsonrpc.Get([]byte(raw), "_meta")) },
	} {
		if g, w := part(hopless(got)), part(hopless([]byte(sent))); g != w {
			t.Errorf("%s:\n got %s\nwant %s", name, g, w)
		}
	}
}

// compact removes the white space between tokens.
func compact(raw string) string {
	var out bytes.Buffer
	if raw == "" || json.Compact(&out, []byte(raw)) != nil {
		return raw
	}
	return out.String()
}

// A server's questions and the client's replies also pass unchanged.
func TestNothingIsLostInQuestions(t *testing.T) {
	questions := []string{
		`{"method":"elicitation/create","params":{"message":"<m>","requestedSchema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer","maximum":9007199254740993}},"required":["z"]},"x":[1.0]}}`,
		`{"method":"sampling/createMessage","params":{"temperature":0,"messages":[{"role":"user","content":{"type":"hologram","z":1,"a":2}}],"maxTokens":9007199254740993,"metadata":{"b":1,"a":2}}}`,
		`{"method":"roots/list","params":{}}`,
	}
	const answer = `{"z":9007199254740993,"action":"accept","content":{"z":-0,"a":"<&>"},"_meta":{"v/x":1E400}}`
	for _, era := range []string{"handshake", "stateless"} {
		t.Run("handshake client, server "+era, func(t *testing.T) {
			client := connect(t, start(t, options(child(t, mcptest.Options{Name: "asks", Era: era}))), handshake)
			asked := make(chan string, 8)
			client.reply(func(method string, params []byte) []byte {
				asked <- fmt.Sprintf(`{"method":%q,"params":%s}`, method, params)
				return []byte(answer)
			})
			for _, q := range questions {
				if got, want := client.said("ask", `{"asks":[`+q+`]}`), "["+answer+"]"; got != want {
					t.Errorf("the server got %s, want %s", got, want)
				}
				if got := await(t, asked); got != q {
					t.Errorf("the client got %s, want %s", got, q)
				}
			}
		})
	}
	t.Run("stateless client, server handshake", func(t *testing.T) {
		client := connect(t, start(t, options(child(t, mcptest.Options{Name: "asks"}))), stateless)
		for _, q := range questions {
			first := []byte(client.call("ask", `{"asks":[`+q+`]}`))
			requests := jsonrpc.Get(first, "inputRequests")
			for m := range jsonrpc.Members(requests) {
				if string(m.Value) != q {
					t.Errorf("the client got %s, want %s", m.Value, q)
				}
				again := fmt.Sprintf(`{"name":"ask","arguments":{"asks":[%s]},"requestState":%s,"inputResponses":{%q:%s}}`, q, jsonrpc.Get(first, "requestState"), m.Name, answer)
				if got, want := string(jsonrpc.Get([]byte(client.request("tools/call", again)), "structuredContent")), "["+answer+"]"; got != want {
					t.Errorf("the server got %s, want %s", got, want)
				}
			}
			if requests == nil {
				t.Errorf("got %s, want a result that asks", first)
			}
		}
	})
}
