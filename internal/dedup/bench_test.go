package dedup_test

import (
	"fmt"
	"testing"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

// TestRegisterWriteAllocates: every call that goes upstream is registered, so it must be cheap.
func TestRegisterWriteAllocates(t *testing.T) {
	s := newStore(t)
	if got := testing.AllocsPerRun(100, func() { s.RegisterWrite(call.Effect{}).End() }); got > 1 {
		t.Errorf("%v allocations, want at most 1", got)
	}
}

func BenchmarkHit(b *testing.B) {
	for _, known := range []bool{false, true} {
		b.Run(fmt.Sprintf("delivered=%v", known), func(b *testing.B) {
			s := newStore(b)
			q := query(pure, host, edge)
			if known {
				q.Delivered = dedup.NewDelivered()
			}
			wait(b, s, q).flight.Finish(make([]byte, 1024), false, true)
			w := &dedup.Waiter{Done: func(dedup.Outcome) {}}
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				s.Do(ctx, q, w, nil)
			}
		})
	}
}
