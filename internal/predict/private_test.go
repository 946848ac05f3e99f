package predict_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mcpschedd/internal/predict"
)

// public is the number of sessions after which a value is public.
const public = 3

// secrets records which sessions used which values.
type secrets struct {
	usedBy map[string]map[uint64]bool // value → sessions
}

// kinds are the ways in which a private value can become part of a template. Each makes two calls,
// the second of which follows from the first and contains the value, except for the last, where
// the first one does.
var kinds = []func(p *historyPlayer, n int, value string){
	func(p *historyPlayer, n int, value string) { // beside an argument from a result
		p.call("list", fmt.Sprintf(`{"n":%d}`, 10+n), fmt.Sprintf(`{"id":"id-%d"}`, n))
		p.call("get", fmt.Sprintf(`{"id":"id-%d","mode":%q}`, n, value), "x")
	},
	func(p *historyPlayer, n int, value string) { // as the only argument
		p.call("open", fmt.Sprintf(`{"n":%d}`, 10+n), "x")
		p.call("use", fmt.Sprintf(`{"mode":%q}`, value), "x")
	},
	func(p *historyPlayer, n int, value string) { // as the directory of a file that a result names
		p.call("find", fmt.Sprintf(`{"q":"q%d"}`, n), fmt.Sprintf("file%d.go\nother%d.go", n, n))
		p.call("read", fmt.Sprintf(`{"path":"/%s/file%d.go"}`, value, n), "x")
	},
	func(p *historyPlayer, n int, value string) { // as the name of a member
		p.call("list", fmt.Sprintf(`{"n":%d}`, 10+n), fmt.Sprintf(`{"id":"id-%d"}`, n))
		p.call("put", fmt.Sprintf(`{"of":{%q:"id-%d"}}`, "@"+value, n), "x")
	},
	func(p *historyPlayer, n int, value string) { // as the name of a member of the trigger's arguments
		p.call("put", fmt.Sprintf(`{"of":{%q:"name-%d"}}`, "@"+value, n), "x")
		p.call("got", fmt.Sprintf(`{"name":"name-%d"}`, n), "x")
	},
}

// value returns the nth value of a kind. No value contains another.
func value(kind, nth int) string { return fmt.Sprintf("v%c%cw", 'a'+kind, 'a'+nth) }

func (s *secrets) use(session uint64, value string) {
	if s.usedBy[value] == nil {
		s.usedBy[value] = make(map[uint64]bool)
	}
	s.usedBy[value][session] = true
}

// told returns the private values in a text that the session has not used itself; session 0 has
// used none.
func (s *secrets) told(in string, session uint64) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.usedBy)), func(value string) bool {
		by := s.usedBy[value]
		return len(by) >= public || by[session] || !strings.Contains(in, value)
	})
}

// merge is a merge that a process has started and not finished.
type merge struct {
	snapshot *predict.Snapshot
	written  bool
}

