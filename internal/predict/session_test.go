package predict_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// chain returns tools with the configured follow-ups list → get → owner.
func chain(t testing.TB) offer {
	return resolve(t, hub, []valuemodel.Rule{
		reading("list", follow(t, "get", 0.5, "n", "$result[*].n")),
		reading("get", follow(t, "owner", 0.8, "name", "$result.owner"), follow(t, "log", 0.9, "n", "$args.n")),
		reading("owner", follow(t, "team", 1, "key", "$result.team")),
		reading("team"),
	}, "list", "", "get", "", "owner", "", "team", "", "log", "")
}

// Invalidate drops the configured follow-ups of stale results, and no others.
func TestInvalidate(t *testing.T) {
	o := resolve(t, hub, []valuemodel.Rule{
		reading("list", follow(t, "get", 0.5, "n", "$result.n")), reading("files", follow(t, "read", 0.5, "path", "$result.path")), reading("get"), reading("read"),
	}, "list", "", "get", "", "files", "", "read", "")
	p := play(predict.New(predict.Options{Tool: o.tool}))
	p.call("list", `{}`, `{"n":7}`)
	p.call("files", `{}`, `{"path":"a"}`)
	p.s.Invalidate(func(tool, _ string) bool { return tool == "list" })
	candidates := p.candidates()
	if got := made(candidates, "get"); got != nil {
		t.Errorf("from the stale list: got %v, want nothing", got)
	}
	if got := made(candidates, "read"); len(got) != 1 {
		t.Errorf("from the files: got %v, want one", got)
	}
	p.s.Invalidate(nil)
	if got := p.candidates(); len(got) != 0 {
		t.Errorf("after everything is stale: got %+v, want nothing", got)
	}
}

// In a multiplexed session only the newest result has candidates.
func TestLone(t *testing.T) {
	o := resolve(t, hub, []valuemodel.Rule{reading("list", follow(t, "get", 0.5, "n", "$result.n")), reading("files", follow(t, "read", 0.5, "path", "$result.path")), reading("get"), reading("read")},
		"list", "", "get", "", "files", "", "read", "")
	f := predict.New(predict.Options{Tool: o.tool, Learn: true})
	p := play(f)
	p.s = f.Begin(1, true)
	p.call("list", `{}`, `{"n":7}`)
	if got := made(p.candidates(), "get"); len(got) != 1 {
		t.Errorf("from the newest answer: got %v, want one", got)
	}
	p.call("files", `{}`, `{"path":"a"}`)
	candidates := p.candidates()
	if got := made(candidates, "get"); got != nil {
		t.Errorf("from an earlier answer: got %v, want nothing", got)
	}
	if got := made(candidates, "read"); len(got) != 1 {
		t.Errorf("from the newest answer: got %v, want one", got)
	}
}

// Only follow-ups without values of the result follow a result that was not read.
func TestUnread(t *testing.T) {
	o := resolve(t, hub, []valuemodel.Rule{reading("list", follow(t, "get", 0.5, "n", "$result.n"), follow(t, "about", 0.5, "of", "$args.of")), reading("get"), reading("about")},
		"list", "", "get", "", "about", "")
	p := play(predict.New(predict.Options{Tool: o.tool, Learn: true}))
	p.ask("list", `{"of":"x"}`)
	p.answer(predict.Result{Size: 7})
	if got := chosen(p.candidates(), budget); len(got) != 1 || got[0] != `about {"of":"x"}` {
		t.Errorf("chosen: %v, want what follows from the arguments alone", got)
	}
}

