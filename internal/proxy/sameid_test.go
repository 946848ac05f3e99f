package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// sameID is the id of every request below.
const sameID = `"again"`

func again(method, params string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`+"\n", sameID, method, params)
}

// next reads the answer to the last request.
func (c *bare) next(t *testing.T) []byte {
	t.Helper()
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(line, []byte(`{"jsonrpc":"2.0","id":`+sameID)) {
			return line
		}
	}
}

// request sends a request and returns its answer. The answer may be an error, but not because of
// the id.
func (c *bare) request(t *testing.T, line []byte) []byte {
	t.Helper()
	if _, err := c.in.Write(line); err != nil {
		t.Fatal(err)
	}
	answer := c.next(t)
	if bytes.Contains(answer, []byte("is in use by a request")) {
		t.Fatalf("refused: %s", answer)
	}
	return answer
}

// A client that reuses one id for all its requests, one after the other, gets an answer to each:
// the id is free as soon as the answer can be read.
func TestIDUsedAgain(t *testing.T) {
	often := slice(200, 20000)
	away := proxy.Upstream{Fingerprint: "away", Spec: upstream.Spec{Name: "away", StartTimeout: patience, Unusable: io.ErrUnexpectedEOF}}
	far := func(t *testing.T) []proxy.Upstream {
		_, up := remote(t, mcptest.Options{Name: "one", Results: map[string]string{"big": complained("no")}})
		return []proxy.Upstream{up}
	}
	near := func(t *testing.T) []proxy.Upstream {
		return []proxy.Upstream{child(t, mcptest.Options{Name: "one", Results: map[string]string{"big": complained("no")}})}
	}
	for _, tt := range []struct {
		name    string
		ups     func(t *testing.T) []proxy.Upstream
		request []byte
		want    string // contained in each answer
		share   int    // slower requests: only one in share is made
	}{
		{"a call of a process", near, again("tools/call", toolCall("echo", `{}`)), `"structuredContent"`, 1},
		{"one that fails", near, again("tools/call", toolCall("big", `{}`)), `"isError":true`, 10},
		{"one over HTTP", far, again("tools/call", toolCall("echo", `{}`)), `"structuredContent"`, 10},
		{"one over HTTP that fails", far, again("tools/call", toolCall("status", `{"status":500}`)), `"isError":true`, 20},
		{"of a server that is away", func(*testing.T) []proxy.Upstream { return []proxy.Upstream{away} }, again("prompts/get", `{"name":"ask"}`), `"error"`, 20},
		{"of a tool that there is not", far, again("tools/call", toolCall("none", "{}")), ``, 10},
		{"of a tool of the proxy's own", far, again("tools/call", toolCall("execute_tool_plan", `{"steps":[{"id":"a","tool":"echo","arguments":{}}]}`)), `\"status\":\"ok\"`, 20},
		{"of a plan that is refused", far, again("tools/call", toolCall("execute_tool_plan", `{"steps":[]}`)), `"isError":true`, 10},
		{"served by the store", far, again("tools/call", toolCall("pid", `{}`)), `"structuredContent"`, 4},
		{"a resource", near, again("resources/read", `{"uri":"one://a"}`), `"contents"`, 20},
		{"a resource that there is not", far, again("resources/read", `{"uri":"two://a"}`), `"error"`, 20},
		{"a method that there is not", far, again("no/such", `{}`), `"error"`, 20},
		{"a list", far, again("tools/list", `{}`), `"tools"`, 20},
		{"a ping", far, again("ping", `{}`), `"result":{}`, 4},
		{"a level", far, again("logging/setLevel", `{"level":"error"}`), `"result":{}`, 20},
		{"a task list", far, again("tasks/list", `{}`), `"tasks"`, 20},
		{"in the other era", near, again("tools/call", withMeta(toolCall("echo", `{}`), "{}", "")), `"structuredContent"`, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := stored(t, []valuemodel.Rule{reading("one/echo", 0), reading("one/pid", time.Hour)}, tt.ups(t)...)
			o.Plans = proxy.Plans{Enabled: true}
			c := dialTo(t, o)
			for range often / tt.share {
				if answer := c.request(t, tt.request); !bytes.Contains(answer, []byte(tt.want)) {
					t.Fatalf("got %s, want %s in it", answer, tt.want)
				}
			}
		})
	}
	t.Run("a call that asks", func(t *testing.T) {
		t.Parallel()
		c := serveBare(t, options(near(t)...))
		first := withMeta(toolCall("ask", `{"asks":[{"method":"elicitation/create","params":{"message":"?"}}]}`), able, "")
		for range often / 20 {
			answer := c.request(t, again("tools/call", first))
			m, err := jsonrpc.Parse(bytes.TrimSpace(answer))
			if err != nil {
				t.Fatal(err)
			}
			more := retry(first, m.Result, tagged("me"))
			if more == nil {
				t.Fatalf("got %s, want that it asks", answer)
			}
			if answer := c.request(t, again("tools/call", string(more))); !bytes.Contains(answer, []byte(`"who":"me"`)) {
				t.Fatalf("got %s, want what was answered", answer)
			}
		}
	})
	t.Run("a call that is cancelled", func(t *testing.T) {
		t.Parallel()
		c := dialTo(t, options(near(t)...))
		cancel := []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + sameID + `}}` + "\n")
		for range often / 20 {
			if _, err := c.in.Write(append(again("tools/call", toolCall("hang", `{}`)), cancel...)); err != nil {
				t.Fatal(err)
			}
			c.request(t, again("tools/call", toolCall("echo", `{}`)))
		}
	})
}

