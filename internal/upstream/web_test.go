package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/revision"
)

// bubbled returns an upstream over HTTP with pipes as connections, so that it can run in a
// synctest bubble. A nil serve means that no connection can be made.
func bubbled(t *testing.T, serve http.Handler, startTimeout time.Duration) (u *Upstream, dials func() []time.Duration) {
	t.Helper()
	return bubbledWith(t, serve, Spec{StartTimeout: startTimeout}, Options{})
}

// Quiet returns o with the log and the functions that it leaves out.
func Quiet(o Options) Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Invalidated == nil {
		o.Invalidated = func(string) {}
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.WriteSettle == nil {
		o.WriteSettle = func() time.Duration { return 0 }
	}
	if o.Asked == nil {
		o.Asked = func(uint64, string) {}
	}
	return o
}

func bubbledWith(t *testing.T, serve http.Handler, spec Spec, o Options) (u *Upstream, dials func() []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var at []time.Duration
	began := time.Now()
	spec.Name = "web"
	if spec.URL == "" {
		spec.URL = "http://web.test/mcp"
	}
	if spec.MaxMessage == 0 {
		spec.MaxMessage = 1 << 20
	}
	ln := mcptest.NewPipes()
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		at = append(at, time.Since(began))
		mu.Unlock()
		if serve == nil {
			return nil, errors.New("connection refused")
		}
		return ln.Dial(ctx, network, address)
	}
	u = New(spec, Quiet(o))
	web := &http.Server{Handler: serve}
	served := make(chan error, 1)
	go func() { served <- web.Serve(ln) }()
	t.Cleanup(func() {
		u.Close()
		web.Close()
		<-served
	})
	return u, func() []time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return append([]time.Duration(nil), at...)
	}
}

func callEcho(ctx context.Context, l *Lease) (Answer, error) {
	return l.Call(ctx, l.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"echo"}`)})
}

// site is a server over streamable HTTP with a session. The test provides the responses to calls
// and to requests other than POST.
type site struct {
	t     *testing.T
	call  func(w http.ResponseWriter, r *http.Request, id string)
	other http.HandlerFunc // nil means no stream

	mu   sync.Mutex
	seen []string // method, session and revision of each request
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, strings.TrimSpace(r.Method+" "+r.Header.Get("Mcp-Session-Id")+" "+r.Header.Get("Mcp-Protocol-Version")))
	s.mu.Unlock()
	if r.Method != http.MethodPost {
		if s.other == nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		s.other(w, r)
		return
	}
	switch m := readMessage(s.t, r); m.Method {
	case "initialize":
		w.Header().Set("Mcp-Session-Id", "s1")
		replyJSON(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"site","version":"1"}}}`, m.ID))
	case "tools/call":
		s.call(w, r, string(m.ID))
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// requests returns the requests since its last call.
func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

// visitor is a session with an upstream. heard records invalid messages, notifications and
// invalidations.
type visitor struct {
	*Lease
	heard *diary
}

func attach(t *testing.T, serve http.Handler, spec Spec) visitor {
	t.Helper()
	v := visitor{heard: new(diary)}
	if spec.StartTimeout == 0 {
		spec.StartTimeout = time.Minute
	}
	u, _ := bubbledWith(t, serve, spec, Options{
		Invalidated: func(cause string) { v.heard.write(cause) }, Log: slog.New(garbageLog{v.heard}),
	})
	v.Lease = u.Attach(revision.Client{}, Listener{Notify: func(method string, _ []byte) { v.heard.write("own stream: " + method) }})
	t.Cleanup(v.Close)
	return v
}

// work makes a call and returns its result or error as text.
func (v visitor) work(ctx context.Context) string { return v.tool(ctx, `{"name":"work"}`) }

// tool is work with the params of the call.
func (v visitor) tool(ctx context.Context, params string) string {
	answer, err := v.Call(ctx, v.Turn(), &Request{
		Method: "tools/call", Params: []byte(params),
		Notify: func(method string, _ []byte) { v.heard.write("heard " + method) },
		Ask: func(_ context.Context, method string, _ []byte) ([]byte, *jsonrpc.Error) {
			v.heard.write("asked " + method)
			return []byte("{}"), nil
		},
	})
	if err != nil {
		return strings.TrimPrefix(err.Error(), `server "web" is not available: `)
	}
	return string(answer.Result) + string(answer.Error)
}

// garbageLog records the log lines about invalid messages.
type garbageLog struct{ heard *diary }

func (g garbageLog) Enabled(context.Context, slog.Level) bool { return true }
func (g garbageLog) WithAttrs([]slog.Attr) slog.Handler       { return g }
func (g garbageLog) WithGroup(string) slog.Handler            { return g }
func (g garbageLog) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "not an MCP message") {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "err" {
				g.heard.write("garbage: " + a.Value.String())
			}
			return true
		})
	}
	return nil
}

func readMessage(t *testing.T, r *http.Request) jsonrpc.Message {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Errorf("request body: %v", err)
	}
	m, err := jsonrpc.Parse(body)
	if err != nil {
		t.Errorf("request %q: %v", body, err)
	}
	return m
}

// intercept passes each message to first, and to next unless that has responded.
func intercept(t *testing.T, next http.Handler, first func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) (done bool)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			m := readMessage(t, r)
			r.Body = io.NopCloser(bytes.NewReader(m.Raw))
			if first(w, r, m) {
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// why returns the parse error of a message.
func why(text string) string {
	_, err := jsonrpc.Parse([]byte(text))
	return err.Error()
}

func result(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` }

// reply writes an answer of the given type.
func reply(w http.ResponseWriter, status int, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = fmt.Fprint(w, body)
}

func replyJSON(w http.ResponseWriter, body string) { reply(w, 200, "application/json", body) }

// emit sends and flushes part of an event stream.
func emit(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprint(w, text)
	w.(http.Flusher).Flush()
}

// hijack writes a raw response and closes the connection.
func hijack(w http.ResponseWriter, text string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_, _ = io.WriteString(conn, text)
		conn.Close()
	}
}
