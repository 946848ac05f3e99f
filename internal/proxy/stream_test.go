package proxy_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/front"
	"mcpschedd/internal/proxy"
)

func TestSlowClientIsCutOff(t *testing.T) {
	const host = " HTTP/1.1\r\nHost: localhost\r\n"
	tests := []struct {
		name string
		send string        // %s is the session
		live time.Duration // the connection is open then
		over time.Duration // and closed then
		want string        // what can be read at the end
	}{
		{"head never sent", "POST /mcp HTTP/1.1\r\nHost: lo", 9 * time.Second, 11 * time.Second, ""},
		{"body nobody wants never sent", "POST /mcp HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 100\r\n\r\n{", 29 * time.Second, 31 * time.Second, ""},
		{"body never sent", "POST /mcp" + host + "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{", 29 * time.Second, 31 * time.Second, "408 Request Timeout"},
		{"answer never read", "POST /mcp" + host + "Mcp-Session-Id: %s\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 29 * time.Second, 31 * time.Second, ""},
		{"stream never read", "GET /mcp" + host + "Mcp-Session-Id: %s\r\n\r\n", 29 * time.Second, 31 * time.Second, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, ln, stop := servePipes(t, proxy.Options{})
				defer stop()
				id := f.open("/mcp", handshake)
				send := strings.ReplaceAll(test.send, "%s", id)
				for _, at := range []struct {
					after time.Duration
					open  bool
				}{{test.live, true}, {test.over, false}} {
					c, err := ln.dial(t.Context(), "", "")
					if err != nil {
						t.Fatal(err)
					}
					if _, err := io.WriteString(c, send); err != nil {
						t.Fatal(err)
					}
					if test.want != "" && !at.open { // what is said before closing
						body, err := io.ReadAll(c)
						if err != nil || !strings.Contains(string(body), test.want) {
							t.Errorf("got %q (%v), want %q", body, err, test.want)
						}
						continue
					}
					time.Sleep(at.after)
					synctest.Wait()
					err = c.SetReadDeadline(time.Now().Add(time.Millisecond))
					if err == nil {
						_, err = c.Read(make([]byte, 1))
					}
					if open := err == nil || errors.Is(err, os.ErrDeadlineExceeded); open != at.open {
						t.Errorf("after %v: open is %v, want %v (%v)", at.after, open, at.open, err)
					}
					c.Close()
				}
			})
		})
	}
}

func TestStreamIsKeptAliveAndReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, stop := servePipes(t, proxy.Options{})
		defer stop()
		id := f.open("/mcp", handshake)
		get := func() *http.Response { return f.do(f.request(http.MethodGet, "/mcp", "", "Mcp-Session-Id", id)) }
		first := get()
		if got := first.Header.Get("Content-Type"); got != "text/event-stream" || first.Header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("got %v", first.Header)
		}
		begin := time.Now()
		var b [3]byte
		for range 2 {
			if _, err := io.ReadFull(first.Body, b[:]); err != nil || string(b[:]) != ":\n\n" {
				t.Errorf("got %q (%v), want a comment", b, err)
			}
		}
		if got := time.Since(begin); got != 30*time.Second {
			t.Errorf("two comments after %v, want 30s", got)
		}
		second := get()
		if rest, err := io.ReadAll(first.Body); err != nil || len(rest) > 0 {
			t.Errorf("the first stream ended with %q (%v), want a clean end", rest, err)
		}
		if _, err := io.ReadFull(second.Body, b[:]); err != nil {
			t.Errorf("the second stream: %v", err)
		}
		first.Body.Close()
		second.Body.Close()
	})
}

func TestIdleSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, stop := servePipes(t, proxy.Options{HTTP: front.HTTPOptions{SessionIdle: time.Hour}})
		defer stop()
		used, unused, streaming := f.open("/mcp", handshake), f.open("/mcp", handshake), f.open("/mcp", handshake)
		stream := f.do(f.request(http.MethodGet, "/mcp", "", "Mcp-Session-Id", streaming))
		go io.Copy(io.Discard, stream.Body)
		status := func(id string) int {
			s, _ := f.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", id)
			return s
		}
		time.Sleep(59 * time.Minute)
		if got := status(used); got != 200 {
			t.Errorf("after 59 minutes: got %d, want 200", got)
		}
		time.Sleep(2*time.Minute + time.Second) // not just when an idle connection ends
		for id, want := range map[string]int{used: 200, unused: 404, streaming: 200} {
			if got := status(id); got != want {
				t.Errorf("after 61 minutes: got %d, want %d", got, want)
			}
		}
		stream.Body.Close()
		time.Sleep(time.Hour + time.Second)
		if got := status(streaming); got != 404 {
			t.Errorf("an hour after its stream: got %d, want 404", got)
		}
	})
}

// The bubble fails the test if any goroutine is left.
func TestThousandSessionsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, stop := servePipes(t, proxy.Options{})
		for i := range 1000 {
			id := f.open("/mcp", handshake)
			switch i % 3 {
			case 0:
				f.do(f.request(http.MethodDelete, "/mcp", "", "Mcp-Session-Id", id)).Body.Close()
			case 1:
				f.do(f.request(http.MethodGet, "/mcp", "", "Mcp-Session-Id", id)).Body.Close()
			}
		}
		stop()
	})
}

// No deadline of one read or write may end what takes longer.
func TestListenLastsAsLongAsItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, stop := servePipes(t, proxy.Options{HTTP: front.HTTPOptions{SessionIdle: time.Minute}})
		defer stop()
		body, header := modern("5", "subscriptions/listen", "", "")
		listen := f.do(f.request(http.MethodPost, "/mcp", body, header...))
		begin := time.Now()
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, listen.Body)
			ended <- err
		}()
		select {
		case err := <-ended:
			t.Errorf("ended after %v: %v", time.Since(begin), err)
		case <-time.After(3 * time.Hour):
		}
		listen.Body.Close()
		<-ended
	})
}

func TestShutdownAnswersOpenStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, stop := servePipes(t, proxy.Options{})
		id := f.open("/mcp", handshake)
		stream := f.do(f.request(http.MethodGet, "/mcp", "", "Mcp-Session-Id", id))
		body, header := modern("5", "subscriptions/listen", "", `"notifications":{"toolsListChanged":true}`)
		listen := f.do(f.request(http.MethodPost, "/mcp", body, header...))
		next := eventReader(listen.Body)
		if ack, err := next(); err != nil || !strings.Contains(ack, "notifications/subscriptions/acknowledged") {
			t.Fatalf("got %s (%v), want the acknowledgement", ack, err)
		}
		begin := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			stop()
		}()
		if last, err := next(); err != nil || !strings.Contains(last, `"id":5,"result":{`) || !strings.Contains(last, "subscriptionId") {
			t.Errorf("got %s (%v), want the graceful answer", last, err)
		}
		if rest, err := next(); err != io.EOF {
			t.Errorf("got %s (%v), want the end", rest, err)
		}
		if rest, err := io.ReadAll(stream.Body); err != nil {
			t.Errorf("session stream: got %q, %v, want a clean end", rest, err)
		}
		<-ended
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		listen.Body.Close()
		stream.Body.Close()
	})
}

func TestShutdownDoesNotWaitForAClientThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ln, stop := servePipes(t, proxy.Options{})
		id := f.open("/mcp", handshake)
		c, err := ln.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: "+id+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("took %v, want it to be bounded", took)
		}
	})
}
