package front_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/front"
)

func TestIdleSessionEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{HTTP: front.HTTPOptions{SessionIdle: time.Hour}})
		defer stop()
		used, unused, streaming := c.open(), c.open(), c.open()
		stream := c.get(streaming)
		go io.Copy(io.Discard, stream.Body)
		time.Sleep(59 * time.Minute)
		if got := c.ping(used); got != 200 {
			t.Errorf("after 59 minutes: got %d, want 200", got)
		}
		time.Sleep(2*time.Minute + time.Second) // not at the same time as an idle connection
		for id, want := range map[string]int{used: 200, unused: 404, streaming: 200} {
			if got := c.ping(id); got != want {
				t.Errorf("after 61 minutes: got %d, want %d", got, want)
			}
		}
		stream.Body.Close()
		time.Sleep(time.Hour + time.Second)
		if n := c.server.open.Load(); n != 0 {
			t.Errorf("%d sessions have not ended, want none", n)
		}
		if got := c.ping(streaming); got != 404 {
			t.Errorf("an hour after its stream: got %d, want 404", got)
		}
	})
}

// The test fails if a goroutine is left in the bubble.
func TestManySessionsLeakNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{})
		for i := range 300 {
			id := c.open()
			switch i % 3 {
			case 0:
				c.do(c.request(http.MethodDelete, "/mcp", "", "Mcp-Session-Id", id)).Body.Close()
			case 1:
				c.get(id).Body.Close()
			}
		}
		stop()
	})
}

// A session with a suspended call is neither expired nor evicted. One with a running task is not
// evicted.
func TestPendingSessionsAreKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{HTTP: front.HTTPOptions{SessionIdle: time.Hour, MaxSessions: 12}})
		defer stop()
		suspended, working, idle := c.open(), c.open(), c.open()
		c.session(suspended).pend(true, false)
		c.session(working).pend(false, true)
		last := c.open()
		for id, want := range map[string]int{suspended: 200, working: 200, idle: 404, last: 200} {
			if got := c.ping(id); got != want {
				t.Errorf("after a fourth session: got %d, want %d", got, want)
			}
		}
		time.Sleep(3 * time.Hour)
		for id, want := range map[string]int{suspended: 200, working: 404, last: 404} {
			if got := c.ping(id); got != want {
				t.Errorf("after three hours: got %d, want %d", got, want)
			}
		}
		c.session(suspended).pend(false, false)
		time.Sleep(2*time.Hour + time.Second) // the timer checks every hour
		if got := c.ping(suspended); got != 404 {
			t.Errorf("when its call has ended: got %d, want 404", got)
		}
	})
}

// Sessions that are still ending count towards MaxSessions.
func TestEndingSessionsCount(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{HTTP: front.HTTPOptions{MaxSessions: 8}})
		defer stop()
		c.server.ends = make(chan struct{})
		for i := range 10 { // from the third on, each ends another
			want := http.StatusOK
			if i >= 8 {
				want = http.StatusServiceUnavailable
			}
			if status, answer := c.post("/mcp", initialize(handshake)); status != want {
				t.Errorf("session %d: got %d %s, want %d", i, status, answer, want)
			}
		}
		close(c.server.ends)
		synctest.Wait()
		for range 10 {
			c.open()
			synctest.Wait()
		}
	})
}

// No session is left of a refused initialize.
func TestRefusedInitialize(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{})
		defer stop()
		status, answer := c.post("/mcp", strings.Replace(initialize(handshake), `{}`, `{"x":"`+large(3<<20)+`"}`, 1))
		if status != http.StatusOK || code(t, answer) != -32602 {
			t.Errorf("got %d %.200s, want 200 with -32602", status, answer)
		}
		synctest.Wait()
		if n := c.server.open.Load(); n != 0 {
			t.Errorf("%d sessions are left, want none", n)
		}
	})
}

// A disconnect cancels the request of a stateless client, but not one in a session.
func TestDisconnect(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{})
		id := c.open()
		for _, r := range []*http.Request{c.modern("1", "wait", "", ""), c.request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"wait"}`, "Mcp-Session-Id", id)} {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-c.server.waiting
				cancel()
			}()
			if _, err := c.client.Do(r.WithContext(ctx)); err == nil {
				t.Error("got an answer")
			}
			synctest.Wait()
		}
		c.server.mu.Lock()
		for _, n := range c.server.sessions {
			if got, want := n.busy.Load(), map[bool]int64{true: 0, false: 1}[n.client.Multiplexed]; got != want {
				t.Errorf("pool %v: %d requests continue, want %d", n.client.Multiplexed, got, want)
			}
		}
		c.server.mu.Unlock()
		stop()
	})
}
