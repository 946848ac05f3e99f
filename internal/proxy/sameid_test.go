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

	"mcpschedd/internal/catalog"
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

// nested is a response writer that lets the client continue during the write.
type nested struct {
	http.ResponseWriter
	wrote func() // called once, when the answer has been written
}

func (n *nested) Write(b []byte) (int, error) {
	if f := n.wrote; f != nil && bytes.Contains(b, []byte(`"id":`+sameID)) {
		n.wrote = nil
		f()
	}
	return n.ResponseWriter.Write(b)
}

func (n *nested) Flush() {}

// Over HTTP a client may read the answer, and use its id again, before the handler of the request
// has returned.
func TestIDUsedAgainOverHTTP(t *testing.T) {
	_, up := remote(t, mcptest.Options{Name: "one"})
	o := stored(t, []valuemodel.Rule{reading("one/echo", 0), reading("one/pid", time.Hour)}, up, catalog.Upstream{Fingerprint: "away", Spec: upstream.Spec{Name: "away", StartTimeout: patience, Unusable: io.ErrUnexpectedEOF}})
	o.Plans = planSettings(proxy.Plans{Enabled: true})
	s := start(t, o)
	handler := s.HTTP()
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
