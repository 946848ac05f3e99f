package record_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"mcpschedd/internal/record"
)

// day returns a function that returns the i-th event of sessions of 200 lines: calls of 200
// tools, prefetches of which half are used, and a choice after every fourth call.
func day(n int) func(i int) *record.Event {
	r := rand.New(rand.NewPCG(1, 2))
	tools := make([]string, 200)
	for i := range tools {
		tools[i] = fmt.Sprintf("get_thing_%d", i)
	}
	sessions := make([]string, n/200+1)
	for i := range sessions {
		sessions[i] = fmt.Sprintf("%012x", i*7919)
	}
	reasons := map[string]int{"gate": 2, "low_probability": 3}
	top := []record.Candidate{{Tool: "github/get_thing_1", P: 0.4, Reason: "gate"}, {Tool: "github/get_thing_2", P: 0.1, Reason: "low_probability"}}
	begin := time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)
	var e record.Event
	return func(i int) *record.Event {
		e = record.Event{
			Session: sessions[i/200], Process: "p1", At: begin.Add(time.Duration(i) * 20 * time.Millisecond), Seq: int64(i%200) + 1,
			Upstream: "github", Tool: tools[r.IntN(200)], LatencyMS: 20 * r.ExpFloat64(), Bytes: int64(r.IntN(20000)), Host: "api.github.com",
		}
		e.Tokens = e.Bytes / 4
		switch i % 8 {
		case 0, 1, 2, 3:
			e.Kind, e.Disposition, e.Class, e.Turn = record.Call, record.Fetched, "read_only", i%200+1
			e.UpstreamMS, e.Sent = e.LatencyMS-0.1, 1
		case 4:
			e.Kind, e.Disposition, e.UseOf, e.HiddenMS, e.Class, e.Turn = record.Call, record.Hit, e.Seq+1, 200, "read_only", i%200+1
		case 5:
			e.Kind, e.Fate, e.UsedBy, e.After, e.Sent = record.Prefetch, record.Used, e.Seq-1, max(e.Seq-3, 1), 1
		case 6:
			e.Kind, e.Fate, e.Cause, e.Sent = record.Prefetch, record.Wasted, "never_asked", 1
		default:
			e.Kind, e.Candidates, e.Declined, e.Top, e.Seq = record.Decision, 5, reasons, top, 0
		}
		if i%200 == 199 {
			e.Kind = record.End
		}
		return &e
	}
}

// heap returns the bytes in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
