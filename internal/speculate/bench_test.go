package speculate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/speculate"
)

// BenchmarkPrefetch measures a prefetch from Room to its fate, beside other sessions.
func BenchmarkPrefetch(b *testing.B) {
	for _, sessions := range []int{1, 200, 10_000} {
		b.Run(fmt.Sprintf("%d sessions", sessions), func(b *testing.B) {
			d := newScheduler(speculate.Options{})
			for range sessions - 1 {
				d.Session("")
			}
			s := d.Session("")
			used := func() call.Fate { return call.Ready }
			g := speculate.Prefetch{Key: key(1), Host: host, Begin: func(context.Context) (func() call.Fate, string) { return used, "" }}
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				s.Room(host, upstream)
				if refused := s.Start(ctx, g); refused != "" {
					b.Fatal(refused)
				}
				s.Done(g.Key)
				s.Review(start)
			}
		})
	}
}

// BenchmarkReview measures a review of the most open prefetches that a session may have.
func BenchmarkReview(b *testing.B) {
	d := newScheduler(speculate.Options{PerSession: 256, Total: 1000})
	s := d.Session("")
	for i := range 256 {
		s.Start(b.Context(), newBet(i).prefetch())
		s.Done(key(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Review(start)
	}
}

// BenchmarkCall measures the scheduler's cost for a call, alone and as one of 32.
func BenchmarkCall(b *testing.B) {
	for _, others := range []int{0, 31} {
		b.Run(fmt.Sprintf("beside %d", others), func(b *testing.B) {
			d := newScheduler(speculate.Options{})
			for i := range others {
				began(d, upstream, uint64(i), "t", false, start)
			}
			now, id := start, uint64(100)
			b.ReportAllocs()
			for b.Loop() {
				id++
				began(d, upstream, id, "t", false, now)
				now = now.Add(time.Millisecond)
				ended(d, upstream, id, now)
			}
		})
	}
}

// BenchmarkCallParallel measures the same on concurrent goroutines.
func BenchmarkCallParallel(b *testing.B) {
	d := newScheduler(speculate.Options{})
	b.ReportAllocs()
	var n atomic.Uint64
	b.RunParallel(func(pb *testing.PB) {
		s, own := d.Session(""), 1000+n.Add(1)
		for id := uint64(0); pb.Next(); id++ {
			began(d, own, id, "t", false, start)
			s.Called(start, key(1))
			ended(d, own, id, start)
		}
	})
}

// BenchmarkObserved measures what observing adds to a call with an answer of 1 KB, which must stay
// at most 20 µs. The worker's own time is not included.
func BenchmarkObserved(b *testing.B) {
	body := fmt.Appendf(nil, `{"content":[{"type":"text","text":%q}]}`, strings.Repeat("x", 1000))
	var took []time.Duration
	var d *fixture
	var c *speculate.Client
	up := at1(newShelf(b))
	for n := 0; b.Loop(); n++ {
		if n%1000 == 0 { // more at once are not observed
			if d != nil {
				d.Close()
			}
			d = newFixture()
			c = d.client(b, "one")
		}
		call := &speculate.Call{Client: c, Upstream: up, At: time.Now(), Turn: n, Tool: "get", Arguments: fmt.Appendf(nil, `{"n":%d}`, n), Host: host}
		began := time.Now()
		if !d.Wants(&d.rules, c) {
			b.Fatal("a call is not observed")
		}
		d.Called(call)
		d.Answered(call, speculate.Result{At: began, Complete: true, Body: body, Took: time.Millisecond}, nil)
		took = append(took, time.Since(began))
	}
	d.Close()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "ns/median")
}
