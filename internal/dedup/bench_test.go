package dedup_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

// What is stored takes what it is said to take.
func TestMemory(t *testing.T) {
	const most = 32 << 20
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

// heap is what is in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A call that only reads passes on every call there is.
func TestArriveAllocates(t *testing.T) {
	s := newStore(t)
	if got := testing.AllocsPerRun(100, func() { s.Arrive(call.Effect{}).End() }); got > 1 {
		t.Errorf("%v allocations, want at most 1", got)
	}
}

func BenchmarkArriveEnd(b *testing.B) {
	for name, e := range map[string]call.Effect{"read": {}, "write": changes(host, edge)} {
		b.Run(name, func(b *testing.B) {
			s := newStore(b)
			b.ReportAllocs()
			for b.Loop() {
				s.Arrive(e).End()
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
	for name, use := range map[string]dedup.Use{"stored": pure, "not_stored": {}} {
		b.Run(name, func(b *testing.B) {
			s := newStore(b)
			q := query(use, host, edge)
			q.Delivered = dedup.NewDelivered()
			body := make([]byte, 1024)
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				s.Bump(host)
				w := &dedup.Waiter{Done: func(dedup.Outcome) {}}
				s.Do(ctx, q, w, func(_ context.Context, f *dedup.Flight) { f.Settle(body, false, true) })
			}
		})
	}
}

// BenchmarkBump is flat: what is stored costs a write nothing.
func BenchmarkBump(b *testing.B) {
	for _, n := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			s := dedup.New(dedup.Options{MaxBytes: 4 << 30})
			for i := range n {
				q := query(pure, host, edge)
				q.Key.Arguments = fmt.Sprint(i)
				s.Do(b.Context(), q, &dedup.Waiter{Done: func(dedup.Outcome) {}}, func(_ context.Context, f *dedup.Flight) {
					f.Settle([]byte("{}"), false, true)
				})
			}
			if got := s.Stats().Entries; got != n {
				b.Fatalf("%d entries, want %d", got, n)
			}
			runtime.GC()
			for b.Loop() {
				s.Bump(host, edge)
			}
		})
	}
}