// nested is a response that lets the client continue while it is written.
type nested struct {
	http.ResponseWriter
	wrote func() // called with the answer written; then nil
}

func (n *nested) Write(b []byte) (int, error) {
	if f := n.wrote; f != nil && bytes.Contains(b, []byte(`"id":`+sameID)) {
		n.wrote = nil
		f()
	}
	return n.ResponseWriter.Write(b)
}

func (n *nested) Flush() {}

// Over HTTP the client may read the answer, and reuse the id, before the request's handler
// continues.
func TestIDUsedAgainOverHTTP(t *testing.T) {
	_, up := remote(t, mcptest.Options{Name: "one"})
	o := stored(t, []valuemodel.Rule{reading("one/echo", 0), reading("one/pid", time.Hour)}, up, proxy.Upstream{Fingerprint: "away", Spec: upstream.Spec{Name: "away", StartTimeout: patience, Unusable: io.ErrUnexpectedEOF}})
	o.Plans = proxy.Plans{Enabled: true}
	s := start(t, o)
	handler := s.Handler()
	session := ""
	post := func(line []byte, wrote func()) string {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "http://127.0.0.1/mcp", bytes.NewReader(line))
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Content-Type", "application/json")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(&nested{w, wrote}, r)
		if session == "" {
			session = w.Header().Get("Mcp-Session-Id")
		}
		return w.Body.String()
	}
	post(again("initialize", `{"protocolVersion":"`+handshake+`","capabilities":`+able+`,"clientInfo":{"name":"tester","version":"1"}}`), nil)
	post(again("tools/list", "{}"), nil) // the servers are ready
	ping := again("ping", "{}")
	for name, line := range map[string][]byte{
		"a call":                        again("tools/call", toolCall("one__echo", `{}`)),
		"a call with progress":          again("tools/call", `{"name":"one__progress","arguments":{"n":1},"_meta":{"progressToken":1}}`),
		"a call that fails":             again("tools/call", toolCall("one__status", `{"status":500}`)),
		"of a server that is away":      again("prompts/get", `{"name":"away__ask"}`),
		"of a tool that there is not":   again("tools/call", toolCall("one__none", "{}")),
		"of a tool of the proxy's own":  again("tools/call", toolCall("execute_tool_plan", `{"steps":[{"id":"a","tool":"one__echo","arguments":{}}]}`)),
		"what the store will serve":     again("tools/call", toolCall("one__pid", `{}`)),
		"what the store serves":         again("tools/call", toolCall("one__pid", `{}`)),
		"a resource":                    again("resources/read", `{"uri":"one://a"}`),
		"a list":                        again("tools/list", `{}`),
		"a ping":                        ping,
		"a method that there is not":    again("no/such", `{}`),
		"what another server also does": again("tasks/list", `{}`),
	} {
		wrote := false
		answer := post(line, func() {
			wrote = true
			if inner := post(ping, nil); strings.Contains(inner, "in use") || !strings.Contains(inner, `"result":{}`) {
				t.Errorf("%s: the id is not free when the answer is written: %s", name, inner)
			}
		})
		if !wrote || strings.Contains(answer, "in use") {
			t.Errorf("%s: got %s", name, answer)
		}
	}
}
