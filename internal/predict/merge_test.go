package predict_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// Merges do not raise the P of calls that have stopped coming: a merge adds what was learned, and
// does not restore what has decayed since the state was loaded.
func TestMergeDoesNotRestoreThePast(t *testing.T) {
	play := func(every int) float64 {
		m := model()
		var state predict.State
		for i := range 2000 {
			p := begin(t, m)
			p.call("list", fmt.Sprintf(`{"n":%d}`, 10+i), `{"items":[`+item(i)+`]}`)
			p.s.Candidates(p.now)
			if i < 1800 {
				p.call("get", item(i), "x")
				p.call("other", item(i), "x")
			}
			p.s.End()
			if every > 0 && i%every == 0 {
				state, _ = m.Merge(state)
			}
		}
		p := begin(t, m)
		p.call("list", `{"n":5}`, `{"items":[`+item(7777)+`]}`)
		return p.find("get", item(7777)).P + p.find("other", item(7777)).P
	}
	alone, merged := play(0), play(20)
	if diff := merged - alone; diff > 0.01 || diff < -0.01 {
		t.Errorf("got P %.3f with merges, %.3f without, as sums", merged, alone)
	}
}

// Counts of labels decay, so a change of behaviour is learned at the same pace however many labels
// came before.
func TestCountsAreBounded(t *testing.T) {
	m := configured(t, 0.5)
	var state predict.State
	change := func(i int, comes bool) float64 {
		p := begin(t, m)
		list(p, 100*i, 1)
		got := p.find("get", id(100*i)).P
		if comes {
			p.call("get", id(100*i), "x")
		}
		p.s.End()
		return got
	}
	for i := range 6000 {
		change(i, true)
		if i%1000 == 0 {
			state, _ = m.Merge(state)
		}
	}
	for i := range 2000 {
		change(i, false)
		if i%100 == 0 {
			state, _ = m.Merge(state)
		}
	}
	if got := change(1, false); got > 0.45 {
		t.Errorf("after 6,000 hits and 2,000 misses: got P %.2f, want about 0.37", got)
	}
}

// A call counts as a hit only if it comes while its result may be served, which depends on the
// tool.
func TestHorizonIsTheTools(t *testing.T) {
	served := map[string]time.Duration{"get": time.Minute, "quote": 5 * time.Second}
	for _, maxAge := range []time.Duration{time.Hour, 0} {
		m := learner(learning{Target: reads, MaxAge: maxAge, Freshness: served})
		last := map[string]float64{}
		for i := range 60 {
			p := begin(t, m)
			p.call("list", fmt.Sprintf(`{"n":%d}`, 10+i), `{"items":[`+item(i)+`]}`)
			for tool := range served {
				last[tool] = p.find(tool, item(i)).P
			}
			p.now = p.now.Add(20 * time.Second)
			p.turn += 15 // and many turns later
			for tool := range served {
				p.call(tool, item(i), "x")
			}
			p.s.End()
		}
		if last["get"] < 0.5 || last["quote"] > 0.1 {
			t.Errorf("maximum age %v, called 20 s later: got P %.2f with a freshness of a minute, %.2f with one of 5 s", maxAge, last["get"], last["quote"])
		}
	}
}

// The merged state of several processes gives about the same P as one process that saw all their
// calls.
func TestMergeOfProcessesThatBeganAtOnce(t *testing.T) {
	learn := func(from, to int) *predict.Model {
		m := model()
		for i := from; i < to; i++ {
			p := begin(t, m)
			p.call("list", fmt.Sprintf(`{"n":%d}`, 10+i), `{"items":[`+item(i)+`]}`)
			p.s.Candidates(p.now)
			if i%2 == 0 {
				p.call("get", item(i), "x")
			}
			p.s.End()
		}
		return m
	}
	expects := func(m *predict.Model) float64 {
		p := begin(t, m)
		p.call("list", `{"n":5}`, `{"items":[`+item(7777)+`]}`)
		return p.find("get", item(7777)).P
	}
	alone := expects(learn(0, 160))
	var state predict.State
	for i := range 16 {
		state, _ = learn(10*i, 10*i+10).Merge(state)
	}
	merged := model()
	merged.Merge(state)
	if got := expects(merged); got > alone+0.1 || got < alone-0.1 {
		t.Errorf("a call that comes every second time: got P %.2f from 16 processes, %.2f from one", got, alone)
	}
}

