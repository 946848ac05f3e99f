package proxy_test

import (
	"net/http"
	"runtime"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
)

// settles polls ok until it returns true, for conditions without an event to wait for.
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
