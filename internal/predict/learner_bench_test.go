package predict_test

import (
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/predict"
)

// listing is a result of 40 paths, some 2 KB.
func listing(i int) string {
	var b strings.Builder
	for j := range 40 {
		fmt.Fprintf(&b, "/repo/internal/pkg%d/file%d_%d.go\n", j%7, i%50, j)
	}
	return b.String()
}

// busy is a session that greps and reads in a model that has seen 200 of them.
func busy(b *testing.B) *historyPlayer {
	m := predict.NewLearner(predict.LearnerOptions{Target: reads})
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

// What stands on the path of a call, with ten turns of listings to explain it by.
func BenchmarkCall(b *testing.B) {
	m := busy(b).m
	p := begin(b, m)
	var listings [8]*predict.Values
	for i := range listings {
		listings[i] = predict.Extract([]byte(listing(i)), nil)
	}
	n := 0
	for b.Loop() {
		if n++; n%100 == 0 { // or every call would be a repeat, of which nothing is learned
			p = begin(b, m)
		}
		p.turn++
		p.id++
		p.s.Call(predict.Call{ID: p.id, Turn: p.turn, Tool: "read", Arguments: fmt.Sprintf(`{"path":"/repo/internal/pkg%d/file%d_%d.go"}`, n%7, n%50, n%40)})
		p.s.Result(predict.Outcome{ID: p.id, Values: listings[n%8]})
	}
}

func BenchmarkCandidates(b *testing.B) {
	p := busy(b)
	p.call("grep", `{"path":"/repo","pattern":"p"}`, listing(3))
	for b.Loop() {
		p.s.Candidates(p.now)
		p.s.Invalidate(nil)
	}
}

func BenchmarkMerge(b *testing.B) {
	m := model()
	learn(b, m, 0, 300)
	state, _ := m.Merge(nil)
	b.SetBytes(int64(len(state)))
	for b.Loop() {
		m.Merge(state)
	}
}
