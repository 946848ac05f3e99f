package proxy_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
)

// withBench returns a bench and options of a proxy in front of it.
func withBench(t *testing.T) (*bench, proxy.Options) {
	b, up := newBench(t, "bench")
	return b, proxy.Options{Upstreams: []catalog.Upstream{up}, Fixed: proxy.Fixed{StartupWait: patience}}
}

func TestClientsOfMcpGo(t *testing.T) {
	_, o := withBench(t)
	f := serveTCP(t, o)
	streamable := func(path string) (*client.Client, error) { return client.NewStreamableHttpClient(f.URL + path) }
	tests := []struct {
		name, version, path string
		client              func(path string) (*client.Client, error)
	}{
		{"stateless", stateless, "/mcp", streamable},
		{"handshake", handshake, "/mcp", streamable},
		{"one upstream", handshake, "/mcp/bench", streamable},
		{"SSE", "2024-11-05", "/sse", func(path string) (*client.Client, error) { return client.NewSSEMCPClient(f.URL + path) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			c, err := test.client(test.path)
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
				call.Params.Name = "echo"
				call.Params.Arguments = map[string]any{"text": strings.Repeat("x", size)}
				result, err := c.CallTool(ctx, call)
				if err != nil {
					t.Fatal(err)
				}
				if got, ok := result.Content[0].(mcp.TextContent); !ok || got.Text != strings.Repeat("x", size) {
					t.Errorf("%d bytes came back as %T of another text", size, result.Content[0])
				}
			}
		})
	}
}

func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("the event did not occur")
		panic("unreachable")
	}
}

// A client of one upstream sees and reaches no other.
func TestOneUpstreamAlone(t *testing.T) {
	_, a := remote(t, mcptest.Options{Name: "a"})
	_, b := remote(t, mcptest.Options{Name: "b"})
	f := serveTCP(t, options(a, b))
	id := f.open("/mcp/a", handshake)
	for request, want := range map[string]string{
		`"tools/list"`:                              `"name":"echo"`,
		`"prompts/list"`:                            `"name":"ask"`,
		`"resources/list"`:                          `"uri":"a://a"`,
		`"resources/templates/list"`:                `"uriTemplate":"a://t/{id}"`,
		`"resources/read","params":{"uri":"b://b"}`: `"error"`,
		`"tools/call","params":{"name":"b__echo","arguments":{}}`: `"text":"a"`, // which has that name for all it knows
	} {
		_, answer := f.Post("/mcp/a", `{"jsonrpc":"2.0","id":1,"method":`+request+`}`, "Mcp-Session-Id", id)
		if strings.Count(answer, want) != 1 || strings.Contains(answer, `"uri":"b://a"`) || strings.Contains(answer, `"b://t/`) {
			t.Errorf("%s: got %s, want %s once, and nothing of the other", request, answer, want)
		}
	}
}

// heldUntil blocks until let is closed or the client has disconnected.
func heldUntil(ctx context.Context, let <-chan struct{}) {
	select {
	case <-let:
	case <-ctx.Done():
	}
}

func TestParamHeaders(t *testing.T) {
	_, o := withBench(t)
	f := serveTCP(t, o)
	f.Answer(f.Modern("1", "tools/list", "", "")) // the proxy now has the tool's schema
	for header, want := range map[string]int{"north": 200, "": 400, "south": 400} {
		r := f.Modern("1", "tools/call", "region", `"name":"region","arguments":{"region":"north"}`)
		if header != "" {
			r.Header.Set("Mcp-Param-Region", header)
		}
		if status, answer := f.Answer(r); status != want || status == 400 && mcptest.Code(t, answer) != -32020 {
			t.Errorf("%q: got %d %s, want %d", header, status, answer, want)
		}
	}
}

const (
	handshake = "2025-11-25"
	stateless = "2026-07-28"
)

// httpClient is a server over HTTP with a client that writes its requests by hand.
type httpClient struct{ mcptest.WebClient }

// patience is how long a test over real sockets waits for an expected event.
const patience = 20 * time.Second

// serveTCP serves o on loopback.
func serveTCP(t *testing.T, o proxy.Options) *httpClient {
	t.Helper()
	s := proxy.New(o, nil)
	web := httptest.NewServer(s.HTTP())
	t.Cleanup(web.Close)
	t.Cleanup(s.Close)
	return &httpClient{mcptest.WebClient{T: t, URL: web.URL, Client: web.Client()}}
}

// open opens a session, lists its tools, and returns its id.
func (f *httpClient) open(path, version string) string {
	f.T.Helper()
	r := f.Do(f.Request(http.MethodPost, path, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
	body := mcptest.Text(f.T, r)
	if r.StatusCode != http.StatusOK || !strings.Contains(body, `"protocolVersion":"`+version+`"`) {
		f.T.Fatalf("initialize: got %d %s", r.StatusCode, body)
	}
	id := r.Header.Get("Mcp-Session-Id")
	f.Post(path, `{"jsonrpc":"2.0","id":"tools","method":"tools/list"}`, "Mcp-Session-Id", id)
	return id
}

// bench is a server made with mcp-go, with tools for tests.
type bench struct {
	gate    chan struct{} // "wait" returns once for each element sent
	started chan struct{} // "wait" has begun
	ended   chan error    // how "wait" ended: nil, or its context's error
}

// newBench starts the server over HTTP and returns it as an upstream.
func newBench(t *testing.T, name string) (*bench, catalog.Upstream) {
	t.Helper()
	b := &bench{gate: make(chan struct{}), started: make(chan struct{}, 16), ended: make(chan error, 16)}
	s := server.NewMCPServer(name, "1", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("echo", mcp.WithString("text")), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(r.GetString("text", "")), nil
	})
	s.AddTool(mcp.NewTool("wait"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		b.started <- struct{}{}
		select {
		case <-b.gate:
			b.ended <- nil
			return mcp.NewToolResultText("waited"), nil
		case <-ctx.Done():
			b.ended <- ctx.Err()
			return nil, ctx.Err()
		}
	})
	s.AddTool(mcp.Tool{Name: "region", RawInputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)}, func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("here"), nil
	})
	web := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t.Cleanup(web.Close)
	return b, catalog.Upstream{Fingerprint: name, Spec: upstream.Spec{Name: name, URL: web.URL + "/mcp", Shared: true, StartTimeout: patience, MaxMessage: 64 << 20}}
}
