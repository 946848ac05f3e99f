package front

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
)

// HTTPOptions are the rules by which the server is reached over HTTP. Nothing of an HTTP
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
	notAcceptable = refusal("Accept: want both application/json and text/event-stream for POST, text/event-stream for GET")
	noSession     = refusal("session unknown or ended; begin anew with initialize")
	notJSON       = &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: "parse error: not JSON"}
	shuttingDown  = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: ErrShutdown.Error()}
	allBusy       = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "every session there may be is in use; end one, or raise max_sessions in [http]"}
	stillEnding   = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "too many sessions are still ending; try again soon"}
	manyStreams   = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "this session has too many open streams"}
	notRead       = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: errNotReading.Error()}
	manyBytes     = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "too many bytes of requests are in memory; try again soon"}
)

// HTTP serves MCP over HTTP in every revision:
//
//	/mcp              all upstreams, streamable HTTP and stateless
//	/mcp/NAME         one upstream under its own names
//	/sse, /message    the transport of 2024-11-05
//	/healthz          says "ok", without a token
//
// Its sessions end when they have been idle, or with it.
type HTTP struct {
	Options
	handler  http.Handler
	sessions sessions
	bodies   bodies
}

// NewHTTP makes a front that serves what it is asked.
func NewHTTP(o Options) *HTTP {
	h := &HTTP{Options: o.withDefaults()}
	h.HTTP.SessionIdle = cmp.Or(h.HTTP.SessionIdle, defaultIdle)
	h.HTTP.MaxSessions = cmp.Or(h.HTTP.MaxSessions, defaultSessions)
	h.sessions.Options, h.sessions.found = &h.Options, make(map[sessionKey]*httpSession)
	h.bodies.most, h.bodies.longest = max(bodiesLeast, 4*int64(h.MaxMessage)), h.MaxMessage
	h.handler = h.routes()
	return h
}

func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.handler.ServeHTTP(w, r) }

func (h *HTTP) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, "ok\n"); err != nil {
			h.Log.Debug("answer not delivered", "err", err)
		}
	})
	for _, p := range h.Pages {
		mux.Handle(p.Pattern, p.Handler)
	}
	mux.HandleFunc("GET /sse", h.openSSE)
	mux.HandleFunc("POST /message", h.postSSE)
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) { h.endpoint(w, r, "") })
	mux.HandleFunc("/mcp/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		if !h.Has(name) {
			refuse(w, http.StatusNotFound, nil, refusal("no upstream is named "+name))
			return
		}
		h.endpoint(w, r, name)
	})
	return h.HTTP.guard(mux, func(r *http.Request) bool {
		_, pattern := mux.Handler(r)
		return slices.ContainsFunc(h.Pages, func(p Page) bool { return p.Asks && p.Pattern == pattern })
	})
}

// endpoint serves one MCP endpoint. GET and DELETE exist in sessions only.
func (h *HTTP) endpoint(w http.ResponseWriter, r *http.Request, only string) {
	inSession := r.Header.Get(headerSession) != ""
	switch {
	case r.Method == http.MethodPost:
		h.post(w, r, only)
	case r.Method == http.MethodGet && inSession:
		h.getStream(w, r, only)
	case r.Method == http.MethodDelete && inSession:
		h.deleteSession(w, r, only)
	default:
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// deleteSession serves DELETE.
func (h *HTTP) deleteSession(w http.ResponseWriter, r *http.Request, only string) {
	s := h.enterSession(w, r, nil, only)
	if s == nil {
		return
	}
	defer s.leave()
	s.End(ErrEnded)
	finish(w, http.StatusNoContent)
}

// Serve serves HTTP on ln until ctx ends; then every session ends, open requests
// and streams get their last answer, and ln is closed.
func (h *HTTP) Serve(ctx context.Context, ln net.Listener) error {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       ioTimeout, // of the first piece of a body, or of one that is not wanted
		WriteTimeout:      ioTimeout, // of what is not written by this package
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(h.Log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	select {
	case err := <-ended:
		h.sessions.end(ErrShutdown)
		return err
	case <-ctx.Done():
	}
	var sessions sync.WaitGroup
	sessions.Go(func() { h.sessions.end(ErrShutdown) })
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownFlush)
	defer cancel()
	err := server.Shutdown(bounded)
	if err != nil {
		h.Log.Warn("clients cut off", "err", err)
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
	family, _, _ := strings.Cut(want, "/")
	all := strings.Join(h["Accept"], ",")
	for kind := range strings.SplitSeq(all, ",") {
		kind, _, _ = strings.Cut(kind, ";")
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case want, family + "/*", "*/*":
			return true
		}
	}
	return all == ""
}