// Merges lose nothing and count nothing twice: not what is learned between Snapshot and Adopt, not
// when the state could not be written, and not what another process has stored.
func TestMergeBesideLearning(t *testing.T) {
	alone := model()
	learn(t, alone, 0, 60)
	for _, written := range []bool{true, false} {
		m, other := model(), model()
		learn(t, m, 0, 10)
		learn(t, other, 1000, 10)
		state, _ := other.Merge(predict.State{})
		for i := range 5 {
			s := m.Snapshot()
			learn(t, m, 10+10*i, 5)
			next, err := s.Merge(state)
			if err != nil {
				t.Fatal(err)
			}
			learn(t, m, 15+10*i, 5)
			if written {
				state = next
				s.MarkWritten()
			}
			m.Adopt(s)
		}
		state, _ = m.Merge(state)
		again, _ := m.Merge(state)
		next := model()
		next.Merge(again)
		for name, m := range map[string]*predict.Model{"in the process": m, "in the next one": next} {
			if got := m.Weight("list", "get"); got < 68 || got > 70 {
				t.Errorf("written %v, %s: got a weight of %.2f for 70 calls", written, name, got)
			}
			if got, want := nextP(t, m), nextP(t, alone); got < want-0.05 || got > want+0.05 {
				t.Errorf("written %v, %s: got P %.3f, want about %.3f", written, name, got, want)
			}
		}
	}
}

// Two processes that merge into one state in any order lose nothing and count nothing twice, also
// if a process reads a state that it wrote itself.
func TestMergeInTurns(t *testing.T) {
	models := []*predict.Model{model(), model()}
	var state predict.State
	for i, at := range []int{0, 0, 1, 0, 0, 0, 1, 1, 0, 1} {
		learn(t, models[at], 10*i, 10)
		state, _ = models[at].Merge(state)
	}
	next := model()
	next.Merge(state)
	if got := next.Weight("list", "get"); got < 97 || got > 100 {
		t.Errorf("got a weight of %.2f for 100 calls", got)
	}
	alone := model()
	learn(t, alone, 0, 100)
	if got, want := nextP(t, next), nextP(t, alone); got < want-0.05 || got > want+0.05 {
		t.Errorf("got P %.3f, want about %.3f", got, want)
	}
}

// If the stored state was deleted, a merge does not restore it from memory; if a byte of it was
// changed, the merge returns an error.
func TestMergeWithAStateThatIsNotOurs(t *testing.T) {
	m := model()
	learn(t, m, 0, 10)
	m.Merge(predict.State{})
	m.Merge(predict.State{})
	if got := m.Weight("list", "get"); got > 0 {
		t.Errorf("got a weight of %.2f of what was forgotten", got)
	}
	state, _ := m.Merge(predict.State{})
	learn(t, m, 10, 10)
	state, _ = m.Merge(state)
	state.Server = bytes.Replace(state.Server, []byte("list"), []byte("lost"), 1)
	if _, err := m.Merge(state); err == nil {
		t.Error("a damaged part: got no error")
	}
}

// A value of one session is not saved, and is not lost in the session itself when the rest is
// merged, whether or not another process changes the stored state.
func TestMergeKeepsWhatOneSessionKnows(t *testing.T) {
	for _, beside := range []bool{false, true} {
		m, other := model(), model()
		p := begin(t, m)
		file := func(i int) string { return fmt.Sprintf("src/file-%d.go", i) }
		read := func(i int) string { return fmt.Sprintf(`{"path":"/home/ann/work/%s"}`, file(i)) }
		var state predict.State
		for i := range 6 {
			p.call("list", fmt.Sprintf(`{"n":%d}`, 10+i), file(i)+"\n")
			p.s.Candidates(p.now)
			p.call("read", read(i), "x")
			state, _ = m.Merge(state)
			if beside {
				learn(t, other, 10*i, 1)
				state, _ = other.Merge(state)
			}
		}
		p.call("list", `{"n":5}`, file(77)+"\n")
		if got := p.find("read", read(77)).P; got < 0.1 {
			t.Errorf("beside another process %v: got P %.3f of a call that the session made six times", beside, got)
		}
	}
}

