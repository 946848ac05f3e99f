package upstream_test

import (
	"strings"
	"testing"

	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// An upstream that cannot be started is down with an error, from the first moment until it is tried
// again after a pause. An unused one is idle.
func TestHealth(t *testing.T) {
	var up *upstream.Upstream
	after := make(chan upstream.Health, 64) // each change
	up = upstream.New(upstream.Spec{Name: "pg", Command: upstream.Command{Path: "/no/such/sk-live-0123456789abcdef"}, Secrets: []string{"sk-live-0123456789abcdef"}}, upstream.Quiet(upstream.Options{
		Changed: func() {
			select {
			case after <- up.Health():
			default:
			}
		},
	}))
	defer up.Close()
	if got := up.Health(); got.State != "idle" || !got.Since.IsZero() || got.Restarts != 0 {
		t.Errorf("before a session: got %+v", got)
	}
	up.Attach(revision.Client{}, upstream.Listener{})
	if got := up.Health(); got.State != "down" || got.Since.IsZero() {
		t.Errorf("at first: got %+v", got)
	}
	got := <-after
	if got.State != "down" || got.Since.IsZero() || got.Restarts == 0 || got.Error == "" || strings.Contains(got.Error, "sk-live-0123456789abcdef") {
		t.Errorf("after it: got %+v", got)
	}
}