// A value that fewer than public sessions used is neither saved nor used in a candidate of another
// session. This holds for sessions in any processes that start again, and for any order of merges,
// failed writes and restarts.
func TestPrivateStaysPrivate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := secrets{usedBy: make(map[string]map[uint64]bool)}
		models := []*predict.Model{model(), model(), model()}
		players := make(map[[2]uint64]*historyPlayer) // process and session
		merging := make(map[int]merge)
		var state predict.State
		n := 0
		check := func(p *historyPlayer, id uint64) {
			for _, c := range p.s.Candidates(p.now) {
				if told := s.told(c.Key.Arguments, id); len(told) > 0 {
					t.Fatalf("session %d got %v, used by %v: %s %s", id, told, s.usedBy[told[0]], c.Key.Tool, c.Key.Arguments)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"calls": func(t *rapid.T) {
				at := rapid.IntRange(0, len(models)-1).Draw(t, "process")
				id := rapid.Uint64Range(1, 5).Draw(t, "session")
				kind := rapid.IntRange(0, len(kinds)-1).Draw(t, "kind")
				v := value(kind, rapid.IntRange(0, 1).Draw(t, "value"))
				p := players[[2]uint64{uint64(at), id}]
				if p == nil {
					p = &historyPlayer{m: models[at], s: models[at].Begin(id, false), now: began}
					players[[2]uint64{uint64(at), id}] = p
				}
				for range rapid.IntRange(1, 3).Draw(t, "times") {
					n++
					s.use(id, v)
					kinds[kind](p, n, v)
					check(p, id)
				}
			},
			"merge": func(t *rapid.T) { // starts a merge or finishes it; calls come in between
				at := rapid.IntRange(0, len(models)-1).Draw(t, "process")
				if under, is := merging[at]; is {
					delete(merging, at)
					if under.written {
						under.snapshot.MarkWritten()
					}
					models[at].Adopt(under.snapshot)
					return
				}
				snapshot := models[at].Snapshot()
				next, err := snapshot.Merge(state)
				if err != nil {
					t.Fatal(err)
				}
				if told := s.told(held(next), 0); len(told) > 0 {
					t.Fatalf("the state holds %v, used by %v:\n%q", told, s.usedBy[told[0]], held(next))
				}
				written := rapid.IntRange(0, 4).Draw(t, "written") > 0
				if written {
					state = next
				}
				merging[at] = merge{snapshot, written}
			},
			"begin again": func(t *rapid.T) {
				at := rapid.IntRange(0, len(models)-1).Draw(t, "process")
				id := rapid.Uint64Range(1, 5).Draw(t, "session")
				if p := players[[2]uint64{uint64(at), id}]; p != nil {
					p.s.End()
					p.s = models[at].Begin(id, false)
				}
			},
			"restart": func(t *rapid.T) {
				at := rapid.IntRange(0, len(models)-1).Draw(t, "process")
				models[at] = model()
				delete(merging, at)
				for key := range players {
					if key[0] == uint64(at) {
						delete(players, key)
					}
				}
				if _, err := models[at].Merge(state); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}

// A value that three sessions used is saved, whichever processes they were in.
func TestPublicTravels(t *testing.T) {
	for kind, use := range kinds {
		var state predict.State
		for id := range uint64(public + 1) {
			m := model()
			if _, err := m.Merge(state); err != nil {
				t.Fatal(err)
			}
			p := &historyPlayer{m: m, s: m.Begin(id+1, false), now: began}
			if told := strings.Contains(held(state), value(kind, 0)); told != (id == public) {
				t.Errorf("kind %d: after %d sessions the state has it: %v", kind, id, told)
			}
			if id < public {
				for n := range 2 {
					use(p, int(10*id)+n, value(kind, 0))
				}
			}
			state, _ = m.Merge(state)
		}
	}
}

// A private value is used in candidates of its own session, and of no other.
func TestOwnValuesAreOnesOwn(t *testing.T) {
	m := model()
	p := begin(t, m)
	for n := range 4 {
		kinds[2](p, n, value(2, 0))
	}
	p.call("find", `{"q":"q9"}`, "file9.go\nother9.go")
	want := fmt.Sprintf(`{"path":"/%s/file9.go"}`, value(2, 0))
	if p.find("read", want).P == 0 {
		t.Errorf("no candidate read %s in the session that used the directory", want)
	}
	q := begin(t, m)
	q.call("find", `{"q":"q9"}`, "file9.go\nother9.go")
	if got := q.find("read", want); got.P != 0 {
		t.Errorf("another session: got %+v", got)
	}
}

// Any number of arguments whose names are data leaves room for the values of others.
func TestDataKeysTakeNoRoom(t *testing.T) {
	m := model()
	p := begin(t, m)
	for i := range 9000 {
		p.call("get_all", fmt.Sprintf(`{"of":{"user-%d":1}}`, 1000+i), "x")
	}
	p.s.End()
	for i := range 10 {
		p := begin(t, m)
		p.call("list", fmt.Sprintf(`{"n":%d}`, 100+i), items(i))
		p.s.Candidates(p.now)
		p.call("get", fmt.Sprintf(`{"id":"id-%d","mode":"short"}`, i), "x")
		p.s.End()
	}
	p = begin(t, m)
	p.call("list", `{"n":7}`, items(777))
	if got := p.find("get", `{"id":"id-777","mode":"short"}`); got.P < 0.3 {
		t.Errorf("got %+v, want the call with the constant that ten sessions used", got)
	}
}

// What only the arguments around a value show to be a secret is not saved, however many sessions used it.
func TestSecretsByTheirSurroundings(t *testing.T) {
	for _, arguments := range []string{
		`"headers":[{"name":"X-Api-Key","value":"hunter2xyz"}]`, `"command":["mysql","--password","hunter2xyz"]`, `"auth":{"password":"hunter2xyz"}`,
	} {
		m := model()
		for i := range 8 {
			p := begin(t, m)
			p.call("list", fmt.Sprintf(`{"n":%d}`, 100+i), items(i))
			p.s.Candidates(p.now)
			p.call("get", fmt.Sprintf(`{"id":"id-%d",%s}`, i, arguments), "x")
			p.s.End()
		}
		stored := state(t, m)
		if all := string(stored.Server) + string(stored.Values); strings.Contains(all, "hunter2xyz") {
			t.Errorf("%s: the state has the secret", arguments)
		}
	}
}

// TestScrubsOnce: the secrets of a call's arguments are looked for once, not for each of its values, also
// if the arguments are too long without them.
func TestScrubsOnce(t *testing.T) {
	allocations := func(values int) float64 {
		p := begin(t, learner(learning{Target: reads}))
		members := []string{`{"text":"` + strings.Repeat("token=hunter2x ", 4000) + `"`}
		for i := range values {
			members = append(members, fmt.Sprintf(`"of%c":"w%d"`, 'a'+i, i))
		}
		arguments := strings.Join(members, ",") + "}"
		return testing.AllocsPerRun(1, func() { p.call("get", arguments, "x") })
	}
	if one, many := allocations(1), allocations(20); many > 2*one {
		t.Errorf("got %.0f allocations for 20 values, and %.0f for one", many, one)
	}
}

// What most sessions ask for is learned, however much else they ask for.
func TestConstantsBySessions(t *testing.T) {
	m := learner(learning{Target: reads})
	for i := range 12 {
		p := begin(t, m)
		p.call("open", fmt.Sprintf(`{"n":%d}`, 10+i), "x")
		p.s.Candidates(p.now)
		p.call("read", `{"path":"/docs/rules.md"}`, "x")
		for n := range 40 {
			p.call("read", fmt.Sprintf(`{"path":"/src/%d/%d.go"}`, i, n), "x")
		}
		p.s.End()
	}
	p := begin(t, m)
	p.call("open", `{"n":99}`, "x")
	if got := p.find("read", `{"path":"/docs/rules.md"}`); got.P < 0.5 {
		t.Errorf("got %+v", got)
	}
}
