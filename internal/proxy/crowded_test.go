package proxy_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
)

// initialize tries to open a session.
func (f *httpClient) initialize() (id string, status int, answer string) {
	f.T.Helper()
	r := f.Do(f.Request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+handshake+`","capabilities":{}}}`))
	return r.Header.Get("Mcp-Session-Id"), r.StatusCode, mcptest.Text(f.T, r)
}

// ableTo makes a stateless request of a client with the given capabilities.
func (f *httpClient) ableTo(capabilities string) (status int, answer string) {
	f.T.Helper()
	return f.Post("/mcp", mcptest.ModernBody("1", "tools/list", "", capabilities), "Mcp-Protocol-Version", stateless, "Mcp-Method", "tools/list")
}

// Clients connect, call, listen and disconnect at random, and each new session evicts another one.
// Every request gets its response, or an error that its session has ended or that all sessions are
// in use, and nothing is left.
func TestSessionsChurn(t *testing.T) {
	_, up := remote(t, mcptest.Options{Name: "a"})
	o := options(up)
	o.HTTP.MaxSessions = 24
	goroutines := runtime.NumGoroutine()
	s := proxy.New(o, nil)
	web := httptest.NewServer(s.HTTP())
	f := &httpClient{mcptest.WebClient{T: t, URL: web.URL, Client: web.Client()}}
	var ended, refused atomic.Int64
	var all sync.WaitGroup
	for client := range 8 {
		all.Go(func() {
			dice := rand.New(rand.NewPCG(1, uint64(client)))
			id := ""
			for range soak(60) {
				status, answer, stateless := 0, "", false
				switch dice.IntN(6) {
				case 0:
					id, status, answer = f.initialize()
				case 1:
					status, answer = f.ableTo(fmt.Sprintf(`{"experimental":{"%d":{}}}`, dice.IntN(4)))
					stateless = true
				case 2:
					if id != "" {
						r := f.Do(f.Request(http.MethodGet, "/mcp", "", "Mcp-Session-Id", id))
						status = r.StatusCode
						r.Body.Close()
					}
				case 3:
					if id != "" {
						r := f.Do(f.Request(http.MethodDelete, "/mcp", "", "Mcp-Session-Id", id))
						status, id = r.StatusCode, ""
						r.Body.Close()
					}
				default:
					if id != "" {
						status, answer = f.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`, "Mcp-Session-Id", id)
						if status == 200 && !strings.Contains(answer, `"text":"a"`) {
							t.Errorf("got %s", answer)
						}
					}
				}
				switch {
				case status == 404 && !stateless:
					ended.Add(1)
					id = ""
				case status == 503:
					refused.Add(1)
				case status != 0 && status != 200 && status != 204:
					t.Errorf("got %d %s", status, answer)
				}
			}
		})
	}
	all.Wait()
	mcptest.Eventually(t, "at most 6 sessions are left", func() bool { return s.Stats().Sessions <= 6 })
	t.Logf("%d requests of evicted sessions, %d sessions refused", ended.Load(), refused.Load())
	web.Close()
	s.Close()
	mcptest.Eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines+20 })
}

// Sessions with servers of their own keep neither the lists that they were sent nor those of the servers, which are equal:
// with many sessions, these would be most of the memory.
func TestListsAreKeptOnce(t *testing.T) {
	const sessions = 40
	tool := fmt.Sprintf(`{"name":"t","description":%q,"inputSchema":{"type":"object"}}`, strings.Repeat("long ", 100_000))
	_, up := remote(t, mcptest.Options{Name: "a", Tools: []string{tool}})
	o := options(up)
	o.HTTP.MaxSessions = 4 * (sessions + 1)
	f := serveTCP(t, o)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // pooled buffers outlive the first one
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	list := func() {
		id, _, _ := f.initialize()
		answer := f.Do(f.Request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Session-Id", id))
		defer answer.Body.Close()
		if n, err := io.Copy(io.Discard, answer.Body); n < int64(len(tool)) {
			t.Fatalf("got %d bytes, %v", n, err)
		}
	}
	list()
	before := heap()
	for range sessions {
		list()
	}
	if grown := heap() - before; grown > sessions*int64(len(tool))/2 {
		t.Errorf("%d sessions with a list of %d bytes use %d bytes", sessions, len(tool), grown)
	}
}
