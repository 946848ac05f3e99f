package limit_test

import (
	"fmt"
	"testing"

	"mcpschedd/internal/limit"
)

func BenchmarkTryEnter(b *testing.B) {
	for _, hosts := range []int{1, 1000, 10000} {
		b.Run(fmt.Sprint(hosts), func(b *testing.B) {
			h := limit.New(nil)
			names := make([]string, hosts)
			for i := range names {
				names[i] = fmt.Sprintf("host-%d.example.com", i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				slot, _ := h.TryEnter(names[i%hosts])
				slot.Leave(limit.Outcome{})
			}
		})
	}
}
