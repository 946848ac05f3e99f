package mcptest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// stateless is the revision of stateless requests.
const stateless = "2026-07-28"

// Pipes is a listener of unbuffered connections: a peer that does not read blocks the writer, so
// that time advances in a synctest bubble.
type Pipes struct {
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), ended: make(chan struct{})} }

func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *Pipes) Close() error   { p.once.Do(func() { close(p.ended) }); return nil }
func (p *Pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// Dial connects to the listener, whatever the address.
func (p *Pipes) Dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

// WebClient is a client over HTTP that writes its requests by hand.
type WebClient struct {
	T      *testing.T
	URL    string
	Client *http.Client
}

// Request makes a request with the headers of MCP clients.
func (c *WebClient) Request(method, path, body string, header ...string) *http.Request {
	c.T.Helper()
	r, err := http.NewRequestWithContext(c.T.Context(), method, c.URL+path, strings.NewReader(body))
	if err != nil {
		c.T.Fatal(err)
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

// Modern makes a stateless request with its headers. params are written without braces.
func (c *WebClient) Modern(id, method, name, params string) *http.Request {
	c.T.Helper()
	header := []string{"Mcp-Protocol-Version", stateless, "Mcp-Method", method}
	if name != "" {
		header = append(header, "Mcp-Name", name)
	}
	return c.Request(http.MethodPost, "/mcp", ModernBody(id, method, params, "{}"), header...)
}

// ModernBody returns a stateless request of a client with the given capabilities.
func ModernBody(id, method, params, capabilities string) string {
	if params != "" {
		params += ","
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":%s}}}`, id, method, params, stateless, capabilities)
}

func (c *WebClient) Do(r *http.Request) *http.Response {
	c.T.Helper()
	answer, err := c.Client.Do(r)
	if err != nil {
		c.T.Fatal(err)
	}
	return answer
}

// Post sends one message and returns the whole response.
func (c *WebClient) Post(path, body string, header ...string) (status int, answer string) {
	c.T.Helper()
	return c.Answer(c.Request(http.MethodPost, path, body, header...))
}

func (c *WebClient) Answer(r *http.Request) (status int, answer string) {
	c.T.Helper()
	w := c.Do(r)
	return w.StatusCode, Text(c.T, w)
}

// Text reads the body of a response.
func Text(t *testing.T, r *http.Response) string {
	t.Helper()
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// EventReader reads the data of one event after another.
func EventReader(r io.Reader) (next func() (string, error)) {
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

// Code returns the code of an error response, or 0.
func Code(t *testing.T, answer string) int {
	t.Helper()
	var m struct{ Error struct{ Code int } }
	if err := json.Unmarshal([]byte(answer), &m); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	return m.Error.Code
}
