package proxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
)

// A text in another encoding, cut within a character, and with half of a surrogate pair, and how clients
// see it.
const (
	misencoded = "caf\xe9 \xf0\x9f ok \xed\xa0\x80\xff"
	asRead     = "caf\ufffd \ufffd ok \ufffd" // one for each run of invalid bytes
)

// latin answers every call, and lists a tool, with a text that is not UTF-8.
func latin(m jsonrpc.Message) []byte {
	result := `{}`
	switch m.Method {
	case "initialize":
		result = `{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"latin","version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"read","description":"` + misencoded + `","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		result = `{"content":[{"type":"text","text":"` + misencoded + `"}]}`
	}
	return jsonrpc.AppendResult(nil, m.ID, []byte(result))
}

func speakLines(conn net.Conn, frame func([]byte) string) {
	defer conn.Close()
	for r := jsonrpc.NewReader(conn, 0); ; {
		line, err := r.Next()
		if err != nil {
			return
		}
		if m, err := jsonrpc.Parse(line); err == nil && m.IsRequest() {
			fmt.Fprintln(conn, frame(latin(m)))
		}
	}
}

// linesOf serves processes; frame formats each answer.
func linesOf(t *testing.T, frame func([]byte) string) proxy.Upstream {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	clients.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			clients.Go(func() { speakLines(conn, frame) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		clients.Wait()
	})
	return child(t, mcptest.Options{Name: "one", Relay: ln.Addr().String()})
}

// web serves posted messages; answer writes the response to one.
func web(t *testing.T, answer func(w http.ResponseWriter, line []byte)) proxy.Upstream {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		m, parseErr := jsonrpc.Parse(body)
		switch {
		case err != nil || r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case parseErr == nil && m.IsRequest():
			answer(w, latin(m))
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(server.Close)
	return proxy.Upstream{Fingerprint: server.URL, Spec: upstream.Spec{Name: "one", URL: server.URL, StartTimeout: patience, MaxMessage: 8 << 20}}
}

// legacy serves the transport of 2024-11-05, which sends all answers to a client on one stream.
func legacy(t *testing.T) proxy.Upstream {
	var streams sync.Map // path to post to → its chan []byte
	var opened atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			if m, err := jsonrpc.Parse(body); err == nil && m.IsRequest() {
				answers, _ := streams.Load(r.URL.Path)
				answers.(chan []byte) <- latin(m)
			}
			w.WriteHeader(http.StatusAccepted)
			return
		}
		answers, path := make(chan []byte, 100), fmt.Sprintf("/post/%d", opened.Add(1))
		streams.Store(path, answers)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", path)
		for {
			_ = http.NewResponseController(w).Flush()
			select {
			case line := <-answers:
				fmt.Fprintf(w, "event: message\ndata: %s\n\n", line)
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	return proxy.Upstream{Fingerprint: server.URL, Spec: upstream.Spec{Name: "one", URL: server.URL, SSE: true, StartTimeout: patience, MaxMessage: 8 << 20}}
}

// Invalid UTF-8 in a server's text arrives as U+FFFD, as in a client connected to the server itself, and nothing
// is lost.
func TestMisencodedTextIsRepaired(t *testing.T) {
	for name, up := range map[string]func(*testing.T) proxy.Upstream{
		"stdio": func(t *testing.T) proxy.Upstream { return linesOf(t, func(line []byte) string { return string(line) }) },
		"stdio, batch": func(t *testing.T) proxy.Upstream {
			return linesOf(t, func(line []byte) string {
				return `[{"jsonrpc":"2.0","method":"notifications/none"},` + string(line) + `]`
			})
		},
		"JSON": func(t *testing.T) proxy.Upstream {
			return web(t, func(w http.ResponseWriter, line []byte) {
				w.Header().Set("Content-Type", "application/json")
				w.Write(line)
			})
		},
		"JSON, batch": func(t *testing.T) proxy.Upstream {
			return web(t, func(w http.ResponseWriter, line []byte) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, "[%s]", line)
			})
		},
		"event stream": func(t *testing.T) proxy.Upstream {
			return web(t, func(w http.ResponseWriter, line []byte) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprintf(w, "data: %s\n\n", line)
			})
		},
		"HTTP+SSE": legacy,
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, options(up(t)))
			for _, era := range []string{handshake, stateless} {
				c := connect(t, s, era)
				if got := c.request("tools/list", ""); !strings.Contains(got, `"`+asRead+`"`) {
					t.Errorf("%s: got %s", era, got)
				}
				if got := c.call("read", ""); !strings.Contains(got, `"`+asRead+`"`) {
					t.Errorf("%s: got %s", era, got)
				}
			}
		})
	}
}
