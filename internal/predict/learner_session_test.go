package predict_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"mcpschedd/internal/predict"
)

// taught returns a model that has learned two templates: list → get of the first item, and get →
// owner of the name in its result.
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

// state returns what a model would save.
func state(t testing.TB, m *predict.Model) predict.State {
	t.Helper()
	b, err := m.Merge(predict.State{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// In a multiplexed session, candidates follow the newest result only.
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
		t.Errorf("after the second result: got %+v, which follows the first result", c)
	}
}

// A multiplexed session only teaches sizes and latencies, as calls of different conversations
// follow each other by chance.
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
		t.Fatal("a session that is not lone taught nothing") // the comparison below would prove nothing
	}
	if !predict.Same(before, play(true)) {
		t.Error("a lone session taught something")
	}
}

// A value with half a surrogate pair, which servers may read differently, makes no candidate.
func TestHalfASurrogatePairMakesNoCandidate(t *testing.T) {
	m := model()
	learn(t, m, 0, 3)
	for id, want := range map[string]bool{`id-\n7`: true, `id-\ud800\n7`: false} {
		p := begin(t, m)
		p.call("list", `{"n":5}`, `{"items":[{"id":"`+id+`"}]}`)
		found := false
		for _, c := range p.s.Candidates(p.now) {
			found = found || c.Key.Tool == "get"
			if !json.Valid([]byte(c.Key.Arguments)) {
				t.Errorf("%s: got the arguments %s, which are not JSON", id, c.Key.Arguments)
			}
		}
		if found != want {
			t.Errorf("%s: is a candidate: %v, want %v", id, found, want)
		}
	}
}

// Only the candidates with stale results are labelled as misses.
func TestInvalidateSome(t *testing.T) {
	// waiting returns the number of candidates without a label after an invalidation.
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
		t.Errorf("one call: %d are left, want one less than %d", n, none)
	}
}

// A stale result still triggers templates: after an edit, clients read files that an earlier
// listing named.
func TestStaleResultsGoOnDriving(t *testing.T) {
	p := begin(t, taught(t))
	p.call("list", `{"n":1}`, items(1))
	p.s.Invalidate(nil)
	if c := p.find("get", item(1)); c.P == 0 {
		t.Error("the candidates of a stale result are gone")
	}
}

// Candidates that are scored several times in one turn learn from one label only.
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
		t.Errorf("scored five times in a turn: got P %.3f, want %.3f as if scored once", got, want)
	}
}

// A repeat of a call that a write has made stale is likely, if such calls were repeated before.
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
