package front_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/front"
	"mcpschedd/internal/mcptest"
)

// half sends the beginning of a request and keeps the connection open.
func half(t *testing.T, ln *mcptest.Pipes, length, sent int) net.Conn {
	t.Helper()
	return write(t, ln, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", length, strings.Repeat("x", sent))
}

// The bodies of incomplete requests together use bounded memory. At the limit other requests are
// refused, until the incomplete ones have timed out.
func TestIncompleteBodiesAreLimited(t *testing.T) {
	for _, test := range []struct {
		name                 string
		length, sent, others int // bytes, bytes, and number of bodies up to the limit
	}{
		{"a large body", 1 << 20, 1<<20 - 16<<10 - 100, 16},
		{"a small body", 100, 1, 1024},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, ln, stop := servePipes(t, front.Options{MaxMessage: 1 << 20})
				defer stop()
				id := c.open()
				for range test.others {
					defer half(t, ln, test.length, test.sent).Close()
				}
				synctest.Wait()
				status, answer := c.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", id)
				if status != http.StatusServiceUnavailable || mcptest.Code(t, answer) != -32600 || !strings.Contains(answer, "request bodies") {
					t.Errorf("got %d %s, want 503 with the reason", status, answer)
				}
				time.Sleep(2 * time.Minute) // the incomplete bodies have timed out
				if got := c.ping(id); got != 200 {
					t.Errorf("later: got %d, want 200", got)
				}
			})
		})
	}
}

// A body is given no more memory for the length that its header claims than it counts.
func TestBufferOfAStalledBody(t *testing.T) {
	web := front.NewHTTP(front.Options{NewSession: newServer().begin})
	body := &offered{}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", body)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = 1 << 20
	web.ServeHTTP(httptest.NewRecorder(), r)
	if body.room == 0 || body.room > 32<<10 {
		t.Errorf("got a buffer of %d bytes before the first has arrived, want at most 32 KiB", body.room)
	}
}

// offered is a body without bytes that records the buffer of the first read.
type offered struct{ room int }

func (o *offered) Read(p []byte) (int, error) {
	o.room = max(o.room, len(p))
	return 0, io.ErrUnexpectedEOF
}

// The memory of a body is released however its request ends.
func TestBodyMemoryIsReleased(t *testing.T) {
	c := serveTCP(t, front.Options{MaxMessage: 1 << 20})
	id := c.open()
	stream := c.Do(c.Request(http.MethodGet, "/sse", ""))
	defer stream.Body.Close()
	events := mcptest.EventReader(stream.Body)
	endpoint, err := events()
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.Repeat("x", 1<<20-200)
	for i := range 17 { // 16 fit at the same time
		for what, post := range map[string]func() (int, string){
			"ping": func() (int, string) {
				return c.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"fill":"`+fill+`"}}`, "Mcp-Session-Id", id)
			},
			"notification": func() (int, string) {
				return c.Post("/mcp", `{"jsonrpc":"2.0","method":"notifications/x","params":{"fill":"`+fill+`"}}`, "Mcp-Session-Id", id)
			},
			"not JSON": func() (int, string) { return c.Post("/mcp", fill, "Mcp-Session-Id", id) },
			"legacy": func() (int, string) {
				return c.Post(endpoint, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"fill":"`+fill+`"}}`)
			},
		} {
			if status, answer := post(); status == http.StatusServiceUnavailable {
				t.Fatalf("%s %d: got 503 %s", what, i, answer)
			}
		}
		if _, err := events(); err != nil {
			t.Fatal(err)
		}
	}
}

// clientInfo and capabilities are kept with the session, so their size is limited.
func TestLargeClientIsRefused(t *testing.T) {
	c := serveTCP(t, front.Options{})
	fill := strings.Repeat("x", 2<<20)
	status, answer := c.Post("/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+handshake+`","capabilities":{"experimental":{"x":{"fill":"`+fill+`"}}}}}`)
	if status != 200 || mcptest.Code(t, answer) != -32602 {
		t.Errorf("initialize: got %d %.200s, want -32602", status, answer)
	}
	able := `{"experimental":{"x":{"fill":"` + fill + `"}}}`
	status, answer = c.Post("/mcp", mcptest.ModernBody("1", "tools/list", "", able), "Mcp-Protocol-Version", stateless, "Mcp-Method", "tools/list")
	if status != 400 || mcptest.Code(t, answer) != -32602 {
		t.Errorf("stateless: got %d %.200s, want 400 with -32602", status, answer)
	}
}
