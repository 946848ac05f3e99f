package upstream

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/revision"
)

// attachBoth attaches two sessions to one server that declares these capabilities. told returns what the server
// has been sent since it was last called, sorted.
func attachBoth(t *testing.T, era, capabilities string) (a, b *Lease, told func() []string) {
	t.Helper()
	client := revision.Client{}
	if era == "stateless" {
		client.Version = revision.Latest
	}
	srv := mcptest.New(mcptest.Options{Name: "web", Era: era, Capabilities: capabilities})
	u, _ := bubbledWith(t, srv.Handler(), Spec{StartTimeout: time.Minute, Shared: true}, Options{})
	seen := 0
	return u.Attach(client, Listener{}), u.Attach(client, Listener{}), func() (lines []string) {
		synctest.Wait()
		all := srv.Seen()
		for _, line := range all[seen:] {
			m, _ := jsonrpc.Parse([]byte(line))
			switch m.Method {
			case "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
				lines = append(lines, m.Method+" "+jsonrpc.Text(m.Params, "level")+jsonrpc.Text(m.Params, "uri"))
			case "subscriptions/listen":
				lines = append(lines, "listen "+string(jsonrpc.Get(jsonrpc.Get(m.Params, "notifications"), "resourceSubscriptions")))
			case "notifications/roots/list_changed":
				lines = append(lines, m.Method)
			}
		}
		seen = len(all)
		slices.Sort(lines) // HTTP does not keep their order
		return lines
	}
}

// A server is told the settings of all sessions, then each change, and after a restart all of them again.
func TestSettings(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, b, told := attachBoth(t, "handshake", `{"tools":{},"logging":{},"resources":{"subscribe":true}}`)
		want := func(when string, lines ...string) {
			t.Helper()
			if diff := cmp.Diff(lines, told()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		a.in.up.Attach(revision.Client{Version: revision.Latest}, Listener{}) // its requests say what they want to be logged
		a.SetLevel("warning")
		a.Watch(true, "web://a")
		b.Watch(true, "web://a")
		a.AwaitOffer(t.Context())
		want("at its start", "logging/setLevel info", "resources/subscribe web://a")
		a.SetLevel("warning")
		a.Watch(true, "web://a")
		want("the same again")
		b.SetLevel("error")
		want("the last session's level", "logging/setLevel warning")
		b.SetLevel("debug")
		want("the most verbose level", "logging/setLevel debug")
		a.Watch(false, "web://a")
		want("while another session watches it")
		b.Watch(false, "web://a")
		want("when no session does", "resources/unsubscribe web://a")
		b.Watch(false, "web://a")
		want("the same again")
		b.Watch(true, "web://b")
		want("another", "resources/subscribe web://b")
		b.Close()
		want("without that session", "logging/setLevel warning", "resources/unsubscribe web://b")
		a.Watch(true, "web://c")
		want("one more", "resources/subscribe web://c")
		a.in.live().link.(*httpLink).end(errSessionLost, 0) // so it connects again
		want("after a restart", "logging/setLevel warning", "resources/subscribe web://c")
		a.Notify("notifications/roots/list_changed", nil)
		want("a notification", "notifications/roots/list_changed")
	})
}

// A session of a shared server begins and ends at the same cost, however many resources the others watch.
func TestCostOfASessionAmongMany(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, _, told := attachBoth(t, "handshake", `{"tools":{},"resources":{"subscribe":true}}`)
		a.AwaitOffer(t.Context())
		cost := func() float64 {
			return testing.AllocsPerRun(10, func() { a.in.up.Attach(revision.Client{}, Listener{}).Close() })
		}
		few := cost()
		for n := range 100 {
			a.Watch(true, fmt.Sprintf("web://%d", n))
		}
		told()
		if many := cost(); many > few+5 {
			t.Errorf("%.0f allocations beside 100 subscriptions, %.0f beside none", many, few)
		}
	})
}

// A server that has no logging is told no level, and none is told one that no session has asked for.
func TestSettingsThatAreNotSent(t *testing.T) {
	for capabilities, level := range map[string]string{`{"resources":{}}`: "debug", `{"logging":{}}`: ""} {
		bubble.Test(t, func(t *testing.T) {
			a, _, told := attachBoth(t, "handshake", capabilities)
			a.SetLevel(level)
			a.AwaitOffer(t.Context())
			if got := told(); len(got) > 0 {
				t.Errorf("with %s: got %q", capabilities, got)
			}
		})
	}
}

// The level of a session that has ended does not outlast it: the server would send the next sessions too few
// messages, or too many.
func TestLevelOfAnEndedSession(t *testing.T) {
	for _, level := range []string{"error", "debug"} {
		bubble.Test(t, func(t *testing.T) {
			a, b, told := attachBoth(t, "handshake", `{"logging":{}}`)
			b.Close()
			a.AwaitOffer(t.Context())
			a.SetLevel(level)
			a.Close()
			told()
			c := a.in.up.Attach(revision.Client{}, Listener{})
			if diff := cmp.Diff([]string{"logging/setLevel info"}, told()); diff != "" {
				t.Errorf("after %s (-want +got):\n%s", level, diff)
			}
			c.SetLevel("debug")
			told()
			a.in.up.Attach(revision.Client{}, Listener{})
			c.Close()
			if diff := cmp.Diff([]string{"logging/setLevel info"}, told()); diff != "" {
				t.Errorf("beside another session (-want +got):\n%s", diff)
			}
		})
	}
}

// A stateless server is told the subscriptions of all sessions by a request, which is replaced when they change.
func TestSettingsOfAStatelessServer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, b, told := attachBoth(t, "stateless", `{"tools":{},"logging":{},"resources":{"subscribe":true}}`)
		a.AwaitOffer(t.Context())
		a.SetLevel("debug")
		a.Notify("notifications/roots/list_changed", nil)
		a.Watch(true, "web://a")
		synctest.Wait()
		b.Watch(true, "web://a", "web://b")
		synctest.Wait()
		b.Close()
		want := []string{`listen ["web://a","web://b"]`, `listen ["web://a"]`, `listen ["web://a"]`}
		if diff := cmp.Diff(want, told()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A subscription that its server does not answer fails after the start timeout.
func TestSettingWithoutAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, id string) { replyJSON(w, result(id)) }}
		v := attach(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Header.Get("Mcp-Session-Id"), "s") && r.Method == http.MethodPost {
				if m := readMessage(t, r); m.Method == "resources/subscribe" {
					<-r.Context().Done()
				}
				w.WriteHeader(http.StatusAccepted)
				return
			}
			s.ServeHTTP(w, r)
		}), Spec{StartTimeout: time.Minute})
		v.AwaitOffer(t.Context())
		began := time.Now()
		if err := <-v.Watch(true, "web://a")["web://a"]; err == nil || time.Since(began) != time.Minute {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

// Watchers are notified of a connection, but not of each one of a server that ends soon.
func TestWatchersAreNotifiedSeldom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		told := 0
		in := &instance{}
		in.leases = []*Lease{{in: in, uris: map[string]bool{"a:b": true}, listener: Listener{Notify: func(string, []byte) { told++ }}}}
		for range 3 {
			in.notifyWatchers()
			in.notifyWatchers()
			time.Sleep(stableAfter)
		}
		if told != 3 {
			t.Errorf("notified %d times at six connections, two in %s; want 3", told, stableAfter)
		}
	})
}
