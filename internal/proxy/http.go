package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
)

// HTTPOptions says who may reach the server over HTTP. Nothing of an HTTP
// request but its body travels to an upstream.
type HTTPOptions struct {
	Token          string        // every request but /healthz must bear it; "": none need
	Hosts          []string      // names in Host that are ours, besides those of loopback and the address itself; "0.0.0.0" or "::": every address is
	AllowedOrigins []string      // web origins as browsers write them, besides the server's own and, with a token, those of this machine
	SessionIdle    time.Duration // an unused session ends after it; 0: 30 minutes
	MaxSessions    int           // those that are still ending included; a quarter of it per principal; 0: 256
}

const (
	headerSession = mcp.HeaderSessionID
	headerVersion = mcp.HeaderProtocolVersion
)

// Answers to a connection before there is a session to answer.
var (
	notAcceptable = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "Accept: want both application/json and text/event-stream for POST, text/event-stream for GET"}
	noSession     = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "session unknown or ended; begin anew with initialize"}
	shuttingDown  = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: errShutdown.Error()}
	allBusy       = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "every session there may be is in use; end one, or raise max_sessions in [http]"}
	stillEnding   = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "too many sessions are still ending; try again soon"}
	manyStreams   = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "this session has too many open streams"}
	manyRequests  = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: fmt.Sprintf("too many requests are in flight; want at most %d in a session and %d in all", mostRequests, mostOfAll)}
	manyBytes     = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "too many bytes of requests are in memory; try again soon"}
)

// front is the side of a server that faces HTTP clients.
type front struct {
	HTTPOptions
	srv *Server

	mu       sync.Mutex
	closed   bool
	sessions map[string]*httpSession // id → session of the handshake era
	pools    map[string]*httpSession // view and capabilities → session of stateless requests
	ending   sync.WaitGroup          // sessions that made room for others

	requests   atomic.Int64 // in flight, of all sessions
	bodies     atomic.Int64 // bytes of bodies that are in memory
	mostBodies int64
}

func (s *Server) newFront() *front {
	f := &front{
		HTTPOptions: s.http, srv: s,
		sessions: make(map[string]*httpSession),
		pools:    make(map[string]*httpSession),
	}
	if f.SessionIdle == 0 {
		f.SessionIdle = defaultIdle
	}
	f.mostBodies = max(bodiesLeast, 4*int64(s.policy.Load().MaxMessage))
	if f.MaxSessions == 0 {
		f.MaxSessions = defaultSessions
	}
	return f
}

// Handler serves MCP over HTTP in every revision:
//
//	/mcp              all upstreams, streamable HTTP and stateless
//	/mcp/NAME         one upstream under its own names
//	/sse, /message    the transport of 2024-11-05
//	/healthz          says "ok" to anybody
//
// Its sessions end when they have been idle, or with the server.
func (s *Server) Handler() http.Handler { return s.newFront().handler() }

func (f *front) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, "ok\n"); err != nil {
			f.srv.log.Debug("answer not delivered", "err", err)
		}
	})
	for _, p := range f.srv.pages {
		mux.Handle(p.pattern, p.handler)
	}
	mux.HandleFunc("GET /sse", f.openSSE)
	mux.HandleFunc("POST /message", f.postSSE)
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) { f.endpoint(w, r, "") })
	mux.HandleFunc("/mcp/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		if !f.srv.Has(name) {
			refuse(w, http.StatusNotFound, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "no upstream is named " + name})
			return
		}
		f.endpoint(w, r, name)
	})
	return f.guard(mux, func(r *http.Request) bool {
		_, pattern := mux.Handler(r)
		return slices.ContainsFunc(f.srv.pages, func(p page) bool { return p.asks && p.pattern == pattern })
	})
}

// endpoint serves one MCP endpoint. GET and DELETE exist in sessions only.
func (f *front) endpoint(w http.ResponseWriter, r *http.Request, only string) {
	inSession := r.Header.Get(headerSession) != ""
	switch {
	case r.Method == http.MethodPost:
		f.post(w, r, only)
	case r.Method == http.MethodGet && inSession:
		f.getStream(w, r, only)
	case r.Method == http.MethodDelete && inSession:
		f.deleteSession(w, r, only)
	default:
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// ServeListener serves HTTP on ln until ctx ends; then every session ends, open
// requests and streams get their last answer, and ln is closed.
func (s *Server) ServeListener(ctx context.Context, ln net.Listener) error {
	f := s.newFront()
	server := &http.Server{
		Handler:           f.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	select {
	case err := <-ended:
		f.end(errShutdown)
		return err
	case <-ctx.Done():
	}
	var sessions sync.WaitGroup
	sessions.Go(func() { f.end(errShutdown) })
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	err := server.Shutdown(bounded)
	if err != nil {
		s.log.Warn("clients cut off", "err", err)
		err = server.Close()
	}
	sessions.Wait()
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// accepts reports whether the Accept header allows a media type. None allows
// all.
func accepts(h http.Header, want string) bool {
	values := h["Accept"]
	if len(values) == 0 {
		return true
	}
	family, _, _ := strings.Cut(want, "/")
	for _, value := range values {
		for value != "" {
			var one string
			one, value, _ = strings.Cut(value, ",")
			one, _, _ = strings.Cut(one, ";")
			one = strings.TrimSpace(one)
			if strings.EqualFold(one, want) || one == "*/*" || strings.EqualFold(one, family+"/*") {
				return true
			}
		}
	}
	return false
}

// refuse answers with a JSON-RPC error. A client that does not read it is none
// to tell about.
func refuse(w http.ResponseWriter, status int, id []byte, bad *jsonrpc.Error) {
	_ = writeJSON(w, status, jsonrpc.AppendError(nil, id, bad.Append(nil)))
}
