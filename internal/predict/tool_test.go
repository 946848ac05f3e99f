package predict_test

import (
	"fmt"
	"testing"
	"time"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// annotated returns a model of tools that only their annotations declare read-only.
func annotated() *predict.Model {
	return predict.New(predict.Options{Learn: true, Tool: func(name string) predict.Tool {
		return predict.Tool{Model: &valuemodel.Model{Upstream: "hub", Tool: name}, Annotated: true}
	}})
}

func TestTrials(t *testing.T) {
	m := annotated()
	for range 3 {
		m.RecordTrial("get", true)
	}
	if m.ProvenReadOnly()("get") || m.Barred("get") != "" {
		t.Errorf("after three trials: got proven %v, barred %q", m.ProvenReadOnly()("get"), m.Barred("get"))
	}
	for range 2 {
		m.RecordTrial("get", true)
	}
	if !m.ProvenReadOnly()("get") {
		t.Error("after five trials: not proven")
	}
	if stored, err := m.Merge(predict.State{}); err != nil || !stored.Proven("get", 5) || stored.Proven("get", 6) || stored.Proven("list", 5) {
		t.Errorf("stored after five trials: %v; proven with 5 labels %v, 6 labels %v", err, stored.Proven("get", 5), stored.Proven("get", 6))
	}
	m.RecordTrial("get", false)
	m.Bar("get", "asked a question") // which holds whatever the operator declares
	m.RecordTrial("get", false)
	m.Bar("put", "asked a question")
	m.Bar("put", "started a task")
	m.Bar("set", "barred")
	for tool, want := range map[string]string{"get": "asked a question", "put": "asked a question", "set": "barred", "other": ""} {
		if got := m.Barred(tool); got != want {
			t.Errorf("%s: got barred %q, want %q", tool, got, want)
		}
	}
}

// A stored state says which tools it bars.
func TestStoredBars(t *testing.T) {
	m := annotated()
	m.RecordTrial("get", false)
	m.Bar("put", "asked a question")
	stored, err := m.Merge(predict.State{})
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]string{"get": predict.AnswersDiffer, "put": "asked a question", "other": ""} {
		if got := stored.Barred(tool); got != want {
			t.Errorf("%s: got barred %q, want %q", tool, got, want)
		}
	}
	if got := (predict.State{Server: []byte("damaged")}).Barred("put"); got != "" {
		t.Errorf("damaged: got barred %q, want that it bars none", got)
	}
}

// The trials of a server's tools count for each other, until one gives two answers.
func TestTrialsTestTheServersWord(t *testing.T) {
	m := annotated()
	tried := func(want string) {
		t.Helper()
		got, proven := "", m.ProvenReadOnly()
		for _, tool := range []string{"get", "list", "never"} {
			if proven(tool) {
				got += " " + tool
			}
		}
		if got != want {
			t.Errorf("got proven%s, want%s", got, want)
		}
	}
	for range 4 {
		m.RecordTrial("get", true)
	}
	tried("")
	m.RecordTrial("list", true)
	tried(" get list")
	m.RecordTrial("other", false)
	tried("")
	m.Bar("other", "asked a question")
	tried("")
	stored := state(t, m)
	m = annotated()
	m.Merge(stored)
	tried("")
	m.RecordTrial("get", true)
	tried(" get")
}

// Read-only methods do not add the tool to the state.
func TestAskingIsNotLearning(t *testing.T) {
	run := func(ask bool) predict.State {
		m := model()
		learn(t, m, 0, 3)
		p := begin(t, m)
		if ask {
			m.Typical("a")
			m.ProvenReadOnly()("a")
			m.Barred("a")
			p.s.Candidates(p.now)
		}
		return state(t, m)
	}
	if !predict.Same(run(false), run(true)) {
		t.Error("the states differ")
	}
}

// After a merge of eight processes the trials of all count, and so do the bars of each and of the
// stored state.
func TestTrialsAreMerged(t *testing.T) {
	start := annotated()
	start.RecordTrial("get", true)
	start.Bar("old", "once")
	stored := state(t, start)
	var all []*predict.Model
	for range 8 {
		m := annotated()
		m.Merge(stored)
		all = append(all, m)
	}
	for i, m := range all {
		m.RecordTrial("get", true)
		m.RecordTrial("get", true)
		learn(t, m, 100*i, 3)
	}
	all[3].RecordTrial("other", false)
	for _, m := range all {
		stored, _ = m.Merge(stored)
		stored, _ = m.Merge(stored) // merging twice counts nothing twice
	}
	m := annotated()
	m.Merge(stored)
	if !m.ProvenReadOnly()("get") {
		t.Error("17 trials in eight processes: not proven")
	}
	if m.Barred("other") != predict.AnswersDiffer || m.Barred("old") != "once" || m.Barred("get") != "" {
		t.Errorf("got bars %q, %q, %q", m.Barred("other"), m.Barred("old"), m.Barred("get"))
	}
}

// Bars are never evicted: if there is no room for another one, all unknown tools are barred.
func TestBarsAreNotForgotten(t *testing.T) {
	m := model()
	for i := range 5000 {
		m.Bar(fmt.Sprintf("tool%d", i), "because")
	}
	for _, tool := range []string{"tool0", "tool4999", "never seen"} {
		if m.Barred(tool) == "" {
			t.Errorf("%s is not barred", tool)
		}
	}
}

// The pause after a result is learned from the next call, whichever tool it is of. If the server
// was not called for the result, the pause begins at Delivered.
func TestPause(t *testing.T) {
	o := resolve(t, hub, []valuemodel.Rule{reading("hub/get"), reading("hub/list", follow(t, "get", 0.9, "n", "$result.n"))}, "list", "", "get", "")
	m := predict.New(predict.Options{Tool: o.tool, Learn: true})
	at := func(ms int) time.Time { return time.UnixMilli(int64(1e12) + int64(ms)) }
	pause := func() time.Duration {
		s := m.Begin(9, false)
		s.Call(predict.Call{ID: 1, Turn: 1, Tool: "list", At: at(0)})
		s.Result(predict.Result{ID: 1, Text: []byte(`{"n":1}`), At: at(100)})
		return s.Candidates(at(100))[0].Pause.P50
	}
	if got := pause(); got != 0 {
		t.Errorf("got %v before anything was seen", got)
	}
	s := m.Begin(1, false)
	for i := range 10 {
		now := 10_000 * i
		s.Call(predict.Call{ID: uint64(2 * i), Turn: 2*i + 1, Tool: "list", At: at(now)})
		s.Result(predict.Result{ID: uint64(2 * i), Delivered: at(now + 7_000)}) // joined a flight
		s.Call(predict.Call{ID: uint64(2*i + 1), Turn: 2*i + 2, Tool: "get", Arguments: `{"n":1}`, At: at(now + 8_000)})
		s.Result(predict.Result{ID: uint64(2*i + 1), At: at(now + 9_000)})
	}
	for _, when := range []string{"now", "kept"} {
		if got := pause(); got < 800*time.Millisecond || got > 1200*time.Millisecond {
			t.Errorf("%s: got %v, want about a second", when, got)
		}
		kept, err := m.Merge(predict.State{})
		if err != nil {
			t.Fatal(err)
		}
		m = predict.New(predict.Options{Tool: o.tool, Learn: true})
		if _, err := m.Merge(kept); err != nil {
			t.Fatal(err)
		}
	}
}
