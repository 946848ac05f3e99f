package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// BenchmarkPlan is a plan of 100 steps at a server that answers at once: what is
// left is what planning costs.
func BenchmarkPlan(b *testing.B) {
	for _, after := range []string{"nothing", "the step before"} {
		b.Run("each waits for "+after, func(b *testing.B) {
			up := child(b, mcptest.Options{Name: "one", Results: map[string]string{"big": `{"content":[{"type":"text","text":"done"}]}`}})
			o := stored(b, []valuemodel.Rule{reading("one/big", 0)}, up)
			o.Plans = proxy.Plans{Enabled: true, Limits: plan.Limits{Depth: 100}}
			c := dialTo(b, o)
			var steps []string
			for i := range 100 {
				on := ""
				if i > 0 && after != "nothing" {
					on = fmt.Sprintf(`,"depends_on":["s%d"]`, i-1)
				}
				steps = append(steps, fmt.Sprintf(`{"id":"s%d","tool":"big","arguments":{"n":%d}%s}`, i, i, on))
			}
			line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"execute_tool_plan","arguments":{"steps":[%s]}}}`+"\n", strings.Join(steps, ","))
			c.ask(b, line)
			b.ReportAllocs()
			for b.Loop() {
				c.ask(b, line)
			}
		})
	}
}
