package front

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
)

// HTTPOptions configures HTTP. Only the body of an HTTP request is forwarded to an
// upstream server.
type HTTPOptions struct {
	Token          string        // bearer token required by all paths except /healthz; "" means none
	Hosts          []string      `toml:"allowed_hosts" form:"listener"`      // values of Host accepted besides loopback and the local address; "0.0.0.0" or "::" accepts every address
	AllowedOrigins []string      `toml:"allowed_origins" form:"origin"`      // web origins allowed besides the server's own and, with a token, those on loopback
	SessionIdle    time.Duration `toml:"session_idle" default:"30m"`         // idle time after which a session ends; zero means 30 minutes
	MaxSessions    int           `toml:"max_sessions" default:"256" min:"4"` // limit of sessions, including those still ending; a quarter of it may be open; zero means 256
}

// Errors for requests that are refused before they reach a session.
var (
	noSession        = refusal("unknown or ended session; start a new one with initialize")
	shuttingDown     = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: ErrShutdown.Error()}
	noFreeSession    = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "no session is free: a quarter of max_sessions in [http] may be open, and all of them with those that are ending; end one, or raise max_sessions"}
	clientNotReading = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: errNotReading.Error()}
)

// HTTP serves MCP over HTTP in every revision:
//
//	/mcp              all upstreams, streamable HTTP and stateless
//	/mcp/NAME         one upstream under its own names
//	/sse, /message    the transport of 2024-11-05
//	/healthz          returns "ok" without a token
//
// Sessions end when they have been idle for SessionIdle, and when Serve ends.
type HTTP struct {
	Options
	handler  http.Handler
	sessions sessions
	bodies   bodies
}

// NewHTTP returns an HTTP transport with the given options.
func NewHTTP(o Options) *HTTP {
	h := &HTTP{Options: o.withDefaults()}
	h.HTTP.SessionIdle = cmp.Or(h.HTTP.SessionIdle, defaultIdle)
	h.HTTP.MaxSessions = cmp.Or(h.HTTP.MaxSessions, defaultSessions)
	h.sessions.Options, h.sessions.byKey = &h.Options, make(map[sessionKey]*httpSession)
	h.bodies.maxTotal, h.bodies.maxSize = max(minBodies, 4*int64(h.MaxMessage)), int64(h.MaxMessage)
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
	mux.HandleFunc("HEAD /sse", func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, http.StatusMethodNotAllowed) }) // GET matches HEAD
	mux.HandleFunc("POST /message", h.postSSE)
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) { h.endpoint(w, r, "") })
	mux.HandleFunc("/mcp/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		if !h.Has(name) {
			refuse(w, http.StatusNotFound, nil, refusal(name+": no such server is configured and enabled"))
			return
		}
		h.endpoint(w, r, name)
	})
	return h.HTTP.protect(mux, func(r *http.Request) bool {
		_, pattern := mux.Handler(r)
		return slices.ContainsFunc(h.Pages, func(p Page) bool { return p.OwnAuth && p.Pattern == pattern })
	})
}

// endpoint serves one MCP endpoint. In a session, GET opens a stream of the messages that belong
// to no request, and DELETE ends the session.
func (h *HTTP) endpoint(w http.ResponseWriter, r *http.Request, only string) {
	inSession := r.Header.Get(mcp.HeaderSessionID) != ""
	switch {
	case r.Method == http.MethodPost:
		h.post(w, r, only)
	case inSession && (r.Method == http.MethodGet || r.Method == http.MethodDelete):
		s := h.enterSession(w, r, nil, only)
		if s == nil {
			return
		}
		defer s.leave()
		if r.Method == http.MethodGet {
			s.listen(w, r, "")
			return
		}
		s.End(ErrEnded)
		writeStatus(w, http.StatusNoContent)
	default:
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// listen writes the session's messages that belong to no request, until the client
// disconnects, another stream takes over or the session ends. The client may have
// lost the connection of the first stream long before the proxy notices. If
// endpoint is not empty, the first event announces it as the URL for the client's
// messages.
func (s *httpSession) listen(w http.ResponseWriter, r *http.Request, endpoint string) {
	err := openEvents(w)
	if err == nil && endpoint != "" {
		err = writeEvent(w, "endpoint", []byte(endpoint))
	}
	if err == nil {
		err = s.stream.pump(w, s.stream.open(), r.Context().Done())
	}
	if err != nil {
		s.all.Log.Debug("client stream broken", "session", s.key.name, "err", err)
	}
}

// openSSE serves GET /sse, the transport of 2024-11-05. The stream carries all
// messages to the client, and the session ends with it.
func (h *HTTP) openSSE(w http.ResponseWriter, r *http.Request) {
	s, rpcErr := h.sessions.begin(legacySSE, "")
	if rpcErr != nil {
		refuse(w, http.StatusServiceUnavailable, nil, rpcErr)
		return
	}
	defer s.end()
	defer s.leave()
	s.listen(w, r, "/message?sessionId="+s.key.name)
}

// postSSE serves POST /message. The response is sent on the session's stream.
func (h *HTTP) postSSE(w http.ResponseWriter, r *http.Request) {
	b, ok := h.bodies.read(w, r)
	if !ok {
		return
	}
	var serving sync.WaitGroup // requests in the body
	defer func() {
		go func() {
			serving.Wait()
			b.release()
		}()
	}()
	s := h.sessions.find(legacySSE, r.URL.Query().Get("sessionId"), "")
	if s == nil {
		refuse(w, http.StatusNotFound, nil, noSession)
		return
	}
	defer s.leave()
	data := bytes.TrimSpace(b.data)
	if fault := jsonrpc.Fault(data); fault != "" {
		refuse(w, http.StatusBadRequest, nil, refusal(fault))
		return
	}
	jsonrpc.Flatten(data)
	if s.stream.full() {
		refuse(w, http.StatusServiceUnavailable, nil, clientNotReading)
		return
	}
	s.take(data, s.stream, serving.Go)
	writeStatus(w, http.StatusAccepted)
}

// Serve serves HTTP on ln until ctx ends. It then ends every session, gives open
// requests and streams shutdownFlush to write their last messages, and closes ln.
func (h *HTTP) Serve(ctx context.Context, ln net.Listener) error {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute, // net/http clears it when a request has been read, so it ends no stream
		WriteTimeout:      ioTimeout,   // for responses of other packages; see renew
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(h.Log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	select {
	case err := <-ended:
		h.sessions.end()
		return err
	case <-ctx.Done():
	}
	var sessions sync.WaitGroup
	sessions.Go(h.sessions.end)
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
