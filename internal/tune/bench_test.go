package tune_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"mcpschedd/internal/record"
	"mcpschedd/internal/tune"
)

// A million calls of 5,000 sessions, half of them with their arguments. live-MB is what
// is held when all have been added.
func BenchmarkMillionEvents(b *testing.B) {
	model := known(b, rule("hub/get*", reads))
	tools := []string{"get", "get_list", "get_search", "get_file", "set"}
	var e record.Event
	for b.Loop() {
		m := tune.New(tune.Options{Model: model})
		at := began
		for i := range 1_000_000 {
			at = at.Add(time.Duration(i%900) * time.Millisecond)
			e = record.Event{
				Kind: record.Call, Disposition: record.Fetched, At: at, Session: fmt.Sprint("s", i/200), Process: "p", Seq: int64(i),
				Upstream: "hub", Tool: tools[i%5], Class: "read_only", ArgsHash: fmt.Sprintf("%016x", i%5000),
				ResultHash: fmt.Sprintf("%016x", i%5000+i/100_000), UpstreamMS: float64(i % 777), Bytes: int64(i % 9999), Turn: i,
			}
			if i%5 == 4 {
				e.Class = "mutates_external"
			}
			if i%2 == 0 {
				e.Arguments = fmt.Sprintf(`{"owner":"a","number":%d}`, i%1000)
			}
			m.Event(&e)
		}
		b.StopTimer()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		b.ReportMetric(float64(s.HeapAlloc)/(1<<20), "live-MB")
		b.StartTimer()
		m.Layer()
	}
}
