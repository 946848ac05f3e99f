package valkey_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/valkey"
)

// info returns a number from INFO.
func (s *store) info(b *testing.B, field string) float64 {
	b.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "INFO everything\r\nQUIT\r\n")
	text, _ := io.ReadAll(bufio.NewReader(c))
	_, rest, _ := strings.Cut(string(text), "\n"+field+":")
	value, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		b.Fatalf("%s: %v", field, err)
	}
	return n
}

// costs runs calls, and reports the CPU time and the commands of the server per call.
func (s *store) costs(b *testing.B, run func()) {
	fields := []string{"used_cpu_user", "used_cpu_sys", "total_commands_processed"}
	var before [3]float64
	for i, f := range fields {
		before[i] = s.info(b, f)
	}
	run()
	each := func(i int) float64 { return (s.info(b, fields[i]) - before[i]) / float64(b.N) }
	b.ReportMetric((each(0)+each(1))*1e6, "server-us/op")
	b.ReportMetric(each(2), "commands/op")
}

// caller makes calls of 1 KB to a store.
func caller(s *dedup.Store) func(arguments string) (how dedup.Disposition) {
	return func(arguments string) dedup.Disposition {
		q := dedup.Query{
			Key:    call.Key{Upstream: 1, Scope: "*", Tool: "read", Arguments: arguments},
			Places: []call.Place{{Domain: "host"}}, Reuse: dedup.Reuse{Freshness: time.Hour}, SharedKey: "read" + arguments,
		}
		done := make(chan dedup.Outcome, 1)
		s.Do(context.Background(), q, &dedup.Waiter{Sent: func() {}, Done: func(o dedup.Outcome) { done <- o }}, func(_ context.Context, f *dedup.Flight) {
			f.Finish(make([]byte, 1<<10), false, true)
		})
		return (<-done).How
	}
}

// stores runs a benchmark on a store that shares through a server, and on one that does not.
func stores(b *testing.B, each func(b *testing.B, shared bool, at *store, do func(string) dedup.Disposition)) {
	at := startServer(b)
	peers, err := valkey.New(valkey.Options{URL: "valkey://" + at.addr, Lease: 2 * time.Second, WriteSettle: time.Millisecond})
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
		do := caller(s)
		for do("{}") != dedup.Hit {
			time.Sleep(10 * time.Millisecond)
		}
		each(b, shared, at, do)
	}
}

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
	stores(b, func(b *testing.B, shared bool, at *store, do func(string) dedup.Disposition) {
		b.Run(fmt.Sprintf("shared=%v/callers=1", shared), func(b *testing.B) {
			at.costs(b, func() {
				median(b, func() {
					if how := do("{}"); how != dedup.Hit {
						b.Errorf("got %v, want a hit", how)
					}
				})
			})
		})
		b.Run(fmt.Sprintf("shared=%v/callers=32", shared), func(b *testing.B) {
			at.costs(b, func() {
				b.SetParallelism(16) // for each of two processors
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						do("{}")
					}
				})
			})
		})
	})
}

// BenchmarkPace measures calls to a host with a shared rate, with one goroutine and with 32.
func BenchmarkPace(b *testing.B) {
	at := startServer(b)
	s, err := valkey.New(valkey.Options{URL: "valkey://" + at.addr, Lease: 2 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	h := limit.New(map[string]limit.Rule{"*": {Rate: 1e9}})
	h.SetShared(s.Take)
	s.WatchCount(h.SetReplicas)
	call := func() {
		slot, err := h.Enter(b.Context(), "host")
		if err != nil {
			b.Fatal(err)
		}
		slot.Leave(limit.Outcome{})
	}
	call()
	b.Run("callers=1", func(b *testing.B) { at.costs(b, func() { median(b, call) }) })
	b.Run("callers=32", func(b *testing.B) {
		at.costs(b, func() {
			b.SetParallelism(16) // for each of two processors
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call()
				}
			})
		})
	})
}

// BenchmarkMiss measures the fetch and sharing of an answer of 1 KB that no replica has.
func BenchmarkMiss(b *testing.B) {
	nth := 0
	stores(b, func(b *testing.B, shared bool, at *store, do func(string) dedup.Disposition) {
		b.Run(fmt.Sprintf("shared=%v", shared), func(b *testing.B) {
			memory := at.info(b, "used_memory")
			at.costs(b, func() {
				for b.Loop() {
					nth++
					do(strconv.Itoa(nth))
				}
			})
			b.ReportMetric((at.info(b, "used_memory")-memory)/float64(b.N), "server-B/op")
		})
	})
}
