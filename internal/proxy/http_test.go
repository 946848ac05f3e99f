package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
)

const (
	handshake = "2025-11-25"
	stateless = "2026-07-28"
)

// httpClient is a server over HTTP with a client that writes its requests by hand.
type httpClient struct {
	t      *testing.T
	url    string
	client *http.Client
}

// patience is how long a test over real sockets waits for an expected event.
const patience = 20 * time.Second

// serveTCP serves o on loopback.
func serveTCP(t *testing.T, o proxy.Options) *httpClient {
	t.Helper()
	s := proxy.New(o, nil)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	t.Cleanup(s.Close)
	return &httpClient{t: t, url: web.URL, client: web.Client()}
}

// pipes is a listener whose connections have no buffer: a peer that does not read blocks the
// writer. In a synctest bubble, time passes then.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), ended: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.ended) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

// servePipes serves o on pipes, for use in a bubble. stop ends the server like a signal, and returns
// when it has ended.
func servePipes(t *testing.T, o proxy.Options) (f *httpClient, s *proxy.Server, stop func()) {
	t.Helper()
	s = proxy.New(o, nil)
	ln := newPipes()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.ServeListener(ctx, ln) }()
	transport := &http.Transport{DialContext: ln.dial}
	f = &httpClient{t: t, url: "http://localhost", client: &http.Client{Transport: transport}}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		s.Close()
		transport.CloseIdleConnections()
	})
	return f, s, stop
}

// request returns a request with the headers that every MCP client sends.
func (f *httpClient) request(method, path, body string, header ...string) *http.Request {
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func (f *httpClient) do(r *http.Request) *http.Response {
	f.t.Helper()
	answer, err := f.client.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	return answer
}

// post sends one message and returns the whole answer.
func (f *httpClient) post(path, body string, header ...string) (status int, answer string) {
	f.t.Helper()
	r := f.do(f.request(http.MethodPost, path, body, header...))
	return r.StatusCode, text(f.t, r)
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// open opens a session, lists its tools, and returns its id.
func (f *httpClient) open(path, version string) string {
	f.t.Helper()
	r := f.do(f.request(http.MethodPost, path, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
	body := text(f.t, r)
	if r.StatusCode != http.StatusOK || !strings.Contains(body, `"protocolVersion":"`+version+`"`) {
		f.t.Fatalf("initialize: got %d %s", r.StatusCode, body)
	}
	id := r.Header.Get("Mcp-Session-Id")
	f.post(path, `{"jsonrpc":"2.0","id":"tools","method":"tools/list"}`, "Mcp-Session-Id", id)
	return id
}

// modern returns a request of the stateless era with its headers. params is without braces.
func modern(id, method, name, params string) (body string, header []string) {
	if params != "" {
		params += ","
	}
	body = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{},"progressToken":%s}}}`, id, method, params, stateless, id)
	header = []string{"Mcp-Protocol-Version", stateless, "Mcp-Method", method}
	if name != "" {
		header = append(header, "Mcp-Name", name)
	}
	return body, header
}

func (f *httpClient) modern(path, id, method, name, params string) (status int, answer string) {
	f.t.Helper()
	body, header := modern(id, method, name, params)
	return f.post(path, body, header...)
}

// eventReader returns a function that reads the data of the next event.
func eventReader(r io.Reader) (next func() (string, error)) {
	lines := bufio.NewReader(r)
	return func() (string, error) {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return "", err
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				return strings.TrimSpace(data), nil
			}
		}
	}
}

// code returns the code of an error answer, or 0.
func code(t *testing.T, answer string) int {
	t.Helper()
	var m struct{ Error struct{ Code int } }
	if err := json.Unmarshal([]byte(answer), &m); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	return m.Error.Code
}

// bench is a server made with mcp-go, with tools for tests.
type bench struct {
	gate    chan struct{} // "wait" returns once for each element sent
	started chan struct{} // "wait" has begun
	ended   chan error    // how "wait" ended: nil, or its context's error
}

// newBench starts the server over HTTP and returns it as an upstream.
func newBench(t *testing.T, name string) (*bench, proxy.Upstream) {
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
	return b, proxy.Upstream{Fingerprint: name, Spec: upstream.Spec{Name: name, URL: web.URL + "/mcp", Shared: true, StartTimeout: patience, MaxMessage: 64 << 20}}
}

// newSteps starts a server with the tool "steps", which reports progress three times before its
// answer, and returns it as an upstream. It does not use mcp-go, which sometimes loses a notification.
func newSteps(t *testing.T) proxy.Upstream {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Errorf("upstream: %v", err)
		}
		answer := func(result string) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result) }
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "server/discover":
			io.WriteString(w, answer(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`))
		case "tools/list":
			io.WriteString(w, answer(`{"resultType":"complete","tools":[{"name":"steps","inputSchema":{"type":"object"}}]}`))
		case "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`+"\n\n", m.Params.Meta.ProgressToken, i+1)
			}
			fmt.Fprintf(w, "data: %s\n\n", answer(`{"resultType":"complete","content":[]}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		}
	}))
	t.Cleanup(web.Close)
	return proxy.Upstream{Fingerprint: "steps", Spec: upstream.Spec{Name: "steps", URL: web.URL, Shared: true, StartTimeout: patience, MaxMessage: 1 << 20}}
}

// large returns a text of n bytes.
func large(n int) string { return string(bytes.Repeat([]byte("x"), n)) }
