package front_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/front"
	"mcpschedd/internal/mcptest"
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
				c.Do(c.Request(http.MethodDelete, "/mcp", "", "Mcp-Session-Id", id)).Body.Close()
			case 1:
				c.get(id).Body.Close()
			}
		}
		stop()
	})
}

// A session with pending work is neither expired nor evicted.
func TestPendingSessionsAreKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{HTTP: front.HTTPOptions{SessionIdle: time.Hour, MaxSessions: 12}})
		defer stop()
		pending, ended, idle := c.open(), c.open(), c.open()
		c.session(pending).pend(true)
		c.session(ended).pend(true)
		last := c.open()
		for id, want := range map[string]int{pending: 200, ended: 200, idle: 404, last: 200} {
			if got := c.ping(id); got != want {
				t.Errorf("after a fourth session: got %d, want %d", got, want)
			}
		}
		c.session(ended).pend(false)
		time.Sleep(3 * time.Hour)
		for id, want := range map[string]int{pending: 200, ended: 404, last: 404} {
			if got := c.ping(id); got != want {
				t.Errorf("after three hours: got %d, want %d", got, want)
			}
		}
		c.session(pending).pend(false)
		time.Sleep(2*time.Hour + time.Second) // the timer checks every hour
		if got := c.ping(pending); got != 404 {
			t.Errorf("when its work has ended: got %d, want 404", got)
		}
	})
}

// Of several sessions without an open request or stream, the one that has been idle for longest makes room. It need not
// be the oldest.
func TestLongestIdleSessionMakesRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{HTTP: front.HTTPOptions{MaxSessions: 20}})
		defer stop()
		streaming := c.open()
		stream := c.get(streaming)
		defer stream.Body.Close()
		go io.Copy(io.Discard, stream.Body)
		var idle []string
		for range 10 {
			time.Sleep(time.Second)
			if idle = append(idle, c.open()); len(idle) < 4 {
				continue
			} else if len(idle) == 4 { // the second is now idle for longest
				time.Sleep(time.Second)
				c.ping(idle[0])
				idle = append(idle[1:], idle[0])
				continue
			}
			if got := c.ping(idle[0]); got != http.StatusNotFound {
				t.Errorf("the session that has been idle for longest: got %d, want 404", got)
			}
			idle = idle[1:]
		}
		for _, id := range append(idle, streaming) {
			if got := c.ping(id); got != http.StatusOK {
				t.Errorf("got %d, want 200", got)
			}
		}
	})
}

// While there is room, a new session costs the same however many are open: none of them is asked if it has pending work.
func TestNewSessionAsksNoOther(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{HTTP: front.HTTPOptions{MaxSessions: 40}})
		defer stop()
		for n := range 11 {
			c.open()
			if asked := c.server.asked.Load(); asked > 0 != (n == 10) {
				t.Errorf("session %d: others were asked %d times", n+1, asked)
			}
		}
	})
}

