package proxy_test

import (
	"fmt"
	"testing"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/valuemodel"
)

// BenchmarkPrefetch is one call that passes through, one after the other, with
// every call looked up, learned from and prefetched, and with all of that off. None
// leaves time to fetch anything early.
func BenchmarkPrefetch(b *testing.B) {
	for _, mode := range []string{"off", "on"} {
		for _, size := range []int{1 << 10, 100 << 10} {
			b.Run(fmt.Sprintf("%s/%dKB", mode, size>>10), func(b *testing.B) {
				up := child(b, mcptest.Options{Name: "one"})
				up.Exclusive = true
				o := stored(b, []valuemodel.Rule{reading("one/big", 0)}, up)
				o.Enrichment.Mode, o.Enrichment.Learn = mode, true
				c := dialTo(b, o)
				line := bigCall(size)
				c.ask(b, line)
				b.ReportAllocs()
				for b.Loop() {
					c.ask(b, line)
				}
			})
		}
	}
}
