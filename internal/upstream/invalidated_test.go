package upstream

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/revision"
)

// diary records events in order, from any goroutine.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// turn returns the events since its last call.
func (d *diary) turn() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

func (d *diary) want(t *testing.T, lines ...string) {
	t.Helper()
	if diff := cmp.Diff(lines, d.turn()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Until its first request a server has no cached answers, so neither its start nor a change of its
// tools invalidates any. A change of its resources may concern another server too.
func TestInvalidatesNothingBeforeTheFirstRequest(t *testing.T) {
	for _, version := range []string{"", "2026-07-28"} {
		bubble.Test(t, func(t *testing.T) {
			var heard diary
			server := mcptest.New(mcptest.Options{Name: "web", Era: map[string]string{"": "handshake", "2026-07-28": "stateless"}[version]})
			u, _ := bubbledWith(t, server.Handler(), Spec{StartTimeout: time.Minute}, Options{Invalidated: heard.write})
			l := u.Attach(revision.Client{Version: version}, Listener{})
			l.AwaitOffer(t.Context())
			time.Sleep(time.Minute)
			server.Announce("notifications/tools/list_changed", "{}")
			time.Sleep(time.Minute)
			heard.want(t)
			server.Announce("notifications/resources/list_changed", "{}")
			time.Sleep(time.Minute)
			heard.want(t, "list_changed")
			l.Close()
			synctest.Wait()
		})
	}
}

// If a server reports a change, answers are invalidated before its sessions get the notification,
// whether they subscribed or not, and whether the lists differ or not.
func TestNotificationsInvalidate(t *testing.T) {
	for _, era := range []string{"handshake", "stateless"} {
		t.Run(era, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var heard diary
				server := mcptest.New(mcptest.Options{Name: "web", Era: era})
				u, _ := bubbledWith(t, server.Handler(), Spec{StartTimeout: time.Minute}, Options{Invalidated: heard.write})
				version := ""
				if era == "stateless" {
					version = "2026-07-28"
				}
				l := u.Attach(revision.Client{Version: version}, Listener{
					Notify:  func(method string, _ []byte) { heard.write("heard " + method) },
					Changed: func() { heard.write("changed") },
				})
				defer l.Close()
				l.AwaitOffer(t.Context())
				l.Watch(true, "web://a")
				if _, err := callEcho(t.Context(), l); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				heard.turn()

				server.Announce("notifications/resources/updated", `{"uri":"web://a"}`)
				time.Sleep(time.Minute)
				heard.want(t, "resources/updated", "heard notifications/resources/updated")
				server.Announce("notifications/resources/updated", `{"uri":"web://unwatched"}`)
				time.Sleep(time.Minute)
				heard.want(t, "resources/updated")
				server.Announce("notifications/tools/list_changed", "[]") // as PHP writes it
				time.Sleep(time.Minute)
				heard.want(t, "list_changed")
				server.SetTools(`{"name":"other"}`)
				server.Announce("notifications/tools/list_changed", "{}")
				time.Sleep(time.Minute)
				heard.want(t, "list_changed", "changed")
			})
		})
	}
}

// The end of a session invalidates nothing if its server was only sent requests that read. Any other end of the
// connection does, as what the server kept in memory is lost.
func TestEndOfASession(t *testing.T) {
	for _, test := range []struct {
		crash, write, notify bool
		want                 []string
	}{
		{},
		{crash: true},
		{write: true, want: []string{"exit"}},
		{notify: true, want: []string{"exit"}},
	} {
		bubble.Test(t, func(t *testing.T) {
			var heard diary
			server := mcptest.New(mcptest.Options{Name: "web"})
			u, _ := bubbledWith(t, server.Handler(), Spec{StartTimeout: time.Minute}, Options{Invalidated: heard.write})
			l := u.Attach(revision.Client{}, Listener{})
			l.AwaitOffer(t.Context())
			read := &Request{Method: "tools/call", Params: []byte(`{"name":"echo"}`), ReadOnly: true}
			if _, err := l.Call(t.Context(), l.Turn(), read); err != nil {
				t.Fatal(err)
			}
			if test.write {
				if _, err := callEcho(t.Context(), l); err != nil {
					t.Fatal(err)
				}
			}
			if test.notify {
				l.Notify("notifications/roots/list_changed", []byte("{}"))
			}
			if test.crash {
				server.Forget()
				if _, err := l.Call(t.Context(), l.Turn(), read); err != nil {
					t.Fatal(err)
				}
				heard.want(t, "session", "exit", "handshake")
			}
			time.Sleep(time.Minute) // its streams are open
			l.Close()
			synctest.Wait()
			heard.want(t, test.want...)
		})
	}
}

