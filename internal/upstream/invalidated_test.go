package upstream

import (
	"context"
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
				server.Announce("notifications/tools/list_changed", "{}")
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
