package front_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/revision"
)

const (
	handshake = "2025-11-25"
	stateless = "2026-07-28"
)

// server creates test sessions and keeps them.
type server struct {
	mu       sync.Mutex
	sessions []*session
	open     atomic.Int64  // sessions that have not ended
	asked    atomic.Int64  // times that a session was asked if it has pending work
	waiting  chan struct{} // receives one value for each waiting request
	ends     chan struct{} // closed when sessions may end; nil if they end at once
}

func newServer() *server { return &server{waiting: make(chan struct{}, 10000)} }

func (s *server) begin(c front.Client) front.Session {
	ctx, cancel := context.WithCancelCause(context.Background())
	n := &session{of: s, client: c, ctx: ctx, cancel: cancel, gate: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = append(s.sessions, n)
	s.open.Add(1)
	return n
}

// session is a minimal session: it answers ping, lists no tools, and on request returns the params,
// waits, or sends the params in a message before its answer.
type session struct {
	of      *server
	client  front.Client
	ctx     context.Context
	cancel  context.CancelCauseFunc
	gate    chan struct{} // closed to release waiting requests
	serving sync.WaitGroup
	busy    atomic.Int64 // requests being served

	mu      sync.Mutex
	ended   bool
	pending bool
	heard   []string     // methods of notifications and ids of responses received, ids of repeated requests, and what went wrong
	last    front.Outlet // of the last request that waits
}

func (n *session) Accept(ctx context.Context, m *front.Message, out front.Outlet) func() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !m.IsRequest() {
		n.heard = append(n.heard, m.Method+string(m.ID))
		return nil
	}
	if n.ended {
		out.Answer(jsonrpc.AppendError(nil, m.ID, (&jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "ended"}).Append(nil)))
		return nil
	}
	if m.Replayed {
		n.heard = append(n.heard, "repeated "+string(m.ID))
	}
	if m.Method == "wait" {
		n.last = out
	}
	n.serving.Add(1)
	n.busy.Add(1)
	return func() {
		defer n.serving.Done()
		defer n.busy.Add(-1)
		n.serve(ctx, m, out)
	}
}

func (n *session) serve(ctx context.Context, m *front.Message, out front.Outlet) {
	result := "{}"
	switch m.Method {
	case "initialize":
		asked, _ := jsonrpc.String(m.Index.Get("protocolVersion"))
		result = fmt.Sprintf(`{"protocolVersion":%q}`, revision.Negotiate(asked))
	case "ping":
	case "tools/list":
		result = `{"tools":[]}`
	case "wait":
		n.of.waiting <- struct{}{}
		select {
		case <-n.gate:
		case <-ctx.Done():
			return // cancelled
		case <-n.ctx.Done():
		}
	case "echo":
		result = string(m.Params)
	case "again": // nothing may follow the answer
		if m.Params != nil {
			out.Send(jsonrpc.AppendNotification(nil, "said", m.Params))
		}
		out.Answer(jsonrpc.AppendResult(nil, m.ID, []byte(`{"first":true}`)))
		if out.Answer(jsonrpc.AppendResult(nil, m.ID, []byte(result))) == nil || out.Send(jsonrpc.AppendNotification(nil, "late", nil)) == nil {
			n.mu.Lock()
			n.heard = append(n.heard, "took a message behind an answer")
			n.mu.Unlock()
		}
		return
	case "say":
		out.Send(jsonrpc.AppendNotification(nil, "said", m.Params))
	case "tools/call":
		code := jsonrpc.CodeInvalidParams
		if name, _ := jsonrpc.String(m.Index.Get("name")); name == "unimplemented" {
			code = jsonrpc.CodeMethodNotFound
		}
		n.fail(m, code, out)
		return
	default:
		n.fail(m, jsonrpc.CodeMethodNotFound, out)
		return
	}
	out.Answer(jsonrpc.AppendResult(nil, m.ID, []byte(result)))
}

