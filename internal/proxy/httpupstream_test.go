package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"mcpschedd/internal/front"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
)

// withBench returns a bench and options of a proxy in front of it.
func withBench(t *testing.T) (*bench, proxy.Options) {
	b, up := newBench(t, "bench")
	return b, proxy.Options{Upstreams: []proxy.Upstream{up}, StartupWait: patience}
}

func TestClientsOfMcpGo(t *testing.T) {
	_, o := withBench(t)
	f := serveTCP(t, o)
	tests := []struct {
		name, version string
		client        func() (*client.Client, error)
		tool          string
	}{
		{"stateless", stateless, func() (*client.Client, error) { return client.NewStreamableHttpClient(f.url + "/mcp") }, "echo"},
		{"handshake", handshake, func() (*client.Client, error) {
			return client.NewStreamableHttpClient(f.url + "/mcp")
		}, "echo"},
		{"one upstream", handshake, func() (*client.Client, error) { return client.NewStreamableHttpClient(f.url + "/mcp/bench") }, "echo"},
		{"SSE", "2024-11-05", func() (*client.Client, error) { return client.NewSSEMCPClient(f.url + "/sse") }, "echo"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			c, err := test.client()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.Start(ctx); err != nil {
				t.Fatal(err)
			}
			begin := mcp.InitializeRequest{}
			begin.Params.ProtocolVersion = test.version
			begin.Params.ClientInfo = mcp.Implementation{Name: "t", Version: "1"}
			if _, err := c.Initialize(ctx, begin); err != nil {
				t.Fatal(err)
			}
			tools, err := c.ListTools(ctx, mcp.ListToolsRequest{})
			if err != nil || len(tools.Tools) != 3 {
				t.Fatalf("got %v (%v), want 3 tools", tools, err)
			}
			for _, size := range []int{1 << 10, 1 << 18} {
				call := mcp.CallToolRequest{}
				call.Params.Name = test.tool
				call.Params.Arguments = map[string]any{"text": large(size)}
				result, err := c.CallTool(ctx, call)
				if err != nil {
					t.Fatal(err)
				}
				if got, ok := result.Content[0].(mcp.TextContent); !ok || got.Text != large(size) {
					t.Errorf("%d bytes came back as %T of another text", size, result.Content[0])
				}
			}
		})
	}
}

// progress calls "steps" and returns the events of the answer.
func (f *httpClient) progress(id string, header ...string) []string {
	f.t.Helper()
	body, head := modern(id, "tools/call", "steps", `"name":"steps"`)
	if header != nil {
		body = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"steps","_meta":{"progressToken":"token-%s"}}}`, id, id)
		head = header
	}
	r := f.do(f.request(http.MethodPost, "/mcp", body, head...))
	defer r.Body.Close()
	if got := r.Header.Get("Content-Type"); got != "text/event-stream" {
		f.t.Errorf("got %s, want a stream", got)
	}
	var events []string
	next := eventReader(r.Body)
	for {
		e, err := next()
		if err != nil {
			return events
		}
		events = append(events, e)
	}
}

func TestProgressPrecedesTheAnswerOnItsOwnStream(t *testing.T) {
	f := serveTCP(t, proxy.Options{Upstreams: []proxy.Upstream{newSteps(t)}, StartupWait: patience})
	check := func(id, token string, events []string) {
		if len(events) != 4 || !strings.Contains(events[3], `"id":`+id+`,"result":`) {
			t.Errorf("%s: got %q, want three steps and the answer", id, events)
			return
		}
		for i, e := range events[:3] {
			if !strings.Contains(e, fmt.Sprintf(`"progress":%d`, i+1)) || !strings.Contains(e, `"progressToken":`+token) {
				t.Errorf("%s: got %s, want step %d under %s", id, e, i+1, token)
			}
		}
	}
	check("1", "1", f.progress("1"))
	// two sessions, and stateless clients with the same ids, concurrently
	sessions := []string{f.open("/mcp", handshake), f.open("/mcp", handshake)}
	var all sync.WaitGroup
	for i, id := range sessions {
		all.Go(func() {
			for n := range 10 {
				id, request := id, fmt.Sprint(i*100+n)
				check(request, `"token-`+request+`"`, f.progress(request, "Mcp-Session-Id", id))
			}
		})
		all.Go(func() {
			for range 10 {
				check("7", "7", f.progress("7"))
			}
		})
	}
	all.Wait()
}

func TestStatelessIdsMayClash(t *testing.T) {
	b, o := withBench(t)
	f := serveTCP(t, o)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if status, answer := f.modern("/mcp", "1", "tools/call", "wait", `"name":"wait"`); status != 200 || !strings.Contains(answer, "waited") {
				t.Errorf("got %d %s", status, answer)
			}
		})
	}
	for range 3 {
		await(t, b.started)
	}
	if status, answer := f.post("/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "Mcp-Protocol-Version", stateless); status != 202 {
		t.Errorf("got %d %s", status, answer)
	}
	for range 3 {
		b.gate <- struct{}{}
	}
	all.Wait()
}

func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("it did not happen")
		panic("unreachable")
	}
}

// heldUntil makes a server hold an answer back until it is released or its client has disconnected.
func heldUntil(ctx context.Context, let <-chan struct{}) {
	select {
	case <-let:
	case <-ctx.Done():
	}
}

func TestHangingUp(t *testing.T) {
	for _, era := range []string{stateless, handshake} {
		t.Run(era, func(t *testing.T) {
			b, o := withBench(t)
			f := serveTCP(t, o)
			body, header := modern("1", "tools/call", "wait", `"name":"wait"`)
			if era == handshake {
				header = []string{"Mcp-Session-Id", f.open("/mcp", handshake)}
				body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`
			}
			ctx, hangUp := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				r, err := f.client.Do(f.request(http.MethodPost, "/mcp", body, header...).WithContext(ctx))
				if err == nil {
					r.Body.Close()
				}
				ended <- err
			}()
			await(t, b.started)
			hangUp()
			if err := await(t, ended); err == nil {
				t.Error("the call was answered")
			}
			if era == stateless {
				if err := await(t, b.ended); err == nil {
					t.Error("the upstream was not told")
				}
				return
			}
			b.gate <- struct{}{}
			if err := await(t, b.ended); err != nil {
				t.Errorf("got %v, want the call to go on", err)
			}
		})
	}
}

