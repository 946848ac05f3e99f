package predict_test

import (
	"fmt"
	"testing"
	"time"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// If the maximum of one follow-up forbids a call that another follow-up allows, the call is a
// candidate with the probability of the other one.
func TestBeyondOneMaximumAnotherMayCall(t *testing.T) {
	one, two := follow(t, "get", 0.9, "x", "$result[*]"), follow(t, "get", 0.5, "x", "$result[1]")
	one.Max, two.Max = 1, 1
	rules := []valuemodel.Rule{reading("u/list", one, two), reading("u/get")}
	o := resolve(t, valuemodel.Upstream{Name: "u"}, rules, "list", "", "get", "")
	f := predict.New(predict.Options{Tool: o.tool})
	s := f.Begin(1, false)
	s.Call(predict.Call{ID: 1, Turn: 1, Tool: "list", Arguments: "{}"})
	s.Result(predict.Result{ID: 1, Text: []byte("[7,8,9]")})
	got := map[string]float64{}
	for _, g := range s.Candidates(time.Unix(1e9, 0)) {
		if g.Reason == "" {
			got[g.Key.Arguments] = g.P
		}
	}
	if len(got) != 2 || got[`{"x":7}`] != 0.9 || got[`{"x":8}`] != 0.5 {
		t.Errorf("got %v, want 7 at 0.9 and 8 at 0.5", got)
	}
}

// If templates are learned as well, the maximum of a configured follow-up does not forbid learned
// candidates beyond it.
func TestMaximumDoesNotForbidWhatIsLearned(t *testing.T) {
	one := follow(t, "get", 0.9, "x", "$result[*]")
	one.Max = 1
	o := resolve(t, hub, []valuemodel.Rule{reading("list", one), reading("get")}, "list", "", "get", "")
	f := predict.New(predict.Options{Tool: o.tool, Learn: true})
	answer := func(i int) string { return fmt.Sprintf("[%d,%d]", 1000+2*i, 1001+2*i) }
	for i := range 40 {
		p := play(f)
		p.call("list", fmt.Sprintf(`{"i":%d}`, i), answer(i))
		p.candidates()
		p.call("get", fmt.Sprintf(`{"x":%d}`, 1000+2*i), "x")
		p.candidates()
		p.call("get", fmt.Sprintf(`{"x":%d}`, 1001+2*i), "x")
		p.s.End()
	}
	p := play(f)
	p.call("list", `{"i":99}`, answer(99))
	g := find(p.candidates(), "get", `{"x":1199}`)
	if g.Key.Tool == "" || g.Reason != "" || g.P < 0.5 {
		t.Errorf("the second entry: got P %v and the reason %q, want it likely and allowed", g.P, g.Reason)
	}
}
