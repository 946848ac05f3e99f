package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/revision"
)

// sending is a call that is about to be sent to a live server.
type sending struct {
	ctx   context.Context
	lease *Lease
	away  atomic.Bool // connections fail
	req   *Request
}

func (s *sending) tool(name, arguments string) {
	s.req = &Request{Method: "tools/call", Params: fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, name, arguments)}
}

func (s *sending) givenUpAfter(d time.Duration) {
	ctx, cancel := context.WithCancel(s.ctx)
	s.ctx = ctx
	if d == 0 {
		cancel()
		return
	}
	time.AfterFunc(d, cancel)
}

// Answer.Sent is false only if no part of the request was sent.
func TestSent(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(*sending)
		fails   bool
		want    bool // it may have reached the server
	}{
		{"answered", func(s *sending) { s.tool("echo", "{}") }, false, true},
		{"answered with an error", func(s *sending) { s.tool("echo", "1") }, false, true},
		{"status 500", func(s *sending) { s.tool("status", `{"status":500}`) }, true, true},
		{"status 429", func(s *sending) { s.tool("status", `{"status":429}`) }, true, true},
		{"a body cut off", func(s *sending) { s.tool("cut", "{}") }, true, true},
		{"its time up", func(s *sending) { s.tool("hang", "{}"); s.req.Timeout = time.Second }, true, true},
		{"given up after", func(s *sending) { s.tool("hang", "{}"); s.givenUpAfter(time.Second) }, true, true},
		{"closed after", func(s *sending) { s.tool("hang", "{}"); time.AfterFunc(time.Second, s.lease.in.up.Close) }, true, true},

		{"given up before", func(s *sending) { s.tool("echo", "{}"); s.givenUpAfter(0) }, true, false},
		{"given up before its turn", func(s *sending) {
			s.tool("echo", "{}")
			time.AfterFunc(time.Minute, s.lease.Turn().Release)
			s.givenUpAfter(time.Second)
		}, true, false},
		{"kept back", func(s *sending) {
			s.tool("echo", "{}")
			s.req.Fence = func() error { return errors.New("too late") }
		}, true, false},
		{"not kept back", func(s *sending) { s.tool("echo", "{}"); s.req.Fence = func() error { return nil } }, false, true},
		{"closed before", func(s *sending) { s.tool("echo", "{}"); s.lease.in.up.Close() }, true, false},
		{"retired before", func(s *sending) { s.tool("echo", "{}"); s.lease.in.up.Retire(time.Minute) }, true, false},
		{"an unknown session again", func(s *sending) { s.tool("status", `{"status":404}`) }, true, false},
		{"no connection", func(s *sending) {
			s.tool("echo", "{}")
			s.away.Store(true)
			s.lease.in.up.client.CloseIdleConnections()
		}, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				u, _ := bubbled(t, mcptest.New(mcptest.Options{Name: "web"}).Handler(), time.Minute)
				s := &sending{ctx: t.Context()}
				transport := u.client.Transport.(*http.Transport)
				connect := transport.DialContext
				transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
					if s.away.Load() {
						return nil, errors.New("connection refused")
					}
					return connect(ctx, network, address)
				}
				s.lease = u.Attach(revision.Client{}, Listener{})
				defer s.lease.Close()
				s.lease.AwaitOffer(t.Context())
				time.Sleep(time.Minute) // the connections are idle
				tt.prepare(s)
				answer, err := s.lease.Call(s.ctx, s.lease.Turn(), s.req)
				time.Sleep(time.Hour) // requests that wait for their turn fail too
				if (err != nil) != tt.fails || answer.Sent != tt.want {
					t.Errorf("got sent %v beside %v, want %v", answer.Sent, err, tt.want)
				}
			})
		})
	}
}

