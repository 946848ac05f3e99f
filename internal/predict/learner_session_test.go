package predict_test

import (
	"fmt"
	"testing"
	"time"

	"mcpschedd/internal/predict"
)

// taught is a model that knows: after list comes get of the first item, after get
// comes owner of what it names.
func taught(t testing.TB) *predict.Model {
	m := learner(learning{Target: reads})
	for i := range 15 {
		p := begin(t, m)
		p.call("list", fmt.Sprintf(`{"n":%d}`, 10+i), items(i))
		p.find("get", item(i))
		p.call("get", item(i), owner(i))
		p.find("owner", fmt.Sprintf(`{"name":"ann-%d"}`, i))
		p.call("owner", fmt.Sprintf(`{"name":"ann-%d"}`, i), "x")
		p.s.End()
	}
	return m
}

func items(i int) string { return fmt.Sprintf(`{"items":[{"id":"id-%d"},{"id":"no-%d"}]}`, i, i) }
func item(i int) string  { return fmt.Sprintf(`{"id":"id-%d"}`, i) }
func owner(i int) string { return fmt.Sprintf(`{"owner":"ann-%d"}`, i) }

// state is all that a model would keep.
func state(t testing.TB, m *predict.Model) predict.State {
	t.Helper()
	b, err := m.Merge(predict.State{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Two conversations through one session: each result is followed by what follows
// it, and by nothing of the other.
func TestSharedHistory(t *testing.T) {
	m := taught(t)
	p := &historyPlayer{m: m, s: m.Begin(1<<32, true), now: time.Unix(1e9, 0)}
	p.s.Call(predict.Call{ID: 1, Turn: 1, Tool: "list", Arguments: `{"n":1}`, At: p.now})
	p.s.Call(predict.Call{ID: 2, Turn: 2, Tool: "get", Arguments: `{"id":"id-500"}`, At: p.now})
	if got := p.s.Candidates(p.now); len(got) != 0 {
		t.Errorf("no result: got %v", got)
	}
	p.s.Result(predict.Result{ID: 1, Text: []byte(items(400)), At: p.now.Add(time.Second)})
	if c := p.find("get", item(400)); c.P < 0.3 {
		t.Errorf("after the first result: got %+v", c)
	}
	p.s.Result(predict.Result{ID: 2, Text: []byte(owner(500)), At: p.now.Add(time.Second)})
	if c := p.find("owner", `{"name":"ann-500"}`); c.P < 0.3 {
		t.Errorf("after the second result: got %+v", c)
	}
	if c := p.find("get", item(400)); c.P != 0 {
		t.Errorf("after the second result: got %+v of the first", c)
	}
}

// A lone session teaches sizes and latencies and nothing else: its calls follow
// each other by chance.
func TestLoneTeachesNothing(t *testing.T) {
	play := func(lone bool) predict.State {
		m := taught(t)
		p := &historyPlayer{m: m, s: m.Begin(1<<32, lone), now: time.Unix(1e9, 0)}
		for i := range 20 {
			p.call("list", fmt.Sprintf(`{"n":%d}`, i), items(i))
			p.s.Candidates(p.now)
			p.call("other", item(i), "x")
		}
		p.s.End()
		return state(t, m)
	}
	before := state(t, taught(t))
	if predict.Same(before, play(false)) {
		t.Fatal("a session that is not lone taught nothing") // so that the next comparison says something
	}
	if !predict.Same(before, play(true)) {
		t.Error("a lone session taught something")
	}
}

// Only what is stale was wrong.
func TestInvalidateSome(t *testing.T) {
	// waiting is how many candidates await their label after an invalidation.
	waiting := func(stale func(tool, arguments string) bool) int {
		p := begin(t, taught(t))
		p.call("list", `{"n":1}`, items(1))
		p.call("get", item(1), owner(1))
		p.s.Candidates(p.now)
		p.s.Invalidate(stale)
		return p.s.Open()
	}
	none := waiting(func(string, string) bool { return false })
	owners := waiting(func(tool, _ string) bool { return tool != "owner" })
	if owners == 0 || owners == none {
		t.Fatalf("got %d candidates of owner among %d, want some of several", owners, none)
	}
	if n := waiting(nil); n != 0 {
		t.Errorf("nil: %d are left, want none", n)
	}
	if n := waiting(func(_, arguments string) bool { return arguments == `{"id":"no-1"}` }); n != none-1 {
		t.Errorf("one call: %d are left of %d, want one less", n, none)
	}
}

// After an edit, what a listing named before it is still looked at.
func TestStaleResultsGoOnDriving(t *testing.T) {
	p := begin(t, taught(t))
	p.call("list", `{"n":1}`, items(1))
	p.s.Invalidate(nil)
	if c := p.find("get", item(1)); c.P == 0 {
		t.Error("the candidates went with the answer's validity")
	}
}

// However many answers of a turn have its candidates weighed, their labels say the same.
func TestATurnIsOneSample(t *testing.T) {
	expects := func(answers int) float64 {
		m := model()
		for i := range 12 {
			p := begin(t, m)
			p.call("list", fmt.Sprintf(`{"n":%d}`, 10+i), items(i))
			for range answers {
				p.s.Candidates(p.now)
			}
			if i%2 == 0 {
				p.call("get", item(i), "x")
			}
			p.s.End()
		}
		return nextP(t, m)
	}
	if got, want := expects(5), expects(1); got != want {
		t.Errorf("where five answers of a turn were looked at: got P %.3f, want %.3f as where one was", got, want)
	}
}

// A call that an edit made stale is expected again, if such calls came again before.
func TestReadAgainAfterEdit(t *testing.T) {
	m := learner(learning{Target: reads, MaxAge: time.Minute})
	for i := range 12 {
		p := begin(t, m)
		p.call("get", item(i), "x")
		p.s.Candidates(p.now)
		p.call("write_item", item(i), "ok")
		p.s.Invalidate(nil)
		if got := p.find("get", item(i)); i == 11 && got.P < 0.5 {
			t.Errorf("got P %.2f, want more than 0.5", got.P)
		}
		p.call("get", item(i), "x")
		p.s.End()
	}
}
