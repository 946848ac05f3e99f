package front_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/front"
	"mcpschedd/internal/mcptest"
)

func TestPostRefused(t *testing.T) {
	c := serveTCP(t, front.Options{MaxMessage: 1 << 10})
	session, early := c.open(), c.openAs("2025-03-26")
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	tests := []struct {
		name   string
		path   string // "" means /mcp
		body   string
		header []string
		want   int
		code   int
	}{
		{name: "type", body: ping, header: []string{"Content-Type", "text/plain"}, want: 415, code: -32600},
		{name: "compressed", body: ping, header: []string{"Mcp-Session-Id", session, "Content-Encoding", "gzip"}, want: 415, code: -32600},
		{name: "too large", body: `"` + strings.Repeat("x", 1<<10) + `"`, want: 413, code: -32600},
		{name: "empty", body: "", header: []string{"Content-Type", "application/json"}, want: 400, code: -32700},
		{name: "not JSON", body: `{"jsonrpc":"2.0","id":1,`, want: 400, code: -32700},
		{name: "raw line end in a string", body: "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\nng\"}", want: 400, code: -32700},
		{name: "no message", body: `{"id":1}`, want: 400, code: -32600},
		{name: "no session", body: ping, want: 400, code: -32600},
		{name: "unknown session", body: ping, header: []string{"Mcp-Session-Id", "x"}, want: 404, code: -32600},
		{name: "unknown upstream", path: "/mcp/none", body: ping, want: 404, code: -32600},
		{name: "unknown version", body: ping, header: []string{"Mcp-Session-Id", session, "Mcp-Protocol-Version", "1999-01-01"}, want: 400, code: -32022},
		{name: "batch of another revision", body: "[" + ping + "]", header: []string{"Mcp-Session-Id", session}, want: 400, code: -32600},
		{name: "batch of an unknown version", body: "[" + ping + "]", header: []string{"Mcp-Session-Id", early, "Mcp-Protocol-Version", "1999-01-01"}, want: 400, code: -32022},
		{name: "session over SSE is not one over POST", path: "/message?sessionId=" + session, body: ping, want: 404, code: -32600},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := test.path
			if path == "" {
				path = "/mcp"
			}
			status, answer := c.Post(path, test.body, test.header...)
			if status != test.want || mcptest.Code(t, answer) != test.code {
				t.Errorf("got %d %s, want %d with code %d", status, answer, test.want, test.code)
			}
		})
	}
}

func TestBatch(t *testing.T) {
	c := serveTCP(t, front.Options{})
	id := c.openAs("2025-03-26")
	r := c.Do(c.Request(http.MethodPost, "/mcp", `[{"jsonrpc":"2.0","id":1,"method":"ping"},
		{"jsonrpc":"2.0","method":"notifications/initialized"}, {"id":9}, {"jsonrpc":"2.0","id":2,"method":"tools/list"}]`, "Mcp-Session-Id", id))
	body := mcptest.Text(t, r)
	for _, want := range []string{`{"jsonrpc":"2.0","id":1,"result":{}}`, `"id":9,"error":`, `{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`} {
		if !strings.Contains(body, want) {
			t.Errorf("got %s, want %s in it", body, want)
		}
	}
	if status, _ := c.Post("/mcp", `[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, "Mcp-Session-Id", id); status != 202 {
		t.Errorf("notifications only: got %d, want 202", status)
	}
}

// slow is a response whose first bytes reach its client only after release is closed.
type slow struct {
	*httptest.ResponseRecorder
	release chan struct{}
}

func (s *slow) Flush() { <-s.release }

// No answer is lost, however large the messages are that are sent before the response has begun.
func TestLargeMessagesBeforeTheStreamBegins(t *testing.T) {
	request := func(id int, method string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"fill":%q}}`, id, method, strings.Repeat("x", 2<<20))
	}
	for _, test := range []struct {
		name, body string
		answers    int
	}{
		{"answers of a batch", "[" + request(1, "echo") + "," + request(2, "echo") + "]", 2},
		{"notification, then an answer", request(1, "say"), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				web := front.NewHTTP(front.Options{NewSession: newServer().begin})
				session := ""
				post := func(w http.ResponseWriter, body string) {
					r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
					r.Header.Set("Content-Type", "application/json")
					if session != "" {
						r.Header.Set("Mcp-Session-Id", session)
					}
					web.ServeHTTP(w, r)
				}
				began := httptest.NewRecorder()
				post(began, initialize("2025-03-26"))
				session = began.Header().Get("Mcp-Session-Id")
				w := &slow{httptest.NewRecorder(), make(chan struct{})}
				served := make(chan struct{})
				go func() {
					post(w, test.body)
					close(served)
				}()
				synctest.Wait() // all answers are queued
				close(w.release)
				<-served
				got := w.Body.String()
				if n := strings.Count(got, `,"result":`); n != test.answers {
					t.Errorf("got %d answers in %d bytes, want %d", n, len(got), test.answers)
				}
			})
		})
	}
}

