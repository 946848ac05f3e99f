package front_test

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/front"
	"mcpschedd/internal/mcptest"
)

// HEAD opens no session: its response has no body that could name the endpoint.
func TestHeadOfLegacySSE(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{})
		defer stop()
		r := c.Do(c.Request(http.MethodHead, "/sse", ""))
		r.Body.Close()
		if n := c.server.open.Load(); r.StatusCode != http.StatusMethodNotAllowed || n != 0 {
			t.Errorf("got %s and %d sessions, want 405 and none", r.Status, n)
		}
	})
}

// A session that ends answers its open requests on the stream before the stream ends.
func TestLegacySSEShutdown(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{})
		defer stop()
		stream := c.Do(c.Request(http.MethodGet, "/sse", ""))
		next := mcptest.EventReader(stream.Body)
		endpoint, err := next()
		if err != nil {
			t.Fatal(err)
		}
		for id := range 20 {
			if status, _ := c.Post(endpoint, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"wait"}`, id)); status != http.StatusAccepted {
				t.Fatalf("got %d, want 202", status)
			}
			<-c.server.waiting
		}
		var answers []string
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for got, err := next(); err == nil; got, err = next() {
				answers = append(answers, got)
			}
		}()
		stop()
		<-ended
		if len(answers) != 20 || slices.ContainsFunc(answers, func(a string) bool { return !strings.HasSuffix(a, `"result":{}}`) }) {
			t.Errorf("got %d answers, want 20: %q", len(answers), answers)
		}
	})
}

// A request of which the body arrives after its session has ended is refused.
func TestLegacySSELateBody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, ln, stop := servePipes(t, front.Options{})
		defer stop()
		stream := c.Do(c.Request(http.MethodGet, "/sse", ""))
		endpoint, err := mcptest.EventReader(stream.Body)()
		if err != nil {
			t.Fatal(err)
		}
		const body = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		conn := write(t, ln, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", endpoint, len(body), body[:10])
		defer conn.Close()
		synctest.Wait()
		stream.Body.Close()
		synctest.Wait()
		go fmt.Fprint(conn, body[10:])
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || r.StatusCode != http.StatusNotFound {
			t.Errorf("got %v (%v), want 404", r, err)
		}
	})
}

// The messages of a client that does not read its stream are refused until it has read.
func TestLegacySSENotRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{})
		defer stop()
		stream := c.Do(c.Request(http.MethodGet, "/sse", ""))
		defer stream.Body.Close()
		next := mcptest.EventReader(stream.Body)
		endpoint, err := next()
		if err != nil {
			t.Fatal(err)
		}
		post := func() (status int, answer string) {
			status, answer = c.Post(endpoint, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"fill":%q}}`, strings.Repeat("x", 1<<20)))
			synctest.Wait() // its response is queued
			return status, answer
		}
		status, answer, accepted := 0, "", -1
		for ok := true; ok && accepted < 20; ok = status == http.StatusAccepted {
			status, answer = post()
			accepted++
		}
		if status != http.StatusServiceUnavailable || accepted < 8 || accepted > 10 || !strings.Contains(answer, "does not read") {
			t.Fatalf("after %d requests with responses of 1 MiB: got %d %.200s, want 503 when the backlog is full", accepted, status, answer)
		}
		for range accepted {
			if _, err := next(); err != nil {
				t.Fatal(err)
			}
		}
		if status, answer := post(); status != http.StatusAccepted {
			t.Errorf("once it has read: got %d %.200s, want 202", status, answer)
		}
	})
}

func TestLegacySSE(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{})
		defer stop()
		stream := c.Do(c.Request(http.MethodGet, "/sse", ""))
		next := mcptest.EventReader(stream.Body)
		endpoint, err := next()
		if err != nil || !strings.HasPrefix(endpoint, "/message?sessionId=") {
			t.Fatalf("got %q (%v), want the endpoint", endpoint, err)
		}
		send := func(body string, want int) {
			t.Helper()
			if status, answer := c.Post(endpoint, body); status != want {
				t.Errorf("got %d %s, want %d", status, answer, want)
			}
		}
		send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, 202)
		if got, err := next(); err != nil || !strings.Contains(got, `"id":0,"result":{"protocolVersion":"2024-11-05"`) {
			t.Errorf("got %s (%v)", got, err)
		}
		send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202)
		send(" {\"jsonrpc\":\"2.0\",\n\"id\":1,\"method\":\"ping\"}\n", 202)
		if got, err := next(); err != nil || got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
			t.Errorf("got %s (%v)", got, err)
		}
		send("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"echo\",\"params\":{\n\"a\":1}}", 202)
		if got, err := next(); err != nil || got != `{"jsonrpc":"2.0","id":5,"result":{ "a":1}}` {
			t.Errorf("got %s (%v)", got, err)
		}
		send(`{"jsonrpc"`, 400)
		send(`{"id":3}`, 202)
		if got, err := next(); err != nil || !strings.Contains(got, `"id":3,"error":{"code":-32600`) {
			t.Errorf("got %s (%v)", got, err)
		}
		id := strings.TrimPrefix(endpoint, "/message?sessionId=")
		if status, _ := c.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", id); status != 404 {
			t.Errorf("its id in a POST to /mcp: got %d, want 404", status)
		}
		stream.Body.Close()
		synctest.Wait()
		send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`, 404)
	})
}
