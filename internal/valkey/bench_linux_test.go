package valkey_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/valkey"
)

// BenchmarkHit answers a call of 1 KB from a store that shares with others, and from one that
// does not: by one caller, and by 32 at once.
func BenchmarkHit(b *testing.B) {
	at := startServer(b)
	peers, err := valkey.New(valkey.Options{URL: "valkey://" + at.addr, Lease: 100 * time.Millisecond, WriteSettle: time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	defer peers.Close()
	for _, shared := range []bool{false, true} {
		o := dedup.Options{MaxBytes: 1 << 20}
		if shared {
			o.Peers = peers
		}
		s := dedup.New(o)
		defer s.Close()
		q := dedup.Query{
			Key:    call.Key{Upstream: 1, Scope: "*", Tool: "read", Arguments: "{}"},
			Places: []call.Place{{Domain: "host"}}, Use: dedup.Use{Freshness: time.Hour},
		}
		fetched := 0
		do := func() (hit bool) {
			done := make(chan dedup.Outcome, 1)
			s.Do(context.Background(), q, &dedup.Waiter{Sent: func() {}, Done: func(o dedup.Outcome) { done <- o }}, func(_ context.Context, f *dedup.Flight) {
				fetched++
				f.Settle(make([]byte, 1<<10), false, true)
			})
			return (<-done).How == dedup.Hit
		}
		for !do() {
			time.Sleep(10 * time.Millisecond)
		}
		for _, callers := range []int{1, 32} {
			b.Run(fmt.Sprintf("shared=%v/callers=%d", shared, callers), func(b *testing.B) {
				b.SetParallelism(max(1, callers/2)) // of two processors
				if callers == 1 {
					for b.Loop() {
						do()
					}
					return
				}
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						do()
					}
				})
			})
		}
	}
}
