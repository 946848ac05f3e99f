package proxy_test

import (
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// A write through one of two servers of a process invalidates the answers that the other holds, and neither
// serves the other's answers.
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

// A shared server that must not ask is offered no client that can be asked, and no client is asked.
func TestUnasking(t *testing.T) {
	for _, era := range []string{handshake, stateless} {
		for _, theirs := range []string{"handshake", "stateless"} {
			up := child(t, mcptest.Options{Name: "one", Era: theirs})
			up.Spec.Shared, up.Spec.NoCapabilities = true, true
			c := connect(t, start(t, options(up)), era)
			c.call("echo", `{}`)
			if seen := c.call("seen", ""); strings.Contains(seen, "elicitation") || strings.Contains(seen, "roots") {
				t.Errorf("%s client, %s server: it was told %s", era, theirs, seen)
			}
		}
	}
	up := child(t, mcptest.Options{Name: "one"})
	up.Spec.Shared, up.Spec.NoCapabilities = true, true
	c := connect(t, start(t, options(up)), handshake)
	if told := c.call("ask", `{"asks":[{"method":"roots/list"}]}`); !strings.Contains(told, "-32601") {
		t.Errorf("got %s from a server that asked, want its question refused", told)
	}
	for len(c.notes) > 0 {
		if m := <-c.notes; m.ID != nil {
			t.Errorf("the client was asked %s", m.Raw)
		}
	}
}
