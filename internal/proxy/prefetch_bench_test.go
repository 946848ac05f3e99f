package proxy_test

import (
	"fmt"
	"testing"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/valuemodel"
)

// BenchmarkPrefetch measures consecutive calls that pass through, with every call observed, learned from and
// prefetched from, and with all of that off. No call leaves time for a prefetch.
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
