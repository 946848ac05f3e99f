package predict_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// historyPlayer makes the calls of one session.
type historyPlayer struct {
	m    *predict.Model
	s    *predict.Session
	id   uint64
	turn int
	now  time.Time
}

// began is the time at which every session begins.
var began = time.Unix(1e9, 0)

func reads(tool string) bool { return !strings.HasPrefix(tool, "write") }

// learning has the options of a model of tools without schemas.
type learning struct {
	Target       func(tool string) bool           // tools that are read-only; nil: none
	Freshness    map[string]time.Duration         // by tool
	MaxAge       time.Duration                    // of the other tools
	ShadowLabels int                              // see predict.Options
	Static       bool                             // nothing is learned
	Follows      map[string][]valuemodel.FollowUp // by tool
}

func learner(l learning) *predict.Model {
	known := map[string]*valuemodel.Model{}
	tool := func(name string) predict.Tool {
		m := known[name]
		if m == nil {
			m = &valuemodel.Model{Upstream: "hub", Tool: name}
			m.FollowUps, m.Cost.Freshness, m.Disclosure = l.Follows[name], l.Freshness[name], valuemodel.SameService
			m.Class = valuemodel.MutatesExternal
			if l.Target != nil && l.Target(name) {
				m.Class, m.Speculate = valuemodel.ReadOnly, new(true)
			}
			known[name] = m
		}
		return predict.Tool{Model: m}
	}
	return predict.New(predict.Options{Tool: tool, Learn: !l.Static, MaxAge: l.MaxAge, ShadowLabels: l.ShadowLabels})
}

// begin begins a session. The session ids are the same for every model.
func begin(_ testing.TB, m *predict.Model) *historyPlayer {
	begun[m]++
	return &historyPlayer{m: m, s: m.Begin(begun[m], false), now: began}
}

// call makes a call in a new turn.
func (p *historyPlayer) call(tool, arguments, result string) {
	p.turn++
	p.together([3]string{tool, arguments, result})
}

// together makes calls in the current turn.
func (p *historyPlayer) together(calls ...[3]string) {
	first := p.id
	for _, c := range calls {
		p.id++
		p.s.Call(predict.Call{ID: p.id, Turn: p.turn, Tool: c[0], Arguments: c[1], At: p.now})
	}
	p.now = p.now.Add(time.Second)
	for i, c := range calls {
		p.s.Result(predict.Result{ID: first + uint64(i) + 1, Failed: strings.HasPrefix(c[2], "error"), Text: []byte(c[2]), Size: len(c[2]), At: p.now})
	}
	p.now = p.now.Add(2 * time.Second)
}

// find returns the candidate for a call; P is 0 if there is none.
func (p *historyPlayer) find(tool, arguments string) predict.Candidate {
	return find(p.s.Candidates(p.now), tool, arguments)
}

