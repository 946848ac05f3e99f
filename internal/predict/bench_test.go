package predict_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// issues returns a list of issues of about the given size, as an issue tracker returns it.
func issues(bytes, salt int) []byte {
	var out strings.Builder
	out.WriteString(`{"total":99,"items":[`)
	for i := 0; out.Len() < bytes; i++ {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, `{"number":%d,"title":"issue %d of some length","user":{"login":"user-%d","id":%d},"labels":[{"name":"bug"},{"name":"p%d"}],"url":"https://hub.test/o/r/issues/%d"}`,
			salt*1000+i, i, i%7, i%7, i%3, salt*1000+i)
	}
	return []byte(out.String() + `]}`)
}

// bench returns a model that has seen forty sessions, each of which reads two issues of a list.
func bench(b *testing.B) (*predict.Model, []byte) {
	wants := `{"type":"object","properties":{"owner":{"type":"string"},"repo":{"type":"string"},"issue_number":{"type":"integer"}},"required":["owner","repo","issue_number"]}`
	next := func(tool string) valuemodel.FollowUp {
		return follow(b, tool, 0.3, "owner", "$args.owner", "repo", "$args.repo", "issue_number", "$result.items[*].number")
	}
	o := resolve(b, hub, []valuemodel.Rule{
		reading("list_issues", next("get_issue"), next("get_comments")), reading("get_issue"), reading("get_comments"), reading("get_user"),
	}, "list_issues", "", "get_issue", wants, "get_comments", wants, "get_user", "")
	f := predict.New(predict.Options{Tool: o.tool, Learn: true})
	for i := range 40 {
		p := play(f)
		p.now = p.now.Add(time.Duration(i) * time.Hour)
		p.call("list_issues", fmt.Sprintf(`{"owner":"o%d","repo":"r"}`, i), string(issues(1000, i)))
		p.candidates()
		for k := range 2 {
			p.call("get_issue", fmt.Sprintf(`{"issue_number":%d,"owner":"o%d","repo":"r"}`, i*1000+k, i), fmt.Sprintf(`{"number":%d,"user":{"login":"user-%d"}}`, i*1000+k, k))
			p.candidates()
		}
		p.call("get_user", `{"login":"user-0"}`, `{"name":"x"}`)
		p.candidates()
		p.s.End()
	}
	return f, []byte(`{"owner":"o99","repo":"r"}`)
}

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

func BenchmarkCandidates(b *testing.B) {
	p := busy(b)
	p.call("grep", `{"path":"/repo","pattern":"p"}`, listing(3))
	for b.Loop() {
		p.s.Candidates(p.now)
		p.s.Invalidate(nil)
	}
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

func BenchmarkResultAndGuesses(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			f, arguments := bench(b)
			answer := issues(size, 99)
			p := play(f)
			n := 0
			for b.Loop() {
				b.StopTimer()
				if n++; n%20 == 0 {
					p.s.End()
					p.s = f.Begin(uint64(n), false)
				}
				p.ask("list_issues", string(arguments))
				b.StartTimer()
				p.s.Result(predict.Result{ID: p.id, Text: answer, Size: len(answer), At: p.now})
				if len(p.s.Candidates(p.now)) == 0 {
					b.Fatal("no candidates")
				}
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	quoted := func(size int) string {
		return strings.ReplaceAll(string(issues(size, 1)), `"`, `\"`)
	}
	for _, size := range []int{1 << 10, 100 << 10} {
		text := `{"content":[{"type":"text","text":"` + quoted(size) + `"}]`
		for _, c := range []struct {
			name, result string
		}{
			{"text", text + `}`},
			{"twice", text + `,"structuredContent":` + string(issues(size, 1)) + `}`},
		} {
			b.Run(fmt.Sprintf("%s/%dKB", c.name, size>>10), func(b *testing.B) {
				result := []byte(c.result)
				b.SetBytes(int64(len(result)))
				for b.Loop() {
					predict.Read(result, 0)
				}
			})
		}
	}
}