func TestCancelledRequestEndsItsResponse(t *testing.T) {
	b, o := withBench(t)
	f := serveTCP(t, o)
	id := f.open("/mcp", handshake)
	answered := make(chan *http.Response, 1)
	go func() {
		answered <- f.do(f.request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`, "Mcp-Session-Id", id))
	}()
	await(t, b.started)
	if status, answer := f.post("/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "Mcp-Session-Id", id); status != 202 {
		t.Errorf("got %d %s", status, answer)
	}
	r := await(t, answered)
	if body := text(t, r); r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/event-stream" || body != "" {
		t.Errorf("got %d %v %q, want an empty stream", r.StatusCode, r.Header, body)
	}
}

func TestParamHeaders(t *testing.T) {
	_, o := withBench(t)
	f := serveTCP(t, o)
	f.modern("/mcp", "1", "tools/list", "", "") // the schema is known from here on
	tests := []struct {
		name   string
		header []string
		want   int
	}{
		{"right", []string{"Mcp-Param-Region", "north"}, 200},
		{"missing", nil, 400},
		{"another", []string{"Mcp-Param-Region", "south"}, 400},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body, header := modern("1", "tools/call", "region", `"name":"region","arguments":{"region":"north"}`)
			status, answer := f.post("/mcp", body, append(header, test.header...)...)
			if status != test.want || status == 400 && code(t, answer) != -32020 {
				t.Errorf("got %d %s, want %d", status, answer, test.want)
			}
		})
	}
}

func TestNothingOfTheRequestTravelsButItsBody(t *testing.T) {
	s := server.NewStreamableHTTPServer(server.NewMCPServer("seen", "1", server.WithToolCapabilities(true)))
	var mu sync.Mutex
	seen := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen++
		mu.Unlock()
		for _, name := range []string{"Authorization", "Cookie", "Origin", "X-Own"} {
			if got := r.Header.Get(name); got != "" {
				t.Errorf("%s travelled: %s", name, got)
			}
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	f := serveTCP(t, proxy.Options{
		HTTP:        front.HTTPOptions{Token: "s3cret"},
		Upstreams:   []proxy.Upstream{{Fingerprint: "seen", Spec: upstream.Spec{Name: "seen", URL: web.URL, Shared: true, StartTimeout: patience, MaxMessage: 1 << 20}}},
		StartupWait: patience,
	})
	body, header := modern("1", "tools/call", "x", `"name":"x"`)
	status, answer := f.post("/mcp", body, append(header, "Authorization", "Bearer s3cret", "Cookie", "a=b", "X-Own", "c", "Origin", "http://localhost")...)
	if status != 200 {
		t.Errorf("got %d %s", status, answer)
	}
	mu.Lock()
	defer mu.Unlock()
	if seen == 0 {
		t.Error("the upstream was not asked")
	}
}