// Nothing follows the answer to a request.
func TestNothingFollowsAnAnswer(t *testing.T) {
	c := serveTCP(t, front.Options{})
	id := c.open()
	for _, params := range []string{"", `,"params":{}`} { // as a JSON body, and on a stream
		if _, answer := c.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"again"`+params+`}`, "Mcp-Session-Id", id); strings.Count(answer, `"result"`) != 1 || !strings.Contains(answer, `"first":true`) {
			t.Errorf("got %s", answer)
		}
	}
	n := c.session(id)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.heard) > 0 {
		t.Errorf("got %q", n.heard)
	}
}

func TestBodyWithoutLengthIsBounded(t *testing.T) {
	c := serveTCP(t, front.Options{MaxMessage: 1 << 10})
	for size, want := range map[int]int{1 << 10: 400, 1<<10 + 1: 413, 1 << 20: 413} {
		r := c.Request(http.MethodPost, "/mcp", strings.Repeat("x", size))
		r.ContentLength = -1
		answer := c.Do(r)
		if mcptest.Text(t, answer); answer.StatusCode != want {
			t.Errorf("%d bytes: got %d, want %d", size, answer.StatusCode, want)
		}
	}
}

func TestSession(t *testing.T) {
	c := serveTCP(t, front.Options{})
	id := c.open()
	other := c.open()
	if id == other || len(id) < 22 {
		t.Errorf("ids %q and %q: want two different ones of 128 bits", id, other)
	}
	step := func(name string, r *http.Request, want int, body string) {
		t.Helper()
		answer := c.Do(r)
		if got := mcptest.Text(t, answer); answer.StatusCode != want || !strings.Contains(got, body) {
			t.Errorf("%s: got %d %s, want %d %s", name, answer.StatusCode, got, want, body)
		}
	}
	in := []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", handshake}
	post := func(body string) *http.Request { return c.Request(http.MethodPost, "/mcp", body, in...) }
	step("notification", post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), 202, "")
	step("ping", post(`{"jsonrpc":"2.0","id":"a","method":"ping"}`), 200, `{"jsonrpc":"2.0","id":"a","result":{}}`)
	step("message over several lines", post("{\"jsonrpc\":\"2.0\",\r\n\"id\":1,\n\"method\":\"ping\"}"), 200, `"result":{}`)
	step("response to nothing", post(`{"jsonrpc":"2.0","id":7,"result":{}}`), 202, "")
	step("unknown method", post(`{"jsonrpc":"2.0","id":2,"method":"no/such"}`), 200, `"code":-32601`)
	step("of another endpoint's view", c.Request(http.MethodPost, "/mcp/none", "{}", in...), 404, "")
	step("GET without session", c.Request(http.MethodGet, "/mcp", ""), 405, "")
	step("GET of an unknown session", c.Request(http.MethodGet, "/mcp", "", "Mcp-Session-Id", "x"), 404, "")
	step("DELETE without session", c.Request(http.MethodDelete, "/mcp", ""), 405, "")
	step("DELETE", c.Request(http.MethodDelete, "/mcp", "", in...), 204, "")
	step("DELETE again", c.Request(http.MethodDelete, "/mcp", "", in...), 404, "")
	step("after the end", post(`{"jsonrpc":"2.0","id":3,"method":"ping"}`), 404, "")
	step("the other lives", c.Request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":4,"method":"ping"}`, "Mcp-Session-Id", other), 200, "{}")
}