// Each session uses other values. After a few of them the model must predict exactly the last
// call.
func TestBindings(t *testing.T) {
	type step = [3]string
	tests := []struct {
		name    string
		session func(i int) []step // the last step is to be predicted
	}{
		{"a field of a JSON result", func(i int) []step {
			return []step{
				{"get_user", fmt.Sprintf(`{"id":"u%d"}`, i), fmt.Sprintf(`{"name":"x","team":{"key":"team-%d"}}`, i)},
				{"get_team", fmt.Sprintf(`{"key":"team-%d"}`, i), ""},
			}
		}},
		{"the first of a list", func(i int) []step {
			return []step{
				{"list_issues", `{}`, fmt.Sprintf(`[{"iid":%d,"t":"a"},{"iid":%d,"t":"b"}]`, 100+i, 200+i)},
				{"get_issue", fmt.Sprintf(`{"number":%d}`, 100+i), ""},
			}
		}},
		{"a number where a string is wanted, beside an argument", func(i int) []step {
			return []step{
				{"list_issues", fmt.Sprintf(`{"owner":"o%d"}`, i), fmt.Sprintf(`{"items":[{"number":%d}]}`, 100+i)},
				{"get_issue", fmt.Sprintf(`{"issue":"%d","owner":"o%d"}`, 100+i, i), ""},
			}
		}},
		{"several fields of one element", func(i int) []step {
			return []step{
				{"get_trip", fmt.Sprintf(`{"id":"t%d"}`, i), fmt.Sprintf(`{"legs":[{"from":"A%d","to":"B%d","on":"2026-01-%02d"},{"from":"C","to":"D","on":"2026-02-01"}]}`, i, i, i+10)},
				{"search", fmt.Sprintf(`{"date":"2026-01-%02d","from":"A%d","to":"B%d"}`, i+10, i, i), ""},
			}
		}},
		{"the path before a line number", func(i int) []step {
			return []step{
				{"grep", fmt.Sprintf(`{"pattern":"p%d"}`, i), fmt.Sprintf("src/a%d.go:12: func main\nsrc/b%d.go:3: x", i, i)},
				{"read", fmt.Sprintf(`{"path":"src/a%d.go"}`, i), ""},
			}
		}},
		{"a directory joined with a name of a listing", func(i int) []step {
			return []step{
				{"list", fmt.Sprintf(`{"path":"/home/u%d/src"}`, i), fmt.Sprintf("[DIR] sub%d\n[FILE] main file %d", i, i)},
				{"list", fmt.Sprintf(`{"path":"/home/u%d/src/sub%d"}`, i, i), ""},
			}
		}},
		{"a drawn tree", func(i int) []step {
			return []step{
				{"tree", fmt.Sprintf(`{"root":"/r%d"}`, i), fmt.Sprintf("/r%d\n├── LICENSE%d\n└── x", i, i)},
				{"read", fmt.Sprintf(`{"path":"/r%d/LICENSE%d"}`, i, i), ""},
			}
		}},
		{"a markdown link", func(i int) []step {
			return []step{
				{"search", fmt.Sprintf(`{"q":"q%d"}`, i), fmt.Sprintf("# Results\n1. [One](https://x.test/page/%d) is it", i)},
				{"fetch", fmt.Sprintf(`{"url":"https://x.test/page/%d"}`, i), ""},
			}
		}},
		{"what a failed call named", func(i int) []step {
			return []step{
				{"write_file", fmt.Sprintf(`{"path":"f%d.txt","text":"abc"}`, i), "error: not read yet"},
				{"read", fmt.Sprintf(`{"path":"f%d.txt"}`, i), ""},
			}
		}},
		{"a constant, and a trigger several calls back", func(i int) []step {
			return []step{
				{"list_issues", fmt.Sprintf(`{"owner":"o%d"}`, i), fmt.Sprintf(`[{"iid":"ISS-%d"}]`, 100+i)},
				{"write_note", fmt.Sprintf(`{"text":"n%d"}`, i), "ok"},
				{"get_issue", fmt.Sprintf(`{"full":true,"id":"ISS-%d"}`, 100+i), ""},
			}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := learner(learning{Target: reads})
			for i := range 12 {
				steps := test.session(i)
				p := begin(t, m)
				want := steps[len(steps)-1]
				for _, s := range steps[:len(steps)-1] {
					p.call(s[0], s[1], s[2])
				}
				got := p.find(want[0], want[1])
				if i >= 3 && got.P == 0 {
					t.Fatalf("session %d: no candidate %s %s", i, want[0], want[1])
				}
				if i == 11 && got.P < 0.5 {
					t.Errorf("after 11 sessions: got P %.2f, want at least 0.5", got.P)
				}
				p.call(want[0], want[1], "done")
				p.s.End()
			}
		})
	}
}

