package predict_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/predict"
)

// followUps returns the follow-ups of a stored state.
func followUps(t testing.TB, stored predict.State) []predict.LearnedFollowUp {
	t.Helper()
	m := model()
	if _, err := m.Merge(stored); err != nil {
		t.Fatal(err)
	}
	return m.LearnedFollowUps()
}

// A learned template is reported in the syntax of the configuration.
func TestFollows(t *testing.T) {
	m := model()
	learn(t, m, 0, 20)
	follows := followUps(t, state(t, m))
	want := map[string]any{"id": "$result.items[*].id"}
	found := false
	for _, f := range follows {
		if f.Trigger != "list" || f.Tool != "get" || cmp.Diff(want, f.Args) != "" {
			continue
		}
		found = true
		if len(f.Ranks) == 0 || f.Ranks[0].Of < 5 || f.Ranks[0].Right < 0.8*f.Ranks[0].Of {
			t.Errorf("got ranks %v, want the first nearly always right", f.Ranks)
		}
	}
	if !found {
		t.Errorf("got %v, want get of each of the list", follows)
	}
}

// LearnedFollowUps omits templates that the configuration cannot express, and arguments without a
// source, such as a sum.
func TestFollowsLeavesOut(t *testing.T) {
	m := model()
	for i := range 20 {
		p := begin(t, m)
		p.call("read", fmt.Sprintf(`{"offset":%d,"limit":20,"path":"/home/u/%d.txt"}`, 100*i+100, i), "text")
		p.call("read", fmt.Sprintf(`{"offset":%d,"limit":20,"path":"/home/u/%d.txt"}`, 100*i+120, i), "text")
		p.s.End()
	}
	for _, f := range followUps(t, state(t, m)) {
		if _, ok := f.Args["offset"].(string); ok {
			t.Errorf("got %v: the offset is a sum, and has no source", f)
		}
	}
}

// The name of a member may contain what separates the steps of a path. It is no follow-up in the
// configuration, where the path would lead elsewhere.
func TestFollowsLeavesOutOddNames(t *testing.T) {
	for _, name := range []string{"a.b", "a[0]", "a[*]"} {
		m := learner(learning{Target: reads})
		for i := range 20 {
			p := begin(t, m)
			p.call("list", fmt.Sprintf(`{"n":%d}`, 100+i), fmt.Sprintf(`{%q:"id-%d"}`, name, i))
			p.s.Candidates(p.now)
			p.call("get", fmt.Sprintf(`{"id":"id-%d"}`, i), "x")
			p.s.End()
		}
		for _, f := range m.LearnedFollowUps() {
			if f.Trigger == "list" && f.Tool == "get" {
				t.Errorf("%s: got %v", name, f)
			}
		}
		p := begin(t, m)
		p.call("list", `{"n":7}`, fmt.Sprintf(`{%q:"id-777"}`, name))
		if p.find("get", item(777)).P < 0.5 {
			t.Errorf("%s: the call that follows is not predicted", name)
		}
	}
}

// A result that two calls of one turn have is one observation of a template.
func TestOneLabelCountsOnce(t *testing.T) {
	const sessions = 20
	m := learner(learning{Target: reads})
	for i := range sessions {
		p := begin(t, m)
		p.turn++
		same := items(i)
		p.together([3]string{"list", fmt.Sprintf(`{"n":%d}`, 100+i), same}, [3]string{"list", fmt.Sprintf(`{"n":%d}`, 200+i), same})
		p.s.Candidates(p.now)
		p.call("get", item(i), "x")
		p.s.End()
	}
	for _, f := range m.LearnedFollowUps() {
		if f.Tool == "get" && f.Ranks[0].Of > sessions {
			t.Errorf("got %v of %v in %d sessions with one call each", f.Args, f.Ranks[0], sessions)
		}
	}
}
