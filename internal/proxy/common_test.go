package proxy_test

import (
	"encoding/json"
	"testing"
	"time"

	"mcpschedd/internal/budget"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/record"
	"mcpschedd/internal/valuemodel"
)

// A write through one of two servers of a process invalidates the answers that the other one has
// cached. Neither serves the other's answers. What they share counts once in their figures.
func TestCommon(t *testing.T) {
	var callers []*caller
	rules := []valuemodel.Rule{reading("one/echo", time.Hour)}
	pool := budget.Rules{Pool: 1_000_000, Window: time.Hour}
	first := stored(t, rules)
	first.Budgets = pool
	common := proxy.NewCommon(first)
	t.Cleanup(common.Close)
	for range 2 {
		o := stored(t, rules, child(t, mcptest.Options{Name: "one"}))
		o.Common, o.Budgets = common, pool
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
	var figures record.Stats
	if err := json.Unmarshal(common.Figures(), &figures); err != nil || len(figures.Running) != 2 {
		t.Fatalf("got %+v, %v, want the figures of both", figures.Running, err)
	}
	if a, b := figures.Running[0], figures.Running[1]; a.Pool == nil || b.Pool != nil || b.MemoryKB != 0 {
		t.Errorf("got the memory and the pool of the process as %d KiB, %v and %d KiB, %v, want them once", a.MemoryKB, a.Pool, b.MemoryKB, b.Pool)
	}
}
