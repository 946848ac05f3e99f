package predict_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
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
		return predict.WithoutTools(state(t, m))
	}
	before := predict.WithoutTools(state(t, taught(t)))
	if cmp.Diff(before, play(false)) == "" {
		t.Fatal("a session that is not lone taught nothing") // so that the next comparison says something
	}
	if d := cmp.Diff(before, play(true)); d != "" {
		t.Errorf("a lone session taught something: %s", d)
	}
}

// What is supposed leaves no trace: not in the model, and not in the session, which
// goes on as one that supposed nothing.
func TestSupposeChangesNothing(t *testing.T) {
	play := func(supposing bool) (thought []predict.Candidate, after predict.State) {
		m := taught(t)
		p := begin(t, m)
		for i := range 6 {
			p.call("list", fmt.Sprintf(`{"n":%d}`, 100+i), items(100+i))
			if supposing {
				for range 3 {
					got := suppose(p, "get", item(100+i), owner(100+i))
					if len(got) == 0 {
						t.Fatal("nothing follows what was supposed")
					}
					suppose(p, "never_heard_of", `{"x":"y"}`, "")
				}
			}
			thought = append(thought, p.s.Candidates(p.now)...)
			p.call("get", item(100+i), owner(100+i))
		}
		p.s.End()
		return thought, state(t, m)
	}
	thought, after := play(false)
	supposing, afterwards := play(true)
	model := cmpopts.IgnoreFields(enrich.Candidate{}, "Model")
	if d := cmp.Diff(thought, supposing, model); d != "" {
		t.Errorf("the session thinks otherwise: %s", d)
	}
	if cmp.Diff(after, afterwards) != "" {
		t.Error("the model learned otherwise")
	}
}

func TestHistorySupposes(t *testing.T) {
	m := taught(t)
	p := begin(t, m)
	p.call("list", `{"n":1}`, items(1))
	has := func(cs []predict.Candidate, tool, arguments string) float64 { return find(cs, tool, arguments).P }
	ann := `{"name":"ann-1"}`
	if got := has(p.s.Candidates(p.now), "owner", ann); got != 0 {
		t.Errorf("before get is made: got P %.2f", got)
	}
	got := suppose(p, "get", item(1), owner(1))
	if p := has(got, "owner", ann); p < 0.5 {
		t.Errorf("if get were made: got P %.2f for what always follows it", p)
	}
	if p := has(got, "get", `{"id":"no-1"}`); p != 0 {
		t.Errorf("got P %.2f for what follows from before", p)
	}
	real := begin(t, taught(t))
	real.call("list", `{"n":1}`, items(1))
	real.s.Candidates(real.now)
	real.call("get", item(1), owner(1))
	if want, p := has(real.s.Candidates(real.now), "owner", ann), has(got, "owner", ann); p < want-0.1 || p > want+0.1 {
		t.Errorf("supposed: got P %.2f, made: %.2f", p, want)
	}
}

// suppose is what would follow if a certain call were answered so.
func suppose(p *historyPlayer, tool, arguments, answer string) []predict.Candidate {
	c := predict.Candidate{Candidate: enrich.Candidate{Key: call.Key{Tool: tool, Arguments: arguments}, P: 1}}
	return p.s.Suppose(c, predict.Result{Text: []byte(answer)}, p.now)
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

// Random histories of everything a session can be told, to find panics and marks
// that are never let go.
func FuzzHistory(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x10\x21\x32\x43"))
	f.Add([]byte("list get list get \x00\x00\x06\x06\x07\x07"))
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 400 {
			t.Skip()
		}
		m := learner(learning{Target: reads, MaxAge: time.Minute})
		sessions := []*predict.Session{m.Begin(1, false), m.Begin(2, true)}
		now := time.Unix(1e9, 0)
		for i, b := range steps {
			s, n, n64 := sessions[int(b>>3)%len(sessions)], int(b>>4), uint64(i)
			now = now.Add(time.Duration(b) * time.Second / 4)
			switch b % 8 {
			case 0, 1:
				s.Call(predict.Call{ID: n64, Turn: i / 2, Tool: []string{"list", "get"}[b%2], Arguments: []string{fmt.Sprintf(`{"n":%d}`, n), item(n)}[b%2], At: now})
			case 2:
				s.Result(predict.Result{ID: n64 - 1, Text: []byte(items(n)), Size: n, At: now})
			case 3:
				s.Result(predict.Result{ID: n64 - 2, Failed: true, At: now})
			case 5:
				s.Invalidate(func(tool, arguments string) bool { return len(tool)+len(arguments)+n&1 == 0 })
			case 6:
				for _, c := range s.Candidates(now) {
					if !(c.P > 0 && c.P < 1) {
						t.Fatalf("got %+v", c)
					}
				}
				s.Suppose(predict.Candidate{Candidate: enrich.Candidate{Key: call.Key{Tool: "get", Arguments: item(n)}}}, predict.Result{Text: []byte(items(n))}, now)
			case 7:
				if n > 12 {
					s.End()
					sessions[int(b>>3)%len(sessions)] = m.Begin(uint64(i)+3, n%2 == 0)
				}
				m.RecordTrial("get", n > 0)
			}
		}
		for _, s := range sessions {
			s.End()
			if n := s.Open(); n != 0 {
				t.Fatalf("%d candidates never got a label", n)
			}
		}
		if _, err := learner(learning{}).Merge(state(t, m)); err != nil {
			t.Fatal(err)
		}
	})
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
