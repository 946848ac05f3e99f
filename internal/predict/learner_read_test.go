package predict_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/predict"
)

// A learned template is reported in the syntax of the configuration.
func TestFollows(t *testing.T) {
	m := model()
	learn(t, m, 0, 20)
	state, err := m.Merge(predict.State{})
	if err != nil {
		t.Fatal(err)
	}
	follows, err := predict.LearnedFollowUps(state)
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := predict.LearnedFollowUps(predict.State{Server: []byte("junk\n")}); err == nil {
		t.Error("junk: got no error")
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
	state, _ := m.Merge(predict.State{})
	follows, err := predict.LearnedFollowUps(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range follows {
		if _, ok := f.Args["offset"].(string); ok {
			t.Errorf("got %v: the offset is a sum, and has no source", f)
		}
	}
}