// A restarted server does not know the session. Answers are invalidated before the call that
// noticed it continues, and before a session can observe the new server.
func TestLostSessionInvalidates(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var lease atomic.Pointer[Lease]
		var heard diary
		server := mcptest.New(mcptest.Options{Name: "web"})
		u, _ := bubbledWith(t, server.Handler(), Spec{StartTimeout: time.Minute}, Options{Invalidated: func(cause string) {
			if cause == "handshake" && lease.Load().Live() {
				cause += ", too late"
			}
			heard.write(cause)
		}})
		l := u.Attach(revision.Client{}, Listener{})
		defer l.Close()
		lease.Store(l)
		l.AwaitOffer(t.Context())
		if _, err := callEcho(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		heard.want(t)
		server.Forget()
		if _, err := callEcho(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		heard.want(t, "session", "exit", "handshake")
	})
}

// A lost session invalidates before an answer in flight arrives, not only when the connection
// ends.
func TestLostSessionInvalidatesBeforeTheEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var heard diary
		hold := make(chan struct{})
		server := mcptest.New(mcptest.Options{Name: "web", Answer: func(ctx context.Context, m jsonrpc.Message) []byte {
			if strings.Contains(string(m.Params), "slow") {
				<-hold
			}
			return nil
		}})
		u, _ := bubbledWith(t, server.Handler(), Spec{StartTimeout: time.Minute}, Options{Invalidated: heard.write})
		l := u.Attach(revision.Client{}, Listener{})
		defer l.Close()
		l.AwaitOffer(t.Context())
		time.Sleep(time.Minute)
		heard.turn()
		answered := make(chan error)
		go func() {
			_, err := l.Call(t.Context(), l.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"echo","arguments":{"slow":1}}`)})
			heard.write("answered")
			answered <- err
		}()
		synctest.Wait()
		server.Forget()
		if _, err := callEcho(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		close(hold)
		<-answered
		got := heard.turn()
		if len(got) == 0 || got[0] != "session" {
			t.Errorf("got %q, want the lost session first", got)
		}
	})
}

// Over HTTP a list may change after a listen request has ended, and before the server receives the one that
// replaces it. It is replaced only if something else is watched.
func TestListChangesBeforeTheListenRequestArrives(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var heard diary
		server := mcptest.New(mcptest.Options{Name: "web", Era: "stateless", Tools: []string{`{"name":"one"}`}})
		var requests atomic.Int64
		u, _ := bubbledWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Method") == "subscriptions/listen" && requests.Add(1) > 1 {
				time.Sleep(2 * time.Second)
			}
			server.Handler().ServeHTTP(w, r)
		}), Spec{StartTimeout: time.Minute, Shared: true}, Options{Invalidated: heard.write})
		l := u.Attach(revision.Client{Version: "2026-07-28"}, Listener{})
		defer l.Close()
		for i, name := range []string{"two", "three"} {
			if i == 1 {
				l.Watch(true, "web://a")
			}
			time.Sleep(time.Second)
			server.SetTools(`{"name":"` + name + `"}`)
			server.Announce(Tools.ChangedMethod(), "{}")
			time.Sleep(time.Minute)
			if _, ok := l.Offer().Find(Tools, name); !ok || requests.Load() != int64(i+1) {
				t.Errorf("after %d listen requests, got the tools %s", requests.Load(), l.Offer().Items(Tools))
			}
		}
		heard.want(t, "gap")
		other := u.Attach(revision.Client{Version: "2026-07-28"}, Listener{})
		other.Watch(true, "web://a")
		other.Close()
		if time.Sleep(time.Minute); requests.Load() != 2 {
			t.Errorf("another session watches the same: got %d listen requests", requests.Load())
		}
	})
}

// Changes may be missed from the end of a listen request until the next one is acknowledged.
func TestEndedListenRequestInvalidates(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var heard diary
		server := mcptest.New(mcptest.Options{Name: "web", Era: "stateless"}).Handler()
		var cut atomic.Pointer[context.CancelFunc]
		u, _ := bubbledWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Method") == "subscriptions/listen" {
				ctx, cancel := context.WithCancel(r.Context())
				cut.Store(&cancel)
				r = r.WithContext(ctx)
			}
			server.ServeHTTP(w, r)
		}), Spec{StartTimeout: time.Minute}, Options{Invalidated: heard.write})
		l := u.Attach(revision.Client{Version: "2026-07-28"}, Listener{})
		defer l.Close()
		l.AwaitOffer(t.Context())
		time.Sleep(time.Minute)
		heard.want(t)
		if _, err := callEcho(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		(*cut.Load())()
		synctest.Wait()
		heard.want(t, "gap") // at its end
		time.Sleep(time.Minute)
		if got := heard.turn(); len(got) < 2 || slices.ContainsFunc(got, func(s string) bool { return s != "gap" }) {
			t.Errorf("got %q, want gaps until the next one is acknowledged", got)
		}
	})
}

// A stateless server is asked to report changes only if it declares that it does, and not again if it does not know
// the request. One that refuses the request is asked again, ever more rarely; that is no gap.
func TestListenRequestsThatAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		capabilities string
		code         int
		want         [2]int // at least and at most so many requests in an hour
	}{
		"nothing to report": {`{"tools":{},"resources":{"listChanged":false}}`, -32603, [2]int{0, 0}},
		"not known":         {`{"tools":{"listChanged":true}}`, -32601, [2]int{1, 1}},
		"refused":           {`{"tools":{"listChanged":true}}`, -32603, [2]int{40, 100}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var heard diary
				var requests atomic.Int64
				handler := mcptest.New(mcptest.Options{Name: "web", Era: "stateless", Capabilities: test.capabilities}).Handler()
				u, _ := bubbledWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Mcp-Method") == "subscriptions/listen" {
						requests.Add(1)
						replyJSON(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"}}`, readMessage(t, r).ID, test.code))
						return
					}
					handler.ServeHTTP(w, r)
				}), Spec{StartTimeout: time.Minute}, Options{Invalidated: heard.write})
				l := u.Attach(revision.Client{Version: revision.Latest}, Listener{})
				defer l.Close()
				l.AwaitOffer(t.Context())
				time.Sleep(time.Hour)
				if got := int(requests.Load()); got < test.want[0] || got > test.want[1] {
					t.Errorf("got %d requests, want %d to %d", got, test.want[0], test.want[1])
				}
				heard.want(t)
			})
		})
	}
}

