package events_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"

	"mcpschedd/internal/events"
)

// usual is what a call looks like.
func usual(seq int) events.Event {
	return events.Event{
		Kind: events.Call, At: time.UnixMicro(1_770_000_000_000_000 + int64(seq)*1000), Session: "1f00c2", Seq: int64(seq),
		Upstream: "github", Tool: "issue_read", ArgsHash: fmt.Sprintf("%016x", seq), Class: "read_only",
		ResultHash: fmt.Sprintf("%016x", seq*7), LatencyMS: 123.456 + float64(seq%100), UpstreamMS: 120.5, Bytes: 4321, Tokens: 1080,
		Sent: 1, Host: "api.github.com", Disposition: events.Fetched, Turn: seq % 50, PredictedP: 0.425, Predicted: 1200,
	}
}

// BenchmarkAdd is what a call pays: with arguments to hash, and a file that is written.
// Whoever adds more than 65,536 events before one goroutine has told of them helps, so
// that many processors measure the telling instead.
func BenchmarkAdd(b *testing.B) {
	arguments := []byte(`{"owner":"octo","repo":"hello","issue_number":42,"method":"get"}`)
	for _, c := range []struct {
		name string
		add  func(b *testing.B, l *events.Log, e events.Event)
	}{
		{"alone", func(b *testing.B, l *events.Log, e events.Event) {
			for b.Loop() {
				l.Add(e)
			}
		}},
		{"paced", func(b *testing.B, l *events.Log, e events.Event) { // a burst, and time to tell of it
			for n := 0; b.Loop(); n++ {
				if l.Add(e); n%1024 == 1023 {
					b.StopTimer()
					l.Flush()
					b.StartTimer()
				}
			}
		}},
		{"parallel", func(b *testing.B, l *events.Log, e events.Event) {
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					l.Add(e)
				}
			})
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := events.Open(events.Options{Dir: b.TempDir(), Each: func(*events.Event) {}})
			e := usual(1)
			e.ArgsHash, e.ResultHash, e.RawArguments, e.ResultSum = "", "", arguments, 42
			b.ReportAllocs()
			c.add(b, l, e)
			b.StopTimer()
			l.Close()
			b.ReportMetric(float64(l.Lost()), "lost")
		})
	}
}

// BenchmarkRead reads as many events as EVENTS_LINES says, 100,000 without it.
func BenchmarkRead(b *testing.B) {
	lines, err := strconv.Atoi(os.Getenv("EVENTS_LINES"))
	if err != nil {
		lines = 100_000
	}
	path := filepath.Join(b.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	var buf []byte
	for seq := range lines {
		e := usual(seq)
		buf = append(events.Append(buf[:0], &e), '\n')
		if _, err := f.Write(buf); err != nil {
			b.Fatal(err)
		}
	}
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	_ = f.Close()
	b.SetBytes(info.Size())
	b.ReportAllocs()
	runtime.GC()
	for b.Loop() {
		n := 0
		err := events.Read(b.Context(), []string{path}, func(*events.Event) { n++ }, func(p events.Problem) { b.Error(p) })
		if err != nil || n != lines {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*lines), "ns/line")
	b.ReportMetric(float64(info.Size())/float64(lines), "B/line")
	b.ReportMetric(heap()/1e6, "MB-total")
}

// heap is what Go has of the system, in bytes.
func heap() float64 {
	all := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(all)
	return float64(all[0].Value.Uint64())
}

func BenchmarkAppend(b *testing.B) {
	e, dst := usual(1), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		dst = events.Append(dst[:0], &e)
	}
}
