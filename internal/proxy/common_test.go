package proxy_test

import (
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// A write through one of two servers of a process invalidates the answers that the other one has
// cached. Neither serves the other's answers.
func TestCommon(t *testing.T) {
	var callers []*caller
	rules := []valuemodel.Rule{reading("one/echo", time.Hour)}
	common := proxy.NewCommon(stored(t, rules))
	t.Cleanup(common.Close)
	for range 2 {
		o := stored(t, rules, child(t, mcptest.Options{Name: "one"}))
		o.Common = common
		callers = append(callers, connect(t, start(t, o), handshake))
	}
	a, b := callers[0], callers[1]
	for _, step := range []struct {
		of         *caller
		tool, want string
	}{{a, "echo", "fetched"}, {a, "echo", "hit"}, {b, "echo", "fetched"}, {b, "pid", "fetched"}, {a, "echo", "fetched"}, {a, "echo", "hit"}} {
		if how := disposition(t, step.of.call(step.tool, `{}`)); how != step.want {
			t.Errorf("%s: got %s, want %s", step.tool, how, step.want)
		}
	}
}
