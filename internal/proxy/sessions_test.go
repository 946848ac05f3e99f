package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
)

// settles looks until ok: what it looks at has no event to wait for.
func settles(t *testing.T, what string, ok func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	late := time.After(patience)
	for !ok() {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("not so within %v: %s", patience, what)
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// 1,000 sessions, each with a connection of its own to the upstream, that came
// and went leave nothing here and nothing there.
func TestDroppedSessionsLeaveNothing(t *testing.T) {
	server, up := remote(t, mcptest.Options{Name: "a"})
	p := proxy.New(options(up), nil)
	t.Cleanup(p.Close)
	web := httptest.NewServer(p.Handler())
	t.Cleanup(web.Close)
	f := &httpClient{t: t, url: web.URL, client: web.Client()}
	session := func() {
		id := f.open("/mcp", handshake)
		_, answer := f.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`, "Mcp-Session-Id", id)
		if !strings.Contains(answer, `"text":"a"`) {
			t.Errorf("got %s", answer)
		}
		f.do(f.request(http.MethodDelete, "/mcp", "", "Mcp-Session-Id", id)).Body.Close()
	}
	quiet := func() bool { return server.Sessions() == 0 }
	for range 20 {
		session()
	}
	settles(t, "the first sessions are gone", quiet)
	f.client.CloseIdleConnections()
	goroutines, bytes := runtime.NumGoroutine(), heap()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range slice(25, 250) {
				session()
			}
		})
	}
	all.Wait()
	settles(t, "the upstream has no session left", quiet)
	settles(t, "the proxy has no session left", func() bool { return p.Stats().Sessions == 0 })
	f.client.CloseIdleConnections()
	settles(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines+20 })
	// The server under test keeps every message it saw: about 1 KB a session.
	if got, most := heap(), bytes+uint64(slice(3, 8))<<20; got > most {
		t.Errorf("the heap grew from %d to %d bytes", bytes, got)
	}
}

// Every session has a process of its own, which ends with it.
func TestDroppedSessionsLeaveNoProcess(t *testing.T) {
	beacon := mcptest.NewGate(t)
	f := serveTCP(t, options(child(t, mcptest.Options{Name: "a", Beacon: beacon.Addr()})))
	for range soak(20) {
		id := f.open("/mcp", handshake)
		process := beacon.Next()
		f.do(f.request(http.MethodDelete, "/mcp", "", "Mcp-Session-Id", id)).Body.Close()
		process.Gone()
	}
}
