package proxy_test

import (
	"net/http"
	"testing"

	"mcpschedd/internal/mcptest"
)

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
