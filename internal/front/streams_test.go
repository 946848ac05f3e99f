package front_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/front"
)

func TestSlowClientIsCutOff(t *testing.T) {
	const host = " HTTP/1.1\r\nHost: localhost\r\n"
	tests := []struct {
		name string
		send string        // %s stands for the session id
		live time.Duration // time at which the connection must still be open
		over time.Duration // time at which it must be closed
		want string        // text at its end
	}{
		{"head never sent", "POST /mcp HTTP/1.1\r\nHost: lo", 9 * time.Second, 11 * time.Second, ""},
		{"unwanted body never sent", "POST /mcp HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 100\r\n\r\n{", 59 * time.Second, 61 * time.Second, ""},
		{"body never sent", "POST /mcp" + host + "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{", 59 * time.Second, 61 * time.Second, "408 Request Timeout"},
		{"answer never read", "POST /mcp" + host + "Mcp-Session-Id: %s\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 29 * time.Second, 31 * time.Second, ""},
		{"stream never read", "GET /mcp" + host + "Mcp-Session-Id: %s\r\n\r\n", 29 * time.Second, 31 * time.Second, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, ln, stop := servePipes(t, front.Options{})
				defer stop()
				id := c.open()
				send := strings.ReplaceAll(test.send, "%s", id)
				for _, at := range []struct {
					after time.Duration
					open  bool
				}{{test.live, true}, {test.over, false}} {
					conn := write(t, ln, "%s", send)
					if test.want != "" && !at.open { // the text before the connection closes
						body, err := io.ReadAll(conn)
						if err != nil || !strings.Contains(string(body), test.want) {
							t.Errorf("got %q (%v), want %q", body, err, test.want)
						}
						continue
					}
					time.Sleep(at.after)
					synctest.Wait()
					err := conn.SetReadDeadline(time.Now().Add(time.Millisecond))
					if err == nil {
						_, err = conn.Read(make([]byte, 1))
					}
					if open := err == nil || errors.Is(err, os.ErrDeadlineExceeded); open != at.open {
						t.Errorf("after %v: open is %v, want %v (%v)", at.after, open, at.open, err)
					}
					conn.Close()
				}
			})
		})
	}
}

func TestStreamIsKeptAliveAndReplaced(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{})
		defer stop()
		id := c.open()
		first := c.get(id)
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
		second := c.get(id)
		if rest, err := io.ReadAll(first.Body); err != nil || len(rest) > 0 {
			t.Errorf("the first stream ended with %q (%v), want a clean end", rest, err)
		}
		for range 2 { // the end of the first stream does not end it
			if _, err := io.ReadFull(second.Body, b[:]); err != nil {
				t.Errorf("the second stream: %v", err)
			}
		}
		first.Body.Close()
		second.Body.Close()
	})
}

// The stream of a session ends with it.
func TestStreamEndsWithItsSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{})
		defer stop()
		id := c.open()
		stream := c.get(id)
		defer stream.Body.Close()
		c.Do(c.Request(http.MethodDelete, "/mcp", "", "Mcp-Session-Id", id)).Body.Close()
		if n, err := stream.Body.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("got %d bytes and %v, want the end", n, err)
		}
	})
}

// A client that does not read its stream is sent as many notifications as the backlog holds, and all requests.
func TestStreamBackPressure(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{})
		defer stop()
		id := c.open()
		defer c.get(id).Body.Close()
		synctest.Wait()
		out := c.session(id).client.Out
		sent := 0
		for range 20 {
			if out.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"n","params":{"fill":%q}}`, strings.Repeat("x", 1<<20))) == nil {
				sent++
			}
		}
		if sent < 8 || sent > 10 {
			t.Errorf("%d notifications of 1 MiB were accepted, want as many as the backlog holds", sent)
		}
		if err := out.Send([]byte(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)); err != nil {
			t.Errorf("a request was not accepted: %v", err)
		}
	})
}

// A client that reads slowly but steadily receives all of a large message.
func TestSlowClientThatReads(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, stop := servePipes(t, front.Options{})
		defer stop()
		const size = 5 << 20
		r := c.Do(c.Request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"echo","params":{"fill":"`+strings.Repeat("x", size)+`"}}`, "Mcp-Session-Id", c.open()))
		defer r.Body.Close()
		var got int64
		for err := error(nil); err == nil; time.Sleep(20 * time.Second) {
			var n int64
			n, err = io.CopyN(io.Discard, r.Body, 1<<20)
			got += n
		}
		if got < size {
			t.Errorf("got %d bytes, want more than %d", got, size)
		}
	})
}

func TestShutdownDoesNotWaitForUnresponsiveClient(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, ln, stop := servePipes(t, front.Options{})
		id := c.open()
		defer write(t, ln, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: %s\r\n\r\n", id).Close()
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("took %v, want a bounded time", took)
		}
	})
}
