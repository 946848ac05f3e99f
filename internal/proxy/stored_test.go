package proxy_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/valuemodel"
)

// BenchmarkStored measures one call that the store answers, from the bytes of the request on a
// pipe to those of the answer on another.
func BenchmarkStored(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			c := dialTo(b, stored(b, []valuemodel.Rule{reading("one/big", time.Hour)}, child(b, mcptest.Options{Name: "one"})))
			line := bigCall(size)
			c.ask(b, line)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if answer := c.ask(b, line); !bytes.Contains(answer[len(answer)-200:], []byte(`"mcpschedd/disposition":"hit"`)) {
					b.Fatalf("got %.200s, want a hit", answer)
				}
			}
		})
	}
}