// A result that is too long has no values, and one that is cut off those before that.
func TestLongAnswers(t *testing.T) {
	list := []byte("[" + strings.Repeat(`{"n":1,"text":"`+strings.Repeat("x", 100)+`"},`, 90_000) + `{"n":2}]`)
	for _, test := range []struct {
		name string
		r    predict.Result
		want []string
	}{
		{"text", predict.Result{Text: list}, nil},
		{"structured", predict.Result{Structured: list}, nil},
		{"cut", predict.Result{Text: list[:30_001]}, []string{`{"n":1}`}},
	} {
		p := play(predict.New(predict.Options{Tool: chain(t).tool, Learn: true}))
		p.ask("list", `{}`)
		p.answer(test.r)
		if got := made(p.candidates(), "get"); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

// Arguments are made canonical first. Arguments that servers may decode differently have no
// follow-ups.
func TestArgumentsAreMadeCanonical(t *testing.T) {
	o := resolve(t, hub, []valuemodel.Rule{reading("list", follow(t, "get", 0.5, "of", "$args.of")), reading("get")}, "list", "", "get", "")
	p := play(predict.New(predict.Options{Tool: o.tool}))
	p.call("list", ` { "x" : 1, "of" : "\u0061" } `, `{}`)
	if got := made(p.candidates(), "get"); len(got) != 1 || got[0] != `{"of":"a"}` {
		t.Errorf("got %v, want {\"of\":\"a\"}", got)
	}
	for _, arguments := range []string{`{"of":"a","OF":"b"}`, `{"of":"a"`, `not JSON`} {
		p := play(predict.New(predict.Options{Tool: o.tool}))
		p.call("list", arguments, `{}`)
		if got := p.candidates(); len(got) != 0 {
			t.Errorf("%s: got %+v, want nothing", arguments, got)
		}
	}
}

// A second result of a call, and a result without a call, are ignored.
func TestResultsOfNoCall(t *testing.T) {
	p := play(predict.New(predict.Options{Tool: chain(t).tool}))
	p.s.Result(predict.Result{ID: 9, Text: []byte(`[{"n":1}]`)})
	p.call("list", `{}`, `[{"n":1}]`)
	p.s.Result(predict.Result{ID: p.id, Text: []byte(`[{"n":2}]`)})
	if got := made(p.candidates(), "get"); len(got) != 1 || got[0] != `{"n":1}` {
		t.Errorf("got %v, want {\"n\":1} alone", got)
	}
}

// The number of calls without a result is bounded.
func TestCallsWithoutAnswers(t *testing.T) {
	p := play(predict.New(predict.Options{Tool: chain(t).tool}))
	for i := range 5000 {
		p.ask("list", fmt.Sprintf(`{"page":%d,"text":%q}`, i, strings.Repeat("x", 100)))
	}
	if n := predict.Remembered(p.s); n > 512 {
		t.Errorf("remembered: got %d calls, want a bounded number", n)
	}
	p.answer(predict.Result{Text: []byte(`[{"n":1}]`)})
	if got := made(p.candidates(), "get"); len(got) != 1 {
		t.Errorf("the newest call: got %v, want what follows from it", got)
	}
}

// Calls and results may arrive after the end of a session.
func TestAfterEnd(t *testing.T) {
	p := play(predict.New(predict.Options{Tool: chain(t).tool, Learn: true}))
	p.ask("list", `{}`)
	p.s.End()
	p.answer(predict.Result{Text: []byte(`[{"n":1}]`)})
	if got := p.candidates(); len(got) != 0 {
		t.Errorf("got %+v, want nothing", got)
	}
	p.call("list", `{}`, `[{"n":1}]`)
	p.s.End()
}

// What was learned is there after a restart.
func TestMerge(t *testing.T) {
	o := resolve(t, hub, []valuemodel.Rule{reading("list"), reading("get")}, "list", "", "get", "")
	p := play(predict.New(predict.Options{Tool: o.tool, Learn: true}))
	for i := range 12 {
		p.call("list", `{}`, fmt.Sprintf(`{"n":"item-%d"}`, i))
		p.candidates()
		p.call("get", fmt.Sprintf(`{"n":"item-%d"}`, i), strings.Repeat("x", 2000))
		p.candidates()
	}
	p.s.End()
	p.f.Bar("get_all", "it asked")
	state, err := p.f.Merge(predict.State{})
	if err != nil {
		t.Fatal(err)
	}
	q := play(predict.New(predict.Options{Tool: o.tool, Learn: true}))
	if _, err := q.f.Merge(state); err != nil {
		t.Fatal(err)
	}
	q.call("list", `{}`, `{"n":"item-99"}`)
	if g := find(q.candidates(), "get", `{"n":"item-99"}`); g.Key.Tool == "" || g.Reason != "" || g.Latency == (enrich.Percentiles{}) || g.Lead == (enrich.Percentiles{}) || g.Bytes == 0 {
		t.Errorf("got %+v, want a candidate with what was learned of its latency, lead and size", g)
	}
	if got := q.f.Barred("get_all"); got != "it asked" {
		t.Errorf("barred: got %q, want why", got)
	}
	if _, err := q.f.Merge(predict.State{Server: []byte("not a state")}); err == nil {
		t.Error("an invalid state: got no error")
	}
}

// A session counts its recent calls, however long it is, and forgets the oldest.
func TestLongSessionGoesOn(t *testing.T) {
	p := begin(t, model())
	for i := range 10_000 {
		p.s.Call(predict.Call{ID: uint64(i), Turn: i, Tool: "get", Arguments: item(i), At: p.now})
	}
	for i, want := range map[int]int{9999: 1, 7000: 1, 0: 0} {
		if got := p.s.Times("get", item(i)); got != want {
			t.Errorf("call %d of 10,000: made %d times, want %d", i, got, want)
		}
	}
}

// Nothing is learned from arguments and results that are nested too deep, and the session
// continues.
func TestNestedDeep(t *testing.T) {
	deep := strings.Repeat(`{"a":[`, 5000) + `"x"` + strings.Repeat(`]}`, 5000)
	m := model()
	learn(t, m, 0, 5)
	p := begin(t, m)
	p.call("list", deep, deep)
	p.s.Candidates(p.now)
	p.call("get", `{"deep":`+deep+`}`, `{"items":`+deep+`}`)
	p.s.Candidates(p.now)
	p.call("list", `{"n":5}`, `{"items":[{"id":"id-77777"}]}`)
	if got := p.find("get", item(77777)).P; got == 0 {
		t.Error("no candidate of what was learned before")
	}
	p.s.End()
	state, _ := m.Merge(predict.State{})
	if _, err := model().Merge(state); err != nil {
		t.Error(err)
	}
}

// Suppose returns the candidates after a candidate's result, with the product of both
// probabilities.
func TestSuppose(t *testing.T) {
	p := play(predict.New(predict.Options{Tool: chain(t).tool}))
	p.call("list", `{}`, `[{"n":1}]`)
	get := find(p.candidates(), "get", `{"n":1}`)
	next := checked(p.s, p.s.Suppose(get, predict.Result{Text: []byte(`{"owner":"ann"}`)}))
	owner := find(next, "owner", `{"name":"ann"}`)
	if owner.P != 0.4 || owner.Why.Depth != 1 || owner.Reason != "" {
		t.Errorf("got %+v, want P 0.4 and depth 1", owner)
	}
	if log := find(next, "log", `{"n":1}`); log.Reason != enrich.NotSpeculatable {
		t.Errorf("got %+v, want the reason not_speculatable", log)
	}
}

// Suppose changes neither what is learned nor later candidates.
func TestSupposeLeavesNoTrace(t *testing.T) {
	run := func(suppose bool) (learned predict.State, predicted string) {
		p := play(predict.New(predict.Options{Tool: chain(t).tool, Learn: true, ShadowLabels: 1}))
		for i := range 6 {
			p.call("list", `{}`, fmt.Sprintf(`[{"n":%d},{"n":%d}]`, i, i+100))
			for _, g := range p.candidates() {
				if suppose {
					p.s.Suppose(g, predict.Result{Text: fmt.Appendf(nil, `{"owner":"o%d"}`, i)})
				}
			}
			p.call("get", fmt.Sprintf(`{"n":%d}`, i), fmt.Sprintf(`{"owner":"o%d"}`, i))
			p.candidates()
		}
		for _, g := range p.candidates() {
			predicted += fmt.Sprintln(g.Key.Tool, g.Key.Arguments, g.P, g.Reason)
		}
		p.s.End()
		state, err := p.f.Merge(predict.State{})
		if err != nil {
			t.Fatal(err)
		}
		return state, predicted
	}
	with, predictedWith := run(true)
	without, predictedWithout := run(false)
	if !predict.Same(with, without) {
		t.Error("the learned states differ")
	}
	if diff := cmp.Diff(predictedWithout, predictedWith); diff != "" {
		t.Errorf("candidates without and with (-without +with):\n%s", diff)
	}
}

// The maximum of a follow-up counts for each supposed result alone.
func TestSupposeMaximum(t *testing.T) {
	one := follow(t, "owner", 0.9, "name", "$result.owner")
	one.Max = 1
	o := resolve(t, hub, []valuemodel.Rule{reading("list", follow(t, "get", 1, "n", "$result[*]")), reading("get", one), reading("owner")},
		"list", "", "get", "", "owner", "")
	p := play(predict.New(predict.Options{Tool: o.tool}))
	p.call("list", `{}`, `[1,2]`)
	var all []predict.Candidate
	for i, g := range p.candidates() {
		all = append(all, p.s.Suppose(g, predict.Result{Text: fmt.Appendf(nil, `{"owner":"o%d"}`, i)})...)
	}
	if got := chosen(all, budget); len(got) != 2 {
		t.Errorf("chosen: %v, want one owner for each of two candidates", got)
	}
}
