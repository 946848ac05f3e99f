package predict_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// If sessions read what a list names in order, wherever they begin, the value after the last one read is
// likelier than those further on and before.
func TestNextOfAListIsLikelier(t *testing.T) {
	m := model()
	list := func(i int) string {
		var ids []string
		for k := range 12 {
			ids = append(ids, fmt.Sprintf(`{"id":"n%d-%d"}`, i, k))
		}
		return "[" + strings.Join(ids, ",") + "]"
	}
	read := func(i, k int) string { return fmt.Sprintf(`{"id":"n%d-%d"}`, i, k) }
	begin := func(i int) *historyPlayer {
		p := begin(t, m)
		p.call("search", fmt.Sprintf(`{"n":%d}`, i), list(i))
		for k := range 3 {
			p.s.Candidates(p.now)
			p.call("read", read(i, i%7+k), "x")
		}
		return p
	}
	for i := range 70 {
		p := begin(i)
		p.s.Candidates(p.now)
		p.call("read", read(i, i%7+3), "x")
		p.s.End()
	}
	for _, first := range []int{1, 3, 5} {
		p := begin(700 + first)
		next := p.find("read", read(700+first, first+3)).P
		for k := range 12 {
			if other := p.find("read", read(700+first, k)).P; (k < first || k > first+3) && (next < 3*other || next < 0.5) {
				t.Errorf("from %d on: got P %.2f of the next value and %.2f of value %d; want at least 0.5, and three times as much", first, next, other, k)
			}
		}
	}
}

// If a client reads what a list names one after the other, a value further on can wait until it is next; not
// if the client reads all at once, nor if the pause before its next call is shorter than a call.
func TestValuesFurtherOnCanWait(t *testing.T) {
	const n = 5
	read := func(i, k int) [3]string { return [3]string{"read", fmt.Sprintf(`{"id":"n%d-%d"}`, i, k), "x"} }
	list := func(i int) string {
		var ids []string
		for k := range n {
			ids = append(ids, fmt.Sprintf(`{"id":"n%d-%d"}`, i, k))
		}
		return "[" + strings.Join(ids, ",") + "]"
	}
	tests := []struct {
		name  string
		reads func(p *historyPlayer, i int)
		wait  bool
	}{
		{"one after the other", func(p *historyPlayer, i int) {
			for k := range n - i%3 {
				p.s.Candidates(p.now)
				p.call("read", read(i, k)[1], "x")
			}
		}, true},
		{"at once", func(p *historyPlayer, i int) {
			p.turn++
			p.together(read(i, 0), read(i, 1), read(i, 2), read(i, 3))
		}, false},
		{"without a pause", func(p *historyPlayer, i int) {
			for k := range n - i%3 {
				p.s.Candidates(p.now)
				p.now = p.now.Add(-1900 * time.Millisecond)
				p.call("read", read(i, k)[1], "x")
			}
		}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := model()
			for i := range 40 {
				p := begin(t, m)
				p.call("search", fmt.Sprintf(`{"n":%d}`, i), list(i))
				p.s.Candidates(p.now)
				test.reads(p, i)
				p.s.End()
			}
			p := begin(t, m)
			p.call("search", `{"n":40}`, list(40))
			next, later := p.find("read", read(40, 0)[1]), p.find("read", read(40, 2)[1])
			if later.P < 0.3 || next.CanWait > 0.3 || (later.CanWait > 0.5) != test.wait || !test.wait && later.CanWait > 0.1 {
				t.Errorf("got P %.2f of a value further on, of which %.2f can wait, and of the next one %.2f", later.P, later.CanWait, next.CanWait)
			}
		})
	}
}
