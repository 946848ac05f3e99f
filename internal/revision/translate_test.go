package revision_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

func TestParams(t *testing.T) {
	hop := &revision.Client{Version: revision.Latest, Info: json.RawMessage(`{"name":"c"}`), Capabilities: json.RawMessage(`{"roots":{}}`)}
	for _, c := range []struct {
		name, in string
		change   revision.Change
		want     string
	}{
		{"nothing to change", `{"name":"a", "arguments":{"n": 9007199254740993}}`, revision.Change{Method: "tools/call"}, `{"name":"a", "arguments":{"n": 9007199254740993}}`},
		{"no params", ``, revision.Change{}, ``},
		{"renamed", `{"name":"x__a","arguments":{"b":1},"z":2}`, revision.Change{Method: "prompts/get", Target: []byte(`"a"`)}, `{"name":"a","arguments":{"b":1},"z":2}`},
		{"arguments absent", `{"name":"a"}`, revision.Change{Method: "tools/call"}, `{"name":"a","arguments":{}}`},
		{"arguments null", `{"arguments":null,"name":"a"}`, revision.Change{Method: "tools/call"}, `{"name":"a","arguments":{}}`},
		{"token replaced", `{"_meta":{"progressToken":0,"traceparent":"t"}}`, revision.Change{Token: []byte("17")}, `{"_meta":{"traceparent":"t","progressToken":17}}`},
		{"token unwanted", `{"name":"a","_meta":{"progressToken":0}}`, revision.Change{}, `{"name":"a"}`},
		{"hop cut, extension kept", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/related-task":{"taskId":"1"}}}`, revision.Change{}, `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"}}}`},
		{"hop added", `{"name":"a"}`, revision.Change{Client: hop}, `{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}}`},
		{"hop to no params", ``, revision.Change{Client: &revision.Client{Version: revision.Latest, LogLevel: "info"}}, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info"}}`},
		{"second _meta dropped", `{"name":"a","_meta":{},"_meta":{"progressToken":5}}`, revision.Change{}, `{"name":"a"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var in []byte
			if c.in != "" {
				in = []byte(c.in)
			}
			if diff := cmp.Diff(c.want, string(revision.Translate(in, c.change))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestResult(t *testing.T) {
	for _, c := range []struct {
		name, method, in string
		from, to         bool // whether client and server are stateless
		want             string
	}{
		{"handshake to handshake", "tools/call", `{ "content" : [] }`, false, false, `{ "content" : [] }`},
		{"handshake to stateless", "tools/call", `{"content":[]}`, false, true, `{"resultType":"complete","content":[]}`},
		{"an empty one", "tools/call", ` { } `, false, true, `{"resultType":"complete"}`},
		{"cacheable", "resources/read", `{"contents":[]}`, false, true, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[]}`},
		{"hints kept", "resources/read", `{"ttlMs":5,"cacheScope":"public","contents":[]}`, true, true, `{"resultType":"complete","ttlMs":5,"cacheScope":"public","contents":[]}`},
		{"a request for input is not cacheable", "resources/read", `{"resultType":"input_required"}`, true, true, `{"resultType":"input_required"}`},
		{"server of the last hop cut", "tools/call", `{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"},"v":1},"content":[]}`, true, true, `{"resultType":"complete","_meta":{"v":1},"content":[]}`},
		{"server written with an escape", "tools/call", `{"resultType":"complete","_meta":{"io.modelcontextprotocol\/serverInfo":{"name":"s"},"v":1}}`, true, true, `{"resultType":"complete","_meta":{"v":1}}`},
		{"another key of the last hop cut", "tools/call", `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":1}}`, true, true, `{"resultType":"complete"}`},
		{"other keys kept as written", "tools/call", `{"resultType":"complete","_meta":{ "v" : "io.modelcontextprotocol/serverInfo" }}`, true, true, `{"resultType":"complete","_meta":{ "v" : "io.modelcontextprotocol/serverInfo" }}`},
		{"stateless to handshake", "tools/call", `{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}},"content":[]}`, true, false, `{"content":[]}`},
		{"structured content that is no object", "tools/call", `{"resultType":"complete","structuredContent":[1]}`, true, false, `{"structuredContent":{"result":[1]}}`},
		{"structured content that is an object", "tools/call", `{"resultType":"complete","structuredContent":{"a":1}}`, true, false, `{"structuredContent":{"a":1}}`},
		{"structured content for a stateless client", "tools/call", `{"resultType":"complete","structuredContent":[1]}`, true, true, `{"resultType":"complete","structuredContent":[1]}`},
		{"no object", "tools/call", `5`, false, true, `5`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, string(revision.Result([]byte(c.in), c.method, c.from, c.to))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestTool(t *testing.T) {
	for in, want := range map[string]string{
		`{"name":"a"}`: `{"name":"a"}`,
		`{"name":"a","outputSchema":{"type":"object"}}`:           `{"name":"a","outputSchema":{"type":"object"}}`,
		`{"name":"a","outputSchema":{"type":"array"},"_meta":{}}`: `{"name":"a","_meta":{}}`,
		`{"outputSchema":{"anyOf":[]},"name":"a"}`:                `{"name":"a"}`,
	} {
		if got := string(revision.Tool([]byte(in))); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestError(t *testing.T) {
	object := []byte(`{"code":-32002,"message":"not found","data":{"uri":"u"}}`)
	if got := revision.Error(object, "resources/read", false); !bytes.Equal(got, object) {
		t.Errorf("to the handshake era: got %s, want it unchanged", got)
	}
	if got := revision.Error(object, "tools/call", true); !bytes.Equal(got, object) {
		t.Errorf("of another method: got %s, want it unchanged", got)
	}
	if got, want := string(revision.Error(object, "resources/read", true)), `{"code":-32602,"message":"not found","data":{"uri":"u"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNegotiate(t *testing.T) {
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-11-25", "1999-01-01": "2025-11-25", "": "2025-11-25",
	} {
		if got := revision.Negotiate(asked); got != want {
			t.Errorf("asked for %q: got %q, want %q", asked, got, want)
		}
	}
}

// FuzzParams checks that Translate copies members that the Change does not name byte for byte, and
// that its result is valid.
func FuzzParams(f *testing.F) {
	for _, seed := range []string{`{}`, `{"name":"a","arguments":{"x":[1,2,{"_meta":1}]},"_meta":{"progressToken":"p","k":1e400}}`, `{"_meta":null,"n\u0061me":"b"}`, `{"a":1,"a":2}`} {
		f.Add(seed, "t", true, true)
	}
	f.Fuzz(func(t *testing.T, params, target string, token, hop bool) {
		if !strings.HasPrefix(params, "{") || !jsonrpc.Valid([]byte(params)) {
			return
		}
		change := revision.Change{Method: "prompts/get", Target: jsonrpc.AppendString(nil, target)}
		if token {
			change.Token = []byte("7")
		}
		if hop {
			change.Client = &revision.Client{Version: revision.Latest}
		}
		out := revision.Translate([]byte(params), change)
		if !json.Valid(out) {
			t.Fatalf("got %s from %s", out, params)
		}
		kept := func(object []byte) (all []string) {
			for m := range jsonrpc.Members(object) {
				if name := string(m.Name); name != "name" && name != "_meta" {
					all = append(all, string(m.Raw))
				}
			}
			return all
		}
		if diff := cmp.Diff(kept([]byte(params)), kept(out)); diff != "" {
			t.Errorf("-in +out\n%s", diff)
		}
		next := revision.NewParams(out)
		if token && string(next.Token()) != "7" {
			t.Errorf("got token %s in %s", next.Token(), out)
		}
		if stateless := next.Client() != nil; stateless != hop {
			t.Errorf("got keys of the hop: %v, want %v, in %s", stateless, hop, out)
		}
	})
}

// null declares no capability: some clients write it for a member that they do not set.
func TestAccepts(t *testing.T) {
	for capabilities, want := range map[string]bool{`{"sampling":{}}`: true, `{"sampling":null}`: false, `{}`: false, ``: false} {
		c := revision.Client{Capabilities: []byte(capabilities)}
		if got := c.Accepts("sampling/createMessage"); got != want {
			t.Errorf("%s: got %v, want %v", capabilities, got, want)
		}
	}
}

// An input_required result has the questions that it was built from. The repeated call has the
// answers and the state.
func TestInput(t *testing.T) {
	questions := []revision.InputRequest{{"q1", "elicitation/create", []byte(`{"message":"?"}`)}, {"q2", "roots/list", nil}}
	result := revision.InputResult(questions, "handle")
	if string(jsonrpc.Get(result, "resultType")) != `"input_required"` {
		t.Errorf("%s is not an input_required result", result)
	}
	if diff := cmp.Diff(questions, revision.InputRequests(result)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got, want := string(revision.WithInput([]byte(`{"name":"a"}`), result, []byte(`{"q1":{}}`))), `{"name":"a","inputResponses":{"q1":{}},"requestState":"handle"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := string(revision.WithInput(nil, []byte(`{"resultType":"input_required"}`), nil)), `{}`; got != want {
		t.Errorf("without questions: got %s, want %s", got, want)
	}
}
