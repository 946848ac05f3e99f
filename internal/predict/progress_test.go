package predict_test

import (
	"fmt"
	"strings"
	"testing"
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