// A candidate's label counts even if a merge happens before it is known.
func TestLabelAfterMerge(t *testing.T) {
	m := model()
	learn(t, m, 0, 10)
	p := begin(t, m)
	p.call("list", `{"n":5}`, `{"items":[{"id":"id-77"}]}`)
	p.find("get", `{"id":"id-77"}`)
	right := func(state predict.State) (n float64) {
		for _, f := range followUps(t, state) {
			if f.Trigger == "list" && f.Tool == "get" {
				n += float64(f.Ranks[0].Right)
			}
		}
		return n
	}
	before, _ := m.Merge(predict.State{})
	p.call("get", `{"id":"id-77"}`, "x")
	after, _ := m.Merge(before)
	if got := right(after) - right(before); got < 0.9 {
		t.Errorf("got %.2f more hits, want one", got)
	}
}

// If nothing is stored, a merge keeps all that was learned, even if it made more changes than a
// model keeps.
func TestFirstMergeKeepsWeights(t *testing.T) {
	learn := func() *predict.Model {
		m := model()
		for i := range 600 {
			p := begin(t, m)
			if i < 40 {
				p.call("list", fmt.Sprintf(`{"n":%d}`, 10+i), items(i))
				p.s.Candidates(p.now)
				p.call("get", item(i), "x")
			} else {
				for j := range 10 {
					p.call("find", fmt.Sprintf(`{"q":"%d"}`, j), items(100*i+j))
					p.s.Candidates(p.now)
				}
			}
			p.s.End()
		}
		return m
	}
	merged := model()
	state, err := learn().Merge(predict.State{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := merged.Merge(state); err != nil {
		t.Fatal(err)
	}
	if got, want := nextP(t, merged), nextP(t, learn()); math.Abs(got-want) > 1e-3 {
		t.Errorf("after a merge: got P %.3f, want %.3f as before", got, want)
	}
}

// overflowed returns a model that has recorded more trials of a tool than changes are kept. It needs all of
// them to prove that the tool only reads.
func overflowed() (predict.Options, *predict.Model) {
	o := predict.Options{Learn: true, ShadowLabels: 20_000, Tool: func(name string) predict.Tool {
		return predict.Tool{Model: &valuemodel.Model{Upstream: "hub", Tool: name}, Annotated: true}
	}}
	m := predict.New(o)
	for range o.ShadowLabels {
		m.RecordTrial("get", true)
	}
	return o, m
}

// Nothing is lost if the state cannot be written for so long that the oldest changes are dropped: the
// next merge saves all that was learned.
func TestFailedWritesLoseNothing(t *testing.T) {
	o, m := overflowed()
	s := m.Snapshot()
	if _, err := s.Merge(predict.State{}); err != nil {
		t.Fatal(err)
	}
	m.Adopt(s) // it was not written
	stored := state(t, m)
	loaded := predict.New(o)
	if _, err := loaded.Merge(stored); err != nil {
		t.Fatal(err)
	}
	if !m.ProvenReadOnly()("get") || !loaded.ProvenReadOnly()("get") {
		t.Errorf("of %d trials too few are left: here %v, stored %v", o.ShadowLabels, m.ProvenReadOnly()("get"), loaded.ProvenReadOnly()("get"))
	}
}

// If another replica was faster, a snapshot is merged again, and its last merge counts.
func TestMergedAgain(t *testing.T) {
	_, m := overflowed()
	s := m.Snapshot()
	for _, stored := range []predict.State{state(t, annotated()), {}} { // it was there, and expired
		if _, err := s.Merge(stored); err != nil {
			t.Fatal(err)
		}
	}
	s.MarkWritten()
	m.Adopt(s)
	if !m.ProvenReadOnly()("get") {
		t.Error("the trials of the last merge are lost")
	}
}

// A merge keeps the private templates, which are not stored, as far as there is room.
func TestMergesKeepTheBounds(t *testing.T) {
	const perTrigger = 48
	learn := func(m *predict.Model, tool, dir string) {
		for i := range perTrigger {
			p := begin(t, m)
			p.call("find", fmt.Sprintf(`{"q":"q%d"}`, i), fmt.Sprintf("file%d.go", i))
			p.call(fmt.Sprint(tool, i), fmt.Sprintf(`{"path":"%sfile%d.go"}`, dir, i), "x")
			p.s.End()
		}
	}
	others, m := model(), model()
	learn(others, "edit", "")
	learn(m, "read", "/src/")
	for _, stored := range []predict.State{{}, state(t, others)} {
		if _, err := m.Merge(stored); err != nil {
			t.Fatal(err)
		}
		if got, _ := m.Learned(); got != perTrigger {
			t.Errorf("got %d templates with one trigger, want %d", got, perTrigger)
		}
	}
}
