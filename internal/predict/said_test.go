package predict_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// Bindings of $text read the lines of a text, and the paths at the beginning of lines.
func TestSaid(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"nothing", "", `{"lines":[],"paths":[]}`},
		{"lines", " a b \r\n\n c", `{"lines":["a b","c"],"paths":[]}`},
		{"a list of files", "Found 2 files\n/r/a.go\nb/c", `{"lines":["Found 2 files","/r/a.go","b/c"],"paths":["/r/a.go","b/c"]}`},
		{"matches, each file once", "/r/a.go:12:x\n/r/a.go:14:y\nb.go:1: z", `{"lines":["/r/a.go:12:x","/r/a.go:14:y","b.go:1: z"],"paths":["/r/a.go","b.go"]}`},
		{"a path that is too long", strings.Repeat("d/", 200) + "a.go\nb.go", `{"lines":["` + strings.Repeat("d/", 200) + `a.go","b.go"],"paths":["b.go"]}`},
		{"no paths", "https://x.y/z\n12:foo\nYes.\n.\nif a/b > c:", `{"lines":["https://x.y/z","12:foo","Yes.",".","if a/b > c:"],"paths":[]}`},
	}
	for _, tt := range tests {
		if got := string(predict.Said([]byte(tt.text))); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// A list with a maximum length makes no calls if it is longer, or if it may be longer because the
// result was cut off.
func TestListsHeldToALength(t *testing.T) {
	lines := func(n int) (out string) {
		for i := range n {
			out += fmt.Sprintf("/r/%d.go\n", i)
		}
		return out
	}
	tests := []struct {
		name, binding, text string
		want                int
	}{
		{"as long as allowed", "$text.paths[*<=3]", lines(3), 3},
		{"longer", "$text.paths[*<=3]", lines(4), 0},
		{"any length", "$text.paths[*]", lines(4), 4},
		{"cut off", "$text.paths[*<=8]", lines(1) + strings.Repeat("x", 300<<10), 0},
		{"of an answer that is JSON", "$result.a[*<=2]", `{"a":[1,2]}`, 2},
		{"of a longer one", "$result.a[*<=2]", `{"a":[1,2,3]}`, 0},
		{"of one that was cut off", "$result.a[*<=2]", `{"a":[1,2`, 0},
		{"of lists, each by itself", "$result[*][*<=2]", `[[1,2],[3,4,5],[6]]`, 3},
	}
	for _, tt := range tests {
		f := follow(t, "get", 0.5, "x", tt.binding)
		f.Max = 8
		p := begin(t, learner(learning{Follows: map[string][]valuemodel.FollowUp{"list": {f}}}))
		p.call("list", "{}", tt.text)
		if got := p.s.Candidates(p.now); len(got) != tt.want {
			t.Errorf("%s: got calls %v, want %d", tt.name, got, tt.want)
		}
	}
}

// A value read from a text comes from a result, so it is not disclosed to third parties.
func TestTextIsNotDisclosed(t *testing.T) {
	rules := []valuemodel.Rule{reading("u/list", follow(t, "fetch", 0.9, "url", "$text.lines[*]"))}
	rules = append(rules, valuemodel.Rule{Pattern: "u/fetch", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly, Disclosure: valuemodel.ThirdParty}})
	o := resolve(t, valuemodel.Upstream{Name: "u"}, rules, "list", "", "fetch", "")
	f := predict.New(predict.Options{Tool: o.tool})
	s := f.Begin(1, false)
	s.Call(predict.Call{ID: 1, Turn: 1, Tool: "list", Arguments: "{}"})
	s.Result(predict.Result{ID: 1, Text: []byte("https://x.y/secret")})
	candidates := s.Candidates(time.Unix(1e9, 0))
	for _, g := range candidates {
		if g.Key.Tool == "fetch" && g.Reason == "" {
			t.Errorf("got a candidate %s %s without a reason, want none", g.Key.Tool, g.Key.Arguments)
		}
	}
	if len(candidates) == 0 {
		t.Error("no candidate was declined: the test proves nothing")
	}
}

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