// slowLink is a link to a stateless server that takes a second for each request, and no request at all if it is broken.
type slowLink struct {
	sent   diary // methods
	broken bool
}

func (l *slowLink) send(_ context.Context, out outgoing) error {
	m, err := jsonrpc.Parse(out.line)
	if l.broken {
		err = errClosed
	}
	if err == nil && m.IsRequest() {
		time.Sleep(time.Second)
	}
	l.sent.write(m.Method)
	return err
}

func (l *slowLink) close() {}

// A request to report changes is sent before the one that it replaces is cancelled, so that no change is missed. One
// that cannot be sent holds up nothing.
func TestListenRequestIsReplaced(t *testing.T) {
	for _, broken := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			in := &instance{up: New(Spec{}, Quiet(Options{})), wake: make(chan struct{}, 1)}
			in.offer.Store(&Offer{Capabilities: []byte(`{"tools":{"listChanged":true}}`)})
			c, link := newConn(in), &slowLink{broken: broken}
			c.link = link
			c.version.Store(revision.Latest)
			in.listen(c)
			in.leases = []*Lease{{in: in, uris: map[string]bool{"web://a": true}}}
			in.listen(c)
			synctest.Wait()
			if !broken {
				link.sent.want(t, "subscriptions/listen", "subscriptions/listen", "notifications/cancelled")
			}
			c.closed(errStopped)
			c.close()
		})
	}
}
