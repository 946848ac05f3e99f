package upstream_test

import (
	"strings"
	"testing"

	"mcpschedd/internal/upstream"
)

// An upstream that cannot be started is down with an error. An unused one is idle.
func TestHealth(t *testing.T) {
	changed := make(chan struct{}, 64)
	up := upstream.New(upstream.Spec{Name: "pg", Command: upstream.Command{Path: "/no/such/sk-live-0123456789abcdef"}, Secrets: []string{"sk-live-0123456789abcdef"}}, upstream.Options{
		Changed: func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
	})
	defer up.Close()
	if got := up.Health(); got.State != "idle" || !got.Since.IsZero() || got.Restarts != 0 {
		t.Errorf("before a session: got %+v", got)
	}
	up.Prepare()
	if got := up.Health(); got.State == "down" && got.Since.IsZero() { // at once, as the program is missing
		t.Errorf("at first: got %+v", got)
	}
	got := up.Health()
	for ; got.State != "down" || got.Restarts == 0; got = up.Health() {
		<-changed
	}
	if got.Since.IsZero() || got.Restarts == 0 || got.Error == "" || strings.Contains(got.Error, "sk-live-0123456789abcdef") {
		t.Errorf("after it: got %+v", got)
	}
}
