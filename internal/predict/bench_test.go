package predict_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/predict"
)

// busy returns a session that greps and reads, in a model that has seen 200 such sessions.
func busy(b *testing.B) *historyPlayer {
	m := learner(learning{Target: reads})
	var p *historyPlayer
	for i := range 200 {
		p = begin(b, m)
		for j := range 8 {
			p.call("grep", fmt.Sprintf(`{"path":"/repo","pattern":"p%d"}`, i*10+j), listing(i+j))
			p.s.Candidates(p.now)
			p.call("read", fmt.Sprintf(`{"path":"/repo/internal/pkg%d/file%d_%d.go"}`, (j%3)%7, (i+j)%50, j%3), "text of no use")
			p.s.Candidates(p.now)
		}
	}
	return p
}

// listing returns a result of 40 paths, about 2 KB.
func listing(i int) string {
	var b strings.Builder
	for j := range 40 {
		fmt.Fprintf(&b, "/repo/internal/pkg%d/file%d_%d.go\n", j%7, i%50, j)
	}
	return b.String()
}

// stopwatch collects single durations and reports their median, so that neither outliers nor the
// code between them count.
type stopwatch []time.Duration

func (w *stopwatch) time(what func()) {
	began := time.Now()
	what()
	*w = append(*w, time.Since(began))
}

func (w stopwatch) report(b *testing.B, unit string) {
	slices.Sort(w)
	b.ReportMetric(float64(w[len(w)/2].Nanoseconds()), unit)
}

// BenchmarkCall measures learning from a call with ten turns of listings before it. Limit: 6 µs.
func BenchmarkCall(b *testing.B) {
	m := busy(b).m
	p := begin(b, m)
	var took stopwatch
	for n := 1; b.Loop(); n++ {
		if n%100 == 0 { // a new session, as repeats within a session are not learned from
			p = begin(b, m)
		}
		p.turn++
		p.id++
		c := predict.Call{ID: p.id, Turn: p.turn, Tool: "read", Arguments: fmt.Sprintf(`{"path":"/repo/internal/pkg%d/file%d_%d.go"}`, n%7, n%50, n%40)}
		took.time(func() { p.s.Call(c) })
		p.s.Result(predict.Result{ID: p.id, Text: []byte(listing(n % 8))})
	}
	took.report(b, "ns/call")
}

// BenchmarkMerge measures the merge of a model of a thousand tools: Snapshot and Adopt, during
// which the worker waits, and Merge, which runs beside it. Limit of Merge: 100 ms. In the case
// "beside another" another process has changed the stored state since the last merge.
func BenchmarkMerge(b *testing.B) {
	for _, beside := range []bool{false, true} {
		b.Run(map[bool]string{false: "alone", true: "beside another"}[beside], func(b *testing.B) {
			m, w := model(), newWorld()
			for range 120 {
				w.session(m, 150, 3)
			}
			state, _ := m.Merge(predict.State{})
			other := model()
			other.Merge(state)
			b.SetBytes(int64(len(state.Server) + len(state.Values)))
			var snapshot, join, kept stopwatch
			for b.Loop() {
				b.StopTimer()
				w.session(m, 150, 3)
				if beside {
					w.session(other, 150, 3)
					state, _ = other.Merge(state)
				}
				runtime.GC()
				b.StartTimer()
				var s *predict.Snapshot
				snapshot.time(func() { s = m.Snapshot() })
				join.time(func() {
					state, _ = s.Merge(state)
					s.MarkWritten()
				})
				kept.time(func() { m.Adopt(s) })
			}
			snapshot.report(b, "ns/snapshot")
			join.report(b, "ns/join")
			kept.report(b, "ns/kept")
		})
	}
}