func TestTogetherIsNotAfter(t *testing.T) {
	m := learner(learning{Target: reads})
	for i := range 10 {
		p := begin(t, m)
		p.turn++
		p.together(
			[3]string{"list", fmt.Sprintf(`{"n":%d}`, 10+i), fmt.Sprintf(`{"id":"id-%d"}`, i)},
			[3]string{"get", fmt.Sprintf(`{"id":"id-%d"}`, i), "x"},
		)
		p.s.End()
	}
	p := begin(t, m)
	p.call("list", `{"n":99}`, `{"id":"id-99"}`)
	if got := p.find("get", `{"id":"id-99"}`); got.P != 0 {
		t.Errorf("a call made together with another counts as its follower: P %.2f", got.P)
	}
}

// P becomes low if the calls do not come, though the candidates are never prefetched, and also if
// they come only after a write.
func TestLabels(t *testing.T) {
	tests := []struct {
		name string
		then func(p *historyPlayer, id string)
		low  bool
	}{
		{"asked for", func(p *historyPlayer, id string) { p.call("get", id, "x") }, false},
		{"not asked for", func(p *historyPlayer, id string) { p.call("other", `{}`, "x") }, true},
		{"asked for after a write", func(p *historyPlayer, id string) { p.s.Invalidate(nil); p.call("get", id, "x") }, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := learner(learning{Target: reads})
			last := 0.0
			for i := range 40 {
				p := begin(t, m)
				id := fmt.Sprintf(`{"id":"id-%d"}`, i)
				p.call("list", fmt.Sprintf(`{"n":%d}`, 10+i), id)
				last = p.find("get", id).P
				if i < 3 {
					p.call("get", id, "x") // so that a template is learned
				} else {
					test.then(p, id)
				}
				p.s.End()
			}
			if low := last < 0.15; low != test.low {
				t.Errorf("got P %.3f, want it low: %v", last, test.low)
			}
		})
	}
}

func TestExpiry(t *testing.T) {
	m := learner(learning{Target: reads, MaxAge: 10 * time.Second})
	var last float64
	for i := range 40 {
		p := begin(t, m)
		id := fmt.Sprintf(`{"id":"id-%d"}`, i)
		p.call("list", fmt.Sprintf(`{"n":%d}`, 10+i), id)
		last = p.find("get", id).P
		p.now = p.now.Add(time.Minute)
		p.call("get", id, "x")
		p.s.End()
	}
	if last > 0.15 {
		t.Errorf("always called too late: got P %.3f, want it low", last)
	}
}

func TestShadow(t *testing.T) {
	m := learner(learning{Target: reads, ShadowLabels: 5})
	issues := -1
	session := func(i int, asks bool) {
		p := begin(t, m)
		id := fmt.Sprintf(`{"id":"id-%d"}`, i)
		p.call("list", fmt.Sprintf(`{"n":%d}`, 10+i), id)
		if c := p.find("get", id); c.P > 0 && c.Reason != enrich.Shadow && issues < 0 {
			issues = i
		}
		if asks {
			p.call("get", id, "x")
		}
		p.s.End()
	}
	for i := range 30 {
		session(i, true)
	}
	if issues < 5 || issues > 10 {
		t.Errorf("first prefetched in session %d, want it after 5 labels", issues)
	}
	for i := range 30 {
		session(100+i, false)
	}
	p := begin(t, m)
	p.call("list", `{"n":999}`, `{"id":"id-999"}`)
	if c := p.find("get", `{"id":"id-999"}`); c.P > 0.1 {
		t.Errorf("not called any more: got %+v, want it unlikely", c)
	}
}

func TestQuantities(t *testing.T) {
	m := learner(learning{Target: reads})
	for i := range 50 {
		p := begin(t, m)
		id := fmt.Sprintf(`{"id":"id-%d"}`, i)
		p.call("list", fmt.Sprintf(`{"n":%d}`, 10+i), id+strings.Repeat(" ", 4096))
		p.find("get", id)
		p.call("get", id, "x")
		p.s.End()
	}
	within := func(name string, got, want, share float64) {
		if got < want*(1-share) || got > want*(1+share) {
			t.Errorf("%s: got %v, want about %v", name, got, want)
		}
	}
	usual := m.Typical("list")
	within("latency", usual.Latency.P50.Seconds(), 1, 0.3)
	within("size", float64(usual.Bytes), 4096, 0.3)
	p := begin(t, m)
	p.call("list", `{"n":99}`, `{"id":"id-99"}`)
	if lead := p.find("get", `{"id":"id-99"}`).Lead.P50; lead > time.Second {
		t.Errorf("lead: got %v, want the time between the candidate and the call", lead)
	}
}

