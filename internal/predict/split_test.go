package predict_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// The server's part of a state, used in another directory, has the templates and latencies, but
// none of the values of the first directory's sessions.
func TestSplit(t *testing.T) {
	models, problems := valuemodel.Compile([]valuemodel.Rule{{Pattern: "up/*", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly}}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	model := func() *predict.Model {
		return predict.New(predict.Options{Learn: true, ShadowLabels: 1, MaxAge: time.Hour, Tool: func(name string) predict.Tool {
			return predict.Tool{Model: models.Resolve(valuemodel.Upstream{Name: "up"}, name, valuemodel.Hints{})}
		}})
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	// use plays a session that lists the items of a project and gets the first one. It returns the
	// candidates after the list.
	use := func(m *predict.Model, id uint64, project string, n int) (found []predict.Candidate) {
		s := m.Begin(id, false)
		for turn, c := range []struct{ tool, arguments, answer string }{
			{"list", fmt.Sprintf(`{"project":%q}`, project), fmt.Sprintf(`{"items":[{"number":%d}]}`, n)},
			{"get", fmt.Sprintf(`{"number":%d,"project":%q}`, n, project), `{"done":true}`},
		} {
			s.Call(predict.Call{ID: uint64(turn + 1), Turn: turn + 1, Tool: c.tool, Arguments: c.arguments, At: now})
			now = now.Add(time.Second)
			s.Result(predict.Result{ID: uint64(turn + 1), Text: []byte(c.answer), Size: len(c.answer), At: now})
			if turn == 0 {
				found = s.Candidates(now)
			}
			now = now.Add(time.Second)
		}
		s.End()
		return found
	}
	first := model()
	for i := range 20 {
		use(first, uint64(i+1), "ocean", 100+7*i)
	}
	state, err := first.Merge(predict.State{})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(state.Server, []byte("ocean")) || !bytes.Contains(state.Values, []byte("ocean")) {
		t.Errorf("a value is in the wrong part:\n%q\n%q", state.Server, state.Values)
	}
	likely := func(state predict.State) (p float64, takes time.Duration) {
		m := model()
		if _, err := m.Merge(state); err != nil {
			t.Fatal(err)
		}
		for _, c := range use(m, 99, "desert", 901) {
			if c.Key.Tool == "get" && c.Key.Arguments == `{"number":901,"project":"desert"}` {
				p = c.P
			}
		}
		return p, m.Typical("list").Latency.P50
	}
	p, takes := likely(predict.State{Server: state.Server})
	if p < 0.3 || takes == 0 {
		t.Errorf("in another folder: got P %.2f, %v a call; want both known", p, takes)
	}
	if whole, _ := likely(state); whole < 0.3 {
		t.Errorf("both parts: got P %.2f", whole)
	}
	if cold, _ := likely(predict.State{}); cold > 0.1 {
		t.Errorf("without a state: got P %.2f, so the test proves nothing", cold)
	}
}

// A template that takes a directory from an argument holds no value, so it is of use in another
// directory.
func TestADirectoryFromAnArgumentIsNoValue(t *testing.T) {
	first := model()
	for i := range 20 {
		p := begin(t, first)
		p.call("find", fmt.Sprintf(`{"in":"/a%d"}`, i), fmt.Sprintf("file%d.go", i))
		p.s.Candidates(p.now)
		p.call("read", fmt.Sprintf(`{"path":"/a%d/file%d.go"}`, i, i), "x")
		p.s.End()
	}
	m := model()
	if _, err := m.Merge(predict.State{Server: state(t, first).Server}); err != nil {
		t.Fatal(err)
	}
	p := begin(t, m)
	p.call("find", `{"in":"/b"}`, "other.go")
	if got := p.find("read", `{"path":"/b/other.go"}`).P; got < 0.3 {
		t.Errorf("got P %.2f", got)
	}
}
