package proxy

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// ServeStdio serves one client on a pair of streams until in ends, then lets
// open calls finish for DrainTimeout, or until ctx ends. only limits the view
// to one upstream under its own names; "" shows all.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer, only string) error {
	return front.ServeStdio(ctx, in, out, only, s.front())
}

// ServeListener serves HTTP on ln until ctx ends; then every session ends, open
// requests and streams get their last answer, and ln is closed.
func (s *Server) ServeListener(ctx context.Context, ln net.Listener) error {
	return front.NewHTTP(s.front()).Serve(ctx, ln)
}

// Handler serves MCP over HTTP, see [front.HTTP]. Its sessions end when they have
// been idle, or with the server.
func (s *Server) Handler() http.Handler { return front.NewHTTP(s.front()) }

// Mount serves something beside MCP, at a pattern of [http.ServeMux]. Like everything
// it needs the token, unless the handler asks for that itself; Host and Origin are
// checked in any case. It is to be called before the server serves.
func (s *Server) Mount(pattern string, h http.Handler, asks bool) {
	s.figures.pages = append(s.figures.pages, front.Page{Pattern: pattern, Handler: h, Asks: asks})
}

// front configures the client's side of the wire.
func (s *Server) front() front.Options {
	p := s.policy.Load()
	return front.Options{
		NewSession: func(c front.Client) front.Session { return s.newSession(c) }, Has: s.Has, Pages: s.figures.pages,
		MaxMessage: p.MaxMessage, DrainTimeout: p.DrainTimeout, Log: s.log, Clock: p.Dedup.Clock, HTTP: p.HTTP,
	}
}

// Refuse answers a message that cannot be accepted. Where it was, or
// may have been, the answer to a question of a server's, that fails, and the client gets no answer.
func (s *session) Refuse(m *front.Message, why *jsonrpc.Error, out front.Outlet) {
	if m.Method == "" && (m.Result != nil || m.Error != nil || s.questions.awaits(m.ID)) {
		s.srv.log.Warn("client answer not understood", "err", why.Message)
		s.questions.answered(jsonrpc.Message{ID: m.ID, Error: why.Append(nil)})
		return
	}
	recordRefusal(s, m)
	x := &request{s: s, msg: m, to: out}
	x.fail(why)
}

// checkHeader holds the Mcp-Param-* of a call's HTTP request against the arguments, for
// a tool whose schema asks for such headers. One that is not known yet asks for none.
func checkHeader(m *front.Message, l *leased, tool string) *jsonrpc.Error {
	if m.Header == nil {
		return nil
	}
	item, ok := l.find(upstream.Tools, tool)
	if !ok || !bytes.Contains(item.Raw, []byte(`"x-mcp-header"`)) {
		return nil
	}
	schema := &mcp.Tool{RawInputSchema: jsonrpc.Get(item.Raw, "inputSchema")}
	lookup := func(name string) (string, bool) {
		values := m.Header.Values(name)
		if len(values) != 1 {
			return "", false
		}
		return values[0], true
	}
	if err := mcp.ValidateParamHeadersLookup(lookup, schema, m.Params); err != nil {
		return front.Mismatch(err.Error())
	}
	return nil
}