// A call that two sessions made is a candidate in the third, whichever entry of the result it is
// for.
func TestRareEdges(t *testing.T) {
	for nth := range 4 {
		m := learner(learning{Target: reads})
		found := func(session int) []string {
			var out []string
			for i := range 5 {
				out = append(out, fmt.Sprintf("doc-%d%d", session, i))
			}
			return out
		}
		for session := range 3 {
			p := begin(t, m)
			all := found(session)
			p.call("search", fmt.Sprintf(`{"q":"words %d"}`, session), `["`+strings.Join(all, `","`)+`"]`)
			one := `{"id":"` + all[nth] + `"}`
			if got := p.find("retrieve", one).P; got > 0 != (session == 2) {
				t.Errorf("entry %d, seen %d times: got P %.3f", nth, session, got)
			}
			p.call("retrieve", one, "x")
			p.s.End()
		}
	}
}

// A call whose argument is a later value of an array of arguments is not explained by the array, since
// its first value is the one that a template takes.
func TestOnlyTheFirstOfAnArrayOfArguments(t *testing.T) {
	for used, want := range map[int]bool{0: true, 1: false} {
		m := learner(learning{Target: reads})
		for i := range 10 {
			p := begin(t, m)
			ids := []string{fmt.Sprintf("id-%d", 2*i), fmt.Sprintf("id-%d", 2*i+1)}
			p.call("get_all", fmt.Sprintf(`{"ids":[%q,%q]}`, ids[0], ids[1]), "x")
			p.call("get", fmt.Sprintf(`{"id":%q}`, ids[used]), "x")
			p.s.End()
		}
		if got := m.Weight("get_all", "get") > 0; got != want {
			t.Errorf("value %d: learned: %v, want %v", used, got, want)
		}
	}
}

// Nor is a path explained by a later folder of an array.
func TestOnlyTheFirstOfAnArrayOfFolders(t *testing.T) {
	for used, want := range map[int]float64{0: 10, 1: 1} { // 1: each folder is a constant
		m := learner(learning{Target: reads})
		for i := range 10 {
			p := begin(t, m)
			dirs := []string{fmt.Sprintf("/a%d", i), fmt.Sprintf("/b%d", i)}
			p.call("search", fmt.Sprintf(`{"dirs":[%q,%q]}`, dirs[0], dirs[1]), fmt.Sprintf(`{"found":"f%d.go"}`, i))
			p.call("read", fmt.Sprintf(`{"path":"%s/f%d.go"}`, dirs[used], i), "x")
			p.s.End()
		}
		if got := m.Weight("search", "read"); got > want || got < want/2 {
			t.Errorf("folder %d: the best template explains %v calls of 10, want %v", used, got, want)
		}
	}
}

// A text with white space around its digits is no number, and makes no call that no client would make.
func TestNoNumberWithWhiteSpace(t *testing.T) {
	m := learner(learning{Target: reads})
	for i := range 10 {
		p := begin(t, m)
		p.call("list", fmt.Sprintf(`{"n":%d}`, 100+i), fmt.Sprintf(`{"items":["%d"]}`, 500+i))
		p.call("get", fmt.Sprintf(`{"id":%d}`, 500+i), "x")
		p.s.End()
	}
	for text, want := range map[string]bool{"777": true, "777 ": false, `777\n`: false} {
		p := begin(t, m)
		p.call("list", `{"n":7}`, `{"items":["`+text+`"]}`)
		if got := p.s.Candidates(p.now); (len(got) > 0) != want {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}
