package valkey_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/valkey"
)

// median runs do, and reports its median duration.
func median(b *testing.B, do func()) {
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		do()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e3, "p50-us")
}

// BenchmarkHitLeast measures a bare GET, the lower bound of a hit.
func BenchmarkHitLeast(b *testing.B) {
	c, err := net.Dial("tcp", startServer(b).addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	absent := make([]byte, len("$-1\r\n"))
	median(b, func() {
		_, _ = io.WriteString(c, "GET x\r\n")
		_, _ = io.ReadFull(c, absent)
	})
}

// BenchmarkHit measures hits of 1 KB in a store that shares and in one that does not, with one
// goroutine and with 32.
func BenchmarkHit(b *testing.B) {
	peers, err := valkey.New(valkey.Options{URL: "valkey://" + startServer(b).addr, Lease: 2 * time.Second, WriteSettle: time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	defer peers.Close()
	q := dedup.Query{
		Key:    call.Key{Upstream: 1, Scope: "*", Tool: "read", Arguments: "{}"},
		Places: []call.Place{{Domain: "host"}}, Reuse: dedup.Reuse{Freshness: time.Hour}, SharedKey: "read",
	}
	for shared, o := range map[bool]dedup.Options{false: {MaxBytes: 1 << 20}, true: {MaxBytes: 1 << 20, Peers: peers}} {
		s := dedup.New(o)
		defer s.Close()
		do := func() dedup.Disposition {
			done := make(chan dedup.Outcome, 1)
			s.Do(context.Background(), q, &dedup.Waiter{Sent: func() {}, Done: func(o dedup.Outcome) { done <- o }}, func(_ context.Context, f *dedup.Flight) {
				f.Finish(make([]byte, 1<<10), false, true)
			})
			return (<-done).How
		}
		for do() != dedup.Hit {
			time.Sleep(10 * time.Millisecond)
		}
		b.Run(fmt.Sprintf("shared=%v/callers=1", shared), func(b *testing.B) {
			median(b, func() {
				if how := do(); how != dedup.Hit {
					b.Errorf("got %v, want a hit", how)
				}
			})
		})
		b.Run(fmt.Sprintf("shared=%v/callers=32", shared), func(b *testing.B) {
			b.SetParallelism(16) // for each of two processors
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					do()
				}
			})
		})
	}
}