// Sent is called when a connection has accepted the request, and not for one that is ending.
func TestSentIsCalledOncePerConnection(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		u, _ := bubbled(t, mcptest.New(mcptest.Options{Name: "web"}).Handler(), time.Minute)
		l := u.Attach(revision.Client{}, Listener{})
		defer l.Close()
		l.AwaitOffer(t.Context())
		for _, name := range []string{"hang", "lose"} { // the link has ended, and waits for the first
			go l.Call(t.Context(), nil, &Request{Method: "tools/call", Params: fmt.Appendf(nil, `{"name":%q}`, name)})
			synctest.Wait()
		}
		var sent atomic.Int32
		outcome := make(chan error, 1)
		l.Send(t.Context(), l.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"echo"}`), Sent: func() { sent.Add(1) }}, func(_ Answer, err error) {
			outcome <- err
		})
		synctest.Wait()
		if n := sent.Load(); n != 0 || !l.Live() {
			t.Errorf("got %d calls of Sent, and live %v, while the connection ends", n, l.Live())
		}
		if err := <-outcome; err != nil || sent.Load() != 1 {
			t.Errorf("got %v after %d calls of Sent, want one", err, sent.Load())
		}
	})
}

// An HTTP rate limit is reported, whatever the response contains.
func TestLimited(t *testing.T) {
	tests := []struct {
		name    string
		status  int
		header  string
		body    string // a JSON-RPC error; "" means text
		limited bool
	}{
		{"429 with a wait", 429, "17", "", true},
		{"429 without", 429, "", "", true},
		{"429 with an answer", 429, "17", `{"code":-32000,"message":"too many"}`, true},
		{"503 with a date", 503, "Wed, 21 Oct 2026 07:28:00 GMT", "", true},
		{"503 without", 503, "", "", false},
		{"500 with a wait", 500, "17", "", false},
		{"200 with a wait", 200, "17", `{"code":-32000,"message":"no"}`, false},
	}
	for _, tt := range tests {
		for _, era := range []string{"handshake", "stateless"} {
			t.Run(tt.name+" "+era, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					server := mcptest.New(mcptest.Options{Name: "web", Era: era}).Handler()
					u, _ := bubbled(t, limiting(t, server, tt.status, tt.header, tt.body), time.Minute)
					client := revision.Client{}
					if era == "stateless" {
						client.Version = "2026-07-28"
					}
					l := u.Attach(client, Listener{})
					defer l.Close()
					answer, err := callEcho(t.Context(), l)
					if (err == nil) != (tt.body != "") || !answer.Sent {
						t.Errorf("got %+v, %v", answer, err)
					}
					if err != nil {
						text, after := err.Error(), fmt.Sprintf("Retry-After %q", tt.header)
						if strings.HasPrefix(text, `server "web" limits its calls: status 429`) != (tt.status == 429) || strings.Contains(text, after) != (tt.limited && tt.header != "") {
							t.Errorf("got %s, want the limit and %s", text, after)
						}
					}
					want := ""
					if tt.limited {
						want = tt.header
					}
					if answer.Limited != tt.limited || answer.RetryAfter != want {
						t.Errorf("got limited %v, %q, want %v, %q", answer.Limited, answer.RetryAfter, tt.limited, want)
					}
				})
			})
		}
	}
}

// limiting answers every tools/call with a status, and everything else as server
// does.
func limiting(t *testing.T, server http.Handler, status int, retryAfter, object string) http.Handler {
	return intercept(t, server, func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) (done bool) {
		if m.Method != "tools/call" {
			return false
		}
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		if object == "" {
			reply(w, status, "text/plain", "come back later")
			return true
		}
		reply(w, status, "application/json", string(jsonrpc.AppendError(nil, m.ID, []byte(object))))
		return true
	})
}

// Instance ids are unique across upstreams. Sessions that share an instance have the same id.
func TestInstance(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		seen := make(map[uint64]bool)
		for _, shared := range []bool{false, true, false, true} {
			u, _ := bubbledWith(t, nil, Spec{StartTimeout: time.Second, Shared: shared}, Options{})
			one, other := u.Attach(revision.Client{}, Listener{}), u.Attach(revision.Client{}, Listener{})
			if one.Shared() != shared || (one.Instance() == other.Instance()) != shared {
				t.Errorf("shared %v: got %d and %d", one.Shared(), one.Instance(), other.Instance())
			}
			if seen[one.Instance()] || seen[other.Instance()] || one.Instance() == 0 {
				t.Errorf("instance id %d or %d is not unique", one.Instance(), other.Instance())
			}
			seen[one.Instance()], seen[other.Instance()] = true, true
			if n := len(u.instances); shared && n != 1 || !shared && n != 2 {
				t.Errorf("shared %v: got %d instances of two sessions", shared, n)
			}
			one.Close()
			other.Close()
			u.Close()
		}
	})
}