// Stateless clients share a session only if they have the same name and capabilities and use the same endpoint. A
// session with a handshake is found at its own endpoint alone.
func TestSessionsAreKeptApart(t *testing.T) {
	for _, token := range []string{"", "s3cret"} {
		c := serveTCP(t, front.Options{Has: func(string) bool { return true }, HTTP: front.HTTPOptions{Token: token}})
		for _, r := range [][3]string{
			{"/mcp", "a", `{"roots":{},"sampling":{}}`},
			{"/mcp", "a", `{"sampling": {}, "\u0072oots": {}}`}, // the same
			{"/mcp", "b", `{"roots":{},"sampling":{}}`},
			{"/mcp", "a", `{"roots":{}}`},
			{"/mcp/one", "a", `{"roots":{},"sampling":{}}`},
		} {
			body := strings.Replace(mcptest.ModernBody("1", "tools/list", "", r[2]), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"`+r[1]+`","version":"1"},`, 1)
			if status, answer := c.Post(r[0], body, "Mcp-Protocol-Version", stateless, "Mcp-Method", "tools/list", "Authorization", "Bearer "+token); status != http.StatusOK {
				t.Errorf("%q: got %d %s", r, status, answer)
			}
		}
		var only []string
		c.server.mu.Lock()
		for _, n := range c.server.sessions {
			only = append(only, n.client.Only)
			if !n.client.Multiplexed || n.client.Anonymous != (token == "") {
				t.Errorf("with token %q: got the client %+v", token, n.client)
			}
		}
		c.server.mu.Unlock()
		if !slices.Equal(only, []string{"", "", "", "one"}) {
			t.Errorf("got sessions of the endpoints %q", only)
		}
		if token != "" {
			continue
		}
		if status, _ := c.Post("/mcp/one", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", c.open()); status != http.StatusNotFound {
			t.Errorf("at another endpoint: got %d, want 404", status)
		}
	}
}

// No session begins once the server ends, and all end if it cannot accept connections any more.
func TestNoSessionIsLeftAtTheEnd(t *testing.T) {
	t.Run("a late initialize", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			_, ln, stop := servePipes(t, front.Options{})
			body := initialize(handshake)
			conn := write(t, ln, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:10])
			defer conn.Close()
			synctest.Wait()
			go func() {
				time.Sleep(50 * time.Millisecond)
				_, _ = io.WriteString(conn, body[10:])
			}()
			stopped := make(chan struct{})
			go func() {
				stop()
				close(stopped)
			}()
			if r, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || r.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("got %v (%v), want 503", r, err)
			}
			<-stopped
		})
	})
	t.Run("a listener that fails", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			s := newServer()
			ln := mcptest.NewPipes()
			served := make(chan error, 1)
			web := front.NewHTTP(front.Options{NewSession: s.begin})
			go func() { served <- web.Serve(t.Context(), ln) }()
			transport := &http.Transport{DialContext: ln.Dial}
			(&caller{mcptest.WebClient{T: t, URL: "http://localhost", Client: &http.Client{Transport: transport}}, web, s}).open()
			transport.CloseIdleConnections()
			ln.Close()
			if err := <-served; err == nil || s.open.Load() != 0 {
				t.Errorf("got %v and %d sessions, want an error and none", err, s.open.Load())
			}
		})
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
			if status, answer := c.Post("/mcp", initialize(handshake)); status != want {
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
		status, answer := c.Post("/mcp", strings.Replace(initialize(handshake), `{}`, `{"x":"`+strings.Repeat("x", 3<<20)+`"}`, 1))
		if status != http.StatusOK || mcptest.Code(t, answer) != -32602 {
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
		for _, r := range []*http.Request{c.Modern("1", "wait", "", ""), c.Request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"wait"}`, "Mcp-Session-Id", id)} {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-c.server.waiting
				cancel()
			}()
			if _, err := c.Client.Do(r.WithContext(ctx)); err == nil {
				t.Error("got an answer")
			}
			synctest.Wait()
		}
		c.server.mu.Lock()
		for _, n := range c.server.sessions {
			if n.client.Multiplexed && n.last.Send([]byte(`{"jsonrpc":"2.0","method":"late"}`)) == nil {
				t.Error("the response to a cancelled request took a message")
			}
			if got, want := n.busy.Load(), map[bool]int64{true: 0, false: 1}[n.client.Multiplexed]; got != want {
				t.Errorf("pool %v: %d requests continue, want %d", n.client.Multiplexed, got, want)
			}
		}
		c.server.mu.Unlock()
		stop()
	})
}

// Sessions with an open request or stream are kept. If all are, a new session is refused on any transport.
func TestBusySessionsAreKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{HTTP: front.HTTPOptions{MaxSessions: 12}})
		defer stop()
		calling, listening := c.open(), c.open()
		answered := make(chan struct{})
		go func() {
			c.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"wait"}`, "Mcp-Session-Id", calling)
			close(answered)
		}()
		<-c.server.waiting
		defer c.get(listening).Body.Close()
		legacy := c.Do(c.Request(http.MethodGet, "/sse", ""))
		synctest.Wait()
		for what, r := range map[string]*http.Request{
			"initialize": c.Request(http.MethodPost, "/mcp", initialize(handshake)),
			"stateless":  c.Modern("1", "tools/list", "", ""),
			"/sse":       c.Request(http.MethodGet, "/sse", ""),
		} {
			w := c.Do(r)
			if answer := mcptest.Text(t, w); w.StatusCode != http.StatusServiceUnavailable || w.Header.Get("Retry-After") == "" || mcptest.Code(t, answer) != -32603 || !strings.Contains(answer, "a quarter of max_sessions") {
				t.Errorf("%s: got %d %s, want 503 with the reason, and when to retry", what, w.StatusCode, answer)
			}
		}
		close(c.session(calling).gate)
		<-answered
		synctest.Wait()
		c.open()
		if got := c.ping(calling); got != http.StatusNotFound {
			t.Errorf("the idle session: got %d, want 404", got)
		}
		if got := c.ping(listening); got != http.StatusOK {
			t.Errorf("the session with a stream: got %d, want 200", got)
		}
		legacy.Body.Close()
	})
}
