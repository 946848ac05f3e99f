package predict_test

import (
	"fmt"
	"testing"
)

// If sessions read the file with the same stem as the edited one, whatever its rank in the search
// result, that file is predicted also for a new stem.
func TestNearPathsAreLikelier(t *testing.T) {
	m := model()
	found := func(i int) string {
		files := []string{fmt.Sprintf("a%d/w.go", i), fmt.Sprintf("b%d/f%d_test.go", i, i), fmt.Sprintf("c%d/y.go", i)}
		k := i % 3
		return files[k] + "\n" + files[(k+1)%3] + "\n" + files[(k+2)%3]
	}
	begin := func(i int) *historyPlayer {
		p := begin(t, m)
		p.call("edit", fmt.Sprintf(`{"path":"src/f%d.go"}`, i), "edited")
		p.call("search", fmt.Sprintf(`{"n":%d}`, 10+i), found(i))
		return p
	}
	near := func(i int) string { return fmt.Sprintf(`{"path":"b%d/f%d_test.go"}`, i, i) }
	for i := range 60 {
		p := begin(i)
		p.s.Candidates(p.now)
		p.call("read", near(i), "x")
		p.s.End()
	}
	p := begin(99)
	same, other := p.find("read", near(99)).P, p.find("read", `{"path":"a99/w.go"}`).P
	if same < 2*other || same < 0.4 {
		t.Errorf("got P %.2f of the file with the same stem and %.2f of another, want twice as much", same, other)
	}
}
