package predict_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/predict"
)

// taught is a model that knows: after list comes get of the first item, after get
// comes owner of what it names.
func taught(t testing.TB) *predict.Learner {
	m := predict.NewLearner(predict.LearnerOptions{Target: reads})
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
func state(t testing.TB, m *predict.Learner) []byte {
	t.Helper()
	b, err := m.Merge(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Two conversations through one session: each result is followed by what follows
// it, and by nothing of the other.
func TestSharedHistory(t *testing.T) {
	m := taught(t)
	p := &historyPlayer{t: t, m: m, s: m.Begin(1<<32, true), now: time.Unix(1e9, 0)}
	p.s.Call(predict.Call{ID: 1, Turn: 1, Tool: "list", Arguments: `{"n":1}`, At: p.now})
	p.s.Call(predict.Call{ID: 2, Turn: 2, Tool: "get", Arguments: `{"id":"id-500"}`, At: p.now})
	if got := p.s.Candidates(p.now); len(got) != 0 {
		t.Errorf("no result: got %v", got)
	}
	p.s.Result(predict.Outcome{ID: 1, Values: predict.Extract([]byte(items(400)), nil), At: p.now.Add(time.Second)})
	if c := p.find("get", item(400)); c.P < 0.3 || c.Follows != 1 {
		t.Errorf("after the first result: got %+v", c)
	}
	p.s.Result(predict.Outcome{ID: 2, Values: predict.Extract([]byte(owner(500)), nil), At: p.now.Add(time.Second)})
	if c := p.find("owner", `{"name":"ann-500"}`); c.P < 0.3 || c.Follows != 2 {
		t.Errorf("after the second result: got %+v", c)
	}
	if c := p.find("get", item(400)); c.P != 0 {
		t.Errorf("after the second result: got %+v of the first", c)
	}
	p.s.Propose(2, []predict.Proposal{{Tool: "get", Arguments: id(7), Edge: "e", Prior: 0.5}})
	if c := p.find("get", id(7)); c.P != 0.5 {
		t.Errorf("proposed: got %+v", c)
	}
}

// A lone session teaches sizes and latencies and nothing else: its calls follow
// each other by chance.
func TestLoneTeachesNothing(t *testing.T) {
	// without is a state without what is known of tools, and the count of sessions.
	without := func(state []byte) string {
		var b strings.Builder
		for line := range strings.Lines(string(state)) {
			if _, body, _ := strings.Cut(line, " "); !strings.HasPrefix(body, `{"tool":`) && !strings.HasPrefix(body, `{"sessions":`) {
				b.WriteString(line)
			}
		}
		return b.String()
	}
	play := func(lone bool) string {
		m := taught(t)
		p := &historyPlayer{t: t, m: m, s: m.Begin(1<<32, lone), now: time.Unix(1e9, 0)}
		for i := range 20 {
			p.call("list", fmt.Sprintf(`{"n":%d}`, i), items(i))
			p.s.Candidates(p.now)
			p.call("other", item(i), "x")
		}
		p.s.End()
		return without(state(t, m))
	}
	before := without(state(t, taught(t)))
	if play(false) == before {
		t.Fatal("a session that is not lone taught nothing") // so that the next comparison says something
	}
	if d := cmp.Diff(before, play(true)); d != "" {
		t.Errorf("a lone session taught something: %s", d)
	}
}

// What is supposed leaves no trace: not in the model, and not in the session, which
// goes on as one that supposed nothing.
func TestSupposeChangesNothing(t *testing.T) {
	play := func(suppose bool) (thought []predict.Match, after []byte) {
		m := taught(t)
		p := begin(t, m)
		for i := range 6 {
			p.call("list", fmt.Sprintf(`{"n":%d}`, 100+i), items(100+i))
			p.s.Propose(p.id, proposed(10*i, 2, 0.3))
			if suppose {
				for range 3 {
					got := p.s.Suppose("get", item(100+i), predict.Extract([]byte(owner(100+i)), nil), proposed(5000, 2, 0.2), p.now)
					if len(got) == 0 {
						t.Fatal("nothing follows what was supposed")
					}
					p.s.Suppose("never_heard_of", `{"x":"y"}`, nil, nil, p.now)
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
	if d := cmp.Diff(fmt.Sprint(thought), fmt.Sprint(supposing)); d != "" {
		t.Errorf("the session thinks otherwise: %s", d)
	}
	if !bytes.Equal(after, afterwards) {
		t.Error("the model learned otherwise")
	}
}

func TestHistorySupposes(t *testing.T) {
	m := taught(t)
	p := begin(t, m)
	p.call("list", `{"n":1}`, items(1))
	has := func(cs []predict.Match, tool, arguments string) float64 {
		for _, c := range cs {
			if c.Tool == tool && c.Arguments == arguments {
				return c.P
			}
		}
		return 0
	}
	ann := `{"name":"ann-1"}`
	if got := has(p.s.Candidates(p.now), "owner", ann); got != 0 {
		t.Errorf("before get is made: got P %.2f", got)
	}
	got := p.s.Suppose("get", item(1), predict.Extract([]byte(owner(1)), nil), []predict.Proposal{{Tool: "get", Arguments: id(9), Edge: "e", Prior: 0.25}}, p.now)
	if p := has(got, "owner", ann); p < 0.5 {
		t.Errorf("if get were made: got P %.2f for what always follows it", p)
	}
	if p := has(got, "get", id(9)); p != 0.25 {
		t.Errorf("got P %.2f for what was proposed, want 0.25", p)
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

// Only what is stale was wrong.
func TestInvalidateSome(t *testing.T) {
	label := func(stale func(tool, arguments string) bool) (got, owned int) {
		m := taught(t)
		p := begin(t, m)
		p.call("list", `{"n":1}`, items(1))
		p.call("get", item(1), owner(1))
		p.s.Candidates(p.now)
		gets, owners := m.Labels("get"), m.Labels("owner")
		p.s.Invalidate(stale)
		return m.Labels("get") - gets, m.Labels("owner") - owners
	}
	all := func(string, string) bool { return true }
	gets, owners := label(nil)
	if gets == 0 || owners == 0 {
		t.Fatalf("nil: got %d and %d labels, want both", gets, owners)
	}
	if g, o := label(all); g != gets || o != owners {
		t.Errorf("all: got %d and %d labels, want %d and %d as of nil", g, o, gets, owners)
	}
	if g, o := label(func(tool, _ string) bool { return tool == "owner" }); g != 0 || o != owners {
		t.Errorf("owner: got %d and %d labels, want 0 and %d", g, o, owners)
	}
	if g, o := label(func(_, arguments string) bool { return arguments == `{"id":"no-1"}` }); g != 1 || o != 0 {
		t.Errorf("one call: got %d and %d labels, want 1 and 0", g, o)
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
		m := predict.NewLearner(predict.LearnerOptions{Target: reads, MaxAge: func(string) time.Duration { return time.Minute }})
		sessions := []*predict.History{m.Begin(1, false), m.Begin(2, true)}
		now := time.Unix(1e9, 0)
		for i, b := range steps {
			s, n, n64 := sessions[int(b>>3)%len(sessions)], int(b>>4), uint64(i)
			now = now.Add(time.Duration(b) * time.Second / 4)
			switch b % 8 {
			case 0, 1:
				s.Call(predict.Call{ID: n64, Turn: i / 2, Tool: []string{"list", "get"}[b%2], Arguments: []string{fmt.Sprintf(`{"n":%d}`, n), item(n)}[b%2], At: now})
			case 2:
				s.Result(predict.Outcome{ID: n64 - 1, Values: predict.Extract([]byte(items(n)), nil), Size: n, At: now})
			case 3:
				s.Result(predict.Outcome{ID: n64 - 2, Failed: true, At: now})
			case 4:
				s.Propose(n64-uint64(n), proposed(n, n, 0.5))
			case 5:
				s.Invalidate(func(tool, arguments string) bool { return len(tool)+len(arguments)+n&1 == 0 })
			case 6:
				for _, c := range s.Candidates(now) {
					if !(c.P > 0 && c.P < 1) {
						t.Fatalf("got %+v", c)
					}
				}
				s.Suppose("get", item(n), predict.Extract([]byte(items(n)), nil), proposed(n, 2, 0), now)
			case 7:
				if n > 12 {
					s.End()
					sessions[int(b>>3)%len(sessions)] = m.Begin(uint64(i)+3, n%2 == 0)
				}
				m.Trial("get", n > 0)
			}
		}
		for _, s := range sessions {
			s.End()
			if n := s.Open(); n != 0 {
				t.Fatalf("%d candidates never got a label", n)
			}
		}
		if _, err := predict.NewLearner(predict.LearnerOptions{}).Merge(state(t, m)); err != nil {
			t.Fatal(err)
		}
	})
}