func (n *session) fail(m *front.Message, code int, out front.Outlet) {
	out.Answer(jsonrpc.AppendError(nil, m.ID, (&jsonrpc.Error{Code: code, Message: "refused"}).Append(nil)))
}

func (n *session) Refuse(m *front.Message, why *jsonrpc.Error, out front.Outlet) {
	out.Answer(jsonrpc.AppendError(nil, m.ID, why.Append(nil)))
}

func (n *session) Pending() bool {
	n.of.asked.Add(1)
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pending
}

func (n *session) pend(pending bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pending = pending
}

func (n *session) Drain(ctx context.Context, d time.Duration) error {
	served := make(chan struct{})
	go func() {
		n.serving.Wait()
		close(served)
	}()
	select {
	case <-served:
		return nil
	case <-time.After(d):
		return context.DeadlineExceeded
	}
}

func (n *session) End(why error) {
	n.mu.Lock()
	if !n.ended {
		n.of.open.Add(-1)
	}
	n.ended = true
	n.mu.Unlock()
	n.cancel(why)
	n.serving.Wait()
	if n.of.ends != nil {
		<-n.of.ends
	}
}

func (n *session) Context() context.Context { return n.ctx }

// caller is an HTTP transport and a client that writes raw requests.
type caller struct {
	mcptest.WebClient
	web    *front.HTTP
	server *server
}

// serveTCP serves on loopback.
func serveTCP(t *testing.T, o front.Options) *caller {
	t.Helper()
	s := newServer()
	o.NewSession = s.begin
	web := front.NewHTTP(o)
	listener := httptest.NewServer(web)
	t.Cleanup(listener.Close)
	return &caller{mcptest.WebClient{T: t, URL: listener.URL, Client: listener.Client()}, web, s}
}

// servePipes serves on pipes, for use in a bubble. stop ends the server as a signal would,
// and returns when it has ended.
func servePipes(t *testing.T, o front.Options) (c *caller, ln *mcptest.Pipes, stop func()) {
	t.Helper()
	s := newServer()
	o.NewSession = s.begin
	ln = mcptest.NewPipes()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	web := front.NewHTTP(o)
	go func() { served <- web.Serve(ctx, ln) }()
	transport := &http.Transport{DialContext: ln.Dial}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		transport.CloseIdleConnections()
		if n := s.open.Load(); n != 0 {
			t.Errorf("%d sessions are left, want none", n)
		}
	})
	return &caller{mcptest.WebClient{T: t, URL: "http://localhost", Client: &http.Client{Transport: transport}}, web, s}, ln, stop
}

// write writes the head of a request, or all of it, on a new connection.
func write(t *testing.T, p *mcptest.Pipes, format string, args ...any) net.Conn {
	t.Helper()
	conn, err := p.Dial(t.Context(), "", "")
	if err == nil {
		_, err = fmt.Fprintf(conn, format, args...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// get opens a session's stream.
func (c *caller) get(id string) *http.Response {
	c.T.Helper()
	return c.Do(c.Request(http.MethodGet, "/mcp", "", "Mcp-Session-Id", id))
}

// ping returns the HTTP status of a ping in a session.
func (c *caller) ping(id string) int {
	c.T.Helper()
	status, _ := c.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", id)
	return status
}

// open starts a session and returns its id.
func (c *caller) open() string { c.T.Helper(); return c.openAs(handshake) }

func (c *caller) openAs(version string) string {
	c.T.Helper()
	r := c.Do(c.Request(http.MethodPost, "/mcp", initialize(version)))
	if body := mcptest.Text(c.T, r); r.StatusCode != http.StatusOK {
		c.T.Fatalf("initialize: got %d %s", r.StatusCode, body)
	}
	return r.Header.Get("Mcp-Session-Id")
}

func initialize(version string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{}}}`, version)
}

// session returns the session with an id.
func (c *caller) session(id string) *session {
	c.T.Helper()
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	for _, n := range c.server.sessions {
		if n.client.ID == id {
			return n
		}
	}
	c.T.Fatalf("no session %q", id)
	return nil
}
