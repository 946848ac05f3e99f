package dedup_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

// TestMemory checks that stored answers take about as much memory as is counted.
func TestMemory(t *testing.T) {
	const most = 8 << 20
	for _, tt := range []struct {
		name        string
		least, more int // bytes of an answer
		times       int // of what the store may hold, that is offered to it
	}{
		{"1 to 64 KB", 1 << 10, 63 << 10, 10},
		{"100 bytes", 100, 1, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := heap()
			s := dedup.New(dedup.Options{MaxBytes: most})
			body := make([]byte, tt.least+tt.more)
			for sent, i := 0, 0; sent < tt.times*most; i++ {
				q := query(pure, host, edge)
				q.Key.Arguments = fmt.Sprintf(`{"path":"file %d"}`, i)
				n := tt.least + rand.IntN(tt.more)
				sent += max(n, 512)
				s.Do(t.Context(), q, &dedup.Waiter{Done: func(dedup.Outcome) {}}, func(_ context.Context, f *dedup.Flight) {
					f.Settle(body[:n], false, true)
				})
			}
			got := s.Stats()
			if used := heap() - before; used > most*13/10 {
				t.Errorf("%d entries said to take %d bytes take %d, want at most 1.3 × %d", got.Entries, got.Bytes, used, most)
			}
			if got.Bytes < most*3/4 || got.Evicted == 0 {
				t.Errorf("got %+v, want a full store", got)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// heap returns the bytes of the heap in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestRegisterWriteAllocates: calls that only read are registered too, so it must be cheap.
func TestRegisterWriteAllocates(t *testing.T) {
	s := newStore(t)
	if got := testing.AllocsPerRun(100, func() { s.RegisterWrite(call.Effect{}).End() }); got > 1 {
		t.Errorf("%v allocations, want at most 1", got)
	}
}

func BenchmarkArriveEnd(b *testing.B) {
	for name, e := range map[string]call.Effect{"read": {}, "write": changes(host, edge)} {
		b.Run(name, func(b *testing.B) {
			s := newStore(b)
			b.ReportAllocs()
			for b.Loop() {
				s.RegisterWrite(e).End()
			}
		})
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
			wait(b, s, q).flight.Settle(make([]byte, 1024), false, true)
			w := &dedup.Waiter{Done: func(dedup.Outcome) {}}
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				s.Do(ctx, q, w, nil)
			}
		})
	}
}

func BenchmarkFetch(b *testing.B) {
	for name, use := range map[string]dedup.Reuse{"stored": pure, "not_stored": {}} {
		b.Run(name, func(b *testing.B) {
			s := newStore(b)
			q := query(use, host, edge)
			q.Delivered = dedup.NewDelivered()
			body := make([]byte, 1024)
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				s.Invalidate(host)
				w := &dedup.Waiter{Done: func(dedup.Outcome) {}}
				s.Do(ctx, q, w, func(_ context.Context, f *dedup.Flight) { f.Settle(body, false, true) })
			}
		})
	}
}

// BenchmarkSize shows that the number of stored answers changes the cost neither of a write, nor
// of a hit, nor of a fetch that replaces an answer.
func BenchmarkSize(b *testing.B) {
	fetch := func(_ context.Context, f *dedup.Flight) { f.Settle([]byte("{}"), false, true) }
	w := &dedup.Waiter{Done: func(dedup.Outcome) {}}
	numbered := func(i int) dedup.Query {
		q := query(pure, host, edge)
		q.Key.Arguments = fmt.Sprint(i)
		return q
	}
	for _, n := range []int{100, 10_000, 1_000_000} {
		s := dedup.New(dedup.Options{MaxBytes: 4 << 30})
		for i := range n {
			s.Do(b.Context(), numbered(i), &dedup.Waiter{Done: w.Done}, fetch)
		}
		if got := s.Stats().Entries; got != n {
			b.Fatalf("%d entries, want %d", got, n)
		}
		runtime.GC()
		b.Run(fmt.Sprintf("hit/entries=%d", n), func(b *testing.B) {
			q, ctx := numbered(n/2), b.Context()
			for b.Loop() {
				s.Do(ctx, q, w, nil)
			}
		})
		b.Run(fmt.Sprintf("insert/entries=%d", n), func(b *testing.B) {
			q, ctx := numbered(n/3), b.Context()
			q.Reuse = dedup.Reuse{Freshness: time.Nanosecond} // stored, and too old at once
			for b.Loop() {
				s.Do(ctx, q, &dedup.Waiter{Done: w.Done}, fetch)
			}
		})
		b.Run(fmt.Sprintf("bump/entries=%d", n), func(b *testing.B) {
			for b.Loop() {
				s.Invalidate(host, edge)
			}
		})
	}
}