func TestStatelessChecks(t *testing.T) {
	c := serveTCP(t, front.Options{})
	const version = `"io.modelcontextprotocol/protocolVersion":"` + stateless + `"`
	const able = `"io.modelcontextprotocol/clientCapabilities":{}`
	call := func(meta, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + params + `"_meta":{` + meta + `}}}`
	}
	headers := func(version, method, name string) []string {
		return []string{"Mcp-Protocol-Version", version, "Mcp-Method", method, "Mcp-Name", name}
	}
	named := func(name string) string { return call(version+","+able, fmt.Sprintf(`"name":%q,`, name)) }
	tests := []struct {
		name   string
		body   string
		header []string
		want   int
		code   int
	}{
		{"no version header", named("a"), []string{"Mcp-Method", "tools/call", "Mcp-Name", "a"}, 400, -32020},
		{"another version", named("a"), headers(handshake, "tools/call", "a"), 400, -32020},
		{"no method header", named("a"), []string{"Mcp-Protocol-Version", stateless, "Mcp-Name", "a"}, 400, -32020},
		{"another method", named("a"), headers(stateless, "tools/list", "a"), 400, -32020},
		{"no name header", named("a"), []string{"Mcp-Protocol-Version", stateless, "Mcp-Method", "tools/call"}, 400, -32020},
		{"another name", named("a"), headers(stateless, "tools/call", "b"), 400, -32020},
		{"bad encoding of the name", named("a"), headers(stateless, "tools/call", "=?base64?*?="), 400, -32020},
		{"encoded name", named("ö"), headers(stateless, "tools/call", "=?base64?w7Y=?="), 200, -32602},
		{"no such tool", named("a"), headers(stateless, "tools/call", "a"), 200, -32602},
		{"tool that lacks a method", named("unimplemented"), headers(stateless, "tools/call", "unimplemented"), 200, -32601},
		{"no version in the body", call(able, ""), headers(stateless, "tools/call", "a"), 400, -32602},
		{"no capabilities", call(version, `"name":"a",`), headers(stateless, "tools/call", "a"), 400, -32602},
		{"unsupported version", call(`"io.modelcontextprotocol/protocolVersion":"2999-01-01",`+able, ""), headers("2999-01-01", "tools/call", "a"), 400, -32022},
		{"response", `{"jsonrpc":"2.0","id":1,"result":{}}`, headers(stateless, "", ""), 400, -32600},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			status, answer := c.Post("/mcp", test.body, test.header...)
			if status != test.want || mcptest.Code(t, answer) != test.code || strings.Count(strings.ToLower(answer), "header mismatch") > 1 {
				t.Errorf("got %d %s, want %d with code %d", status, answer, test.want, test.code)
			}
		})
	}
	for _, method := range []string{"no/such", "initialize", "ping", "logging/setLevel"} {
		if status, answer := c.Answer(c.Modern("1", method, "", "")); status != 404 || mcptest.Code(t, answer) != -32601 {
			t.Errorf("%s: got %d %s, want 404 with -32601", method, status, answer)
		}
	}
	if status, answer := c.Answer(c.Modern("1", "tools/list", "", "")); status != 200 || !strings.Contains(answer, `"tools"`) {
		t.Errorf("list: got %d %s", status, answer)
	}
	if status, answer := c.Post("/mcp", `{"jsonrpc":"2.0","method":"notifications/x"}`, "Mcp-Protocol-Version", stateless); status != 202 || answer != "" {
		t.Errorf("notification: got %d %q, want 202", status, answer)
	}
}
