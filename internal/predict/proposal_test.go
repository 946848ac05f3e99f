package predict_test

import (
	"fmt"
	"math"
	"testing"

	"mcpschedd/internal/predict"
)

func id(n int) string { return fmt.Sprintf(`{"id":%d}`, n) }

// proposed are n calls of get, in the order of a list.
func proposed(from, n int, prior float64) []predict.Proposal {
	var p []predict.Proposal
	for i := range n {
		p = append(p, predict.Proposal{Tool: "get", Arguments: id(from + i), Edge: "list get id", Rank: i, Of: n, Prior: prior})
	}
	return p
}

// list calls list, whose result names nothing that a template could find, and
// proposes n calls of get after it.
func list(p *historyPlayer, from, n int, prior float64) {
	p.call("list", fmt.Sprintf(`{"n":%d}`, from), "some items")
	p.s.Propose(p.id, proposed(from, n, prior))
}

func TestProposalBeginsAtItsPrior(t *testing.T) {
	p := begin(t, predict.NewLearner(predict.LearnerOptions{}))
	p.call("list", `{}`, "items")
	p.s.Propose(p.id, []predict.Proposal{
		{Tool: "get", Arguments: id(1), Edge: "e", Rank: 0, Of: 2, Prior: 0.4},
		{Tool: "get", Arguments: id(2), Edge: "e", Rank: 1, Of: 2, Prior: 0.4, Free: true},
		{Tool: "get", Arguments: id(3), Edge: "f"},
	})
	for n, want := range map[int]predict.Match{
		1: {P: 0.4, Edge: "e", Trigger: "list", Follows: 1},
		2: {P: 0.4, Edge: "e", Trigger: "list", Follows: 1, Rank: 1, Free: true},
		3: {P: 0.05, Edge: "f", Trigger: "list", Follows: 1},
	} {
		got := p.find("get", id(n))
		if math.Abs(got.P-want.P) > 1e-9 || got.Edge != want.Edge || got.Trigger != want.Trigger || got.Follows != want.Follows || got.Rank != want.Rank || got.Free != want.Free || got.Shadow {
			t.Errorf("get %d: got %+v, want %+v", n, got, want)
		}
	}
}

// What is observed takes over from what was configured, each rank by itself.
func TestProposalLearnsItsRank(t *testing.T) {
	m := predict.NewLearner(predict.LearnerOptions{})
	for i := range 60 {
		p := begin(t, m)
		list(p, 100*i, 3, 0.5)
		p.find("get", id(100*i))
		p.call("get", id(100*i+1), "x") // always the second
		p.s.End()
	}
	p := begin(t, m)
	list(p, 99_000, 5, 0.5)
	for rank, want := range [][2]float64{{0, 0.1}, {0.85, 1}, {0, 0.1}, {0.2, 0.5}, {0.2, 0.5}} { // 3 and 4 were never seen: as the follow-up as a whole
		if got := p.find("get", id(99_000+rank)).P; got < want[0] || got > want[1] {
			t.Errorf("rank %d: got P %.2f, want it in %v", rank, got, want)
		}
	}
}

// A pseudo-count of 4: after 4 labels of a follow-up they count as much as the
// prior.
func TestProposalPrior(t *testing.T) {
	m := predict.NewLearner(predict.LearnerOptions{})
	for i := range 4 {
		p := begin(t, m)
		list(p, 100*i, 1, 0.8)
		p.find("get", id(100*i))
		p.s.End() // not asked for
	}
	p := begin(t, m)
	list(p, 9000, 1, 0.8)
	if got, want := p.find("get", id(9000)).P, 0.2; math.Abs(got-want) > 0.01 { // half of it in the follow-up, half of that in its rank
		t.Errorf("got P %.3f, want about %.3f", got, want)
	}
}

// What was not asked for in the turn after mostly never is: that it is still open
// must not look like news every turn, and must not pull down new ones.
func TestProposalFades(t *testing.T) {
	m := predict.NewLearner(predict.LearnerOptions{})
	for i := range 100 {
		p := begin(t, m)
		list(p, 100*i, 1, 0.5)
		p.find("get", id(100*i))
		if i%2 == 0 {
			p.call("get", id(100*i), "x")
		}
		for range 5 {
			p.call("other", "{}", "x")
			p.find("get", id(100*i))
		}
		p.s.End()
	}
	p := begin(t, m)
	list(p, 99_000, 1, 0.5)
	if got := p.find("get", id(99_000)).P; got < 0.4 || got > 0.6 {
		t.Errorf("just proposed: got P %.2f, want about 0.5", got)
	}
	p.call("other", "{}", "x")
	if got := p.find("get", id(99_000)).P; got > 0.15 {
		t.Errorf("a turn later: got P %.2f, want it low", got)
	}
}

func TestProposalEnds(t *testing.T) {
	tests := []struct {
		name string
		then func(p *historyPlayer)
		ends bool
	}{
		{"nothing", func(*historyPlayer) {}, false},
		{"everything is invalid", func(p *historyPlayer) { p.s.Invalidate(nil) }, true},
		{"the answer it was read off is invalid", func(p *historyPlayer) {
			p.s.Invalidate(func(tool, arguments string) bool { return tool == "list" && arguments == `{"n":7}` })
		}, true},
		{"another answer is invalid", func(p *historyPlayer) { p.s.Invalidate(func(tool, _ string) bool { return tool == "other" }) }, false},
		{"it was made", func(p *historyPlayer) { p.call("get", id(7), "x") }, true},
		{"many turns pass", func(p *historyPlayer) {
			for i := range 12 {
				p.call("other", id(i), "x")
			}
		}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := begin(t, predict.NewLearner(predict.LearnerOptions{}))
			list(p, 7, 1, 0.5)
			test.then(p)
			if ends := p.find("get", id(7)).P == 0; ends != test.ends {
				t.Errorf("is a candidate no more: %v, want %v", ends, test.ends)
			}
		})
	}
}

// Templates and proposals that find the same call become one candidate. The more
// was learned the less counts what was configured, be it too high or too low.
func TestProposalBesideTemplate(t *testing.T) {
	m := predict.NewLearner(predict.LearnerOptions{Target: reads})
	var p *historyPlayer
	session := func(i int, prior float64, asks bool) float64 {
		p = begin(t, m)
		p.call("list", fmt.Sprintf(`{"n":%d}`, i), fmt.Sprintf(`{"items":[{"id":"id-%d"}]}`, i))
		arguments := fmt.Sprintf(`{"id":"id-%d"}`, i)
		p.s.Propose(p.id, []predict.Proposal{{Tool: "get", Arguments: arguments, Edge: "e", Prior: prior}})
		n := 0
		for _, c := range p.s.Candidates(p.now) {
			if c.Arguments == arguments {
				n++
				if c.Shadow || c.Edge != "e" {
					t.Fatalf("got %+v, want it to be of the proposal", c)
				}
			}
		}
		if n != 1 {
			t.Fatalf("got %d candidates of the same call", n)
		}
		got := p.find("get", arguments).P
		if asks {
			p.call("get", arguments, "x")
		}
		p.s.End()
		return got
	}
	last := 0.0
	for i := range 40 {
		last = session(i, 0.05, true)
	}
	if last < 0.8 {
		t.Errorf("always asked for, configured as 0.05: got P %.2f", last)
	}
	for i := range 80 {
		last = session(100+i, 0.9, false)
	}
	if last > 0.2 {
		t.Errorf("never asked for any more, configured as 0.9: got P %.2f", last)
	}
}

func TestStatic(t *testing.T) {
	m := predict.NewLearner(predict.LearnerOptions{Target: reads, Static: true})
	for i := range 30 {
		p := begin(t, m)
		p.call("list", fmt.Sprintf(`{"n":%d}`, i), fmt.Sprintf(`{"items":[{"id":"id-%d"}]}`, i))
		p.s.Propose(p.id, proposed(10*i, 2, 0.3))
		got := p.s.Candidates(p.now)
		if len(got) != 2 || got[0].P != 0.3 || got[1].P != 0.3 {
			t.Fatalf("session %d: got %+v, want the two proposals as configured", i, got)
		}
		p.call("get", id(10*i), "x")
		p.call("get", fmt.Sprintf(`{"id":"id-%d"}`, i), "x")
		p.s.End()
	}
	if s := m.Stats(); s.Templates != 0 || s.Weights != 0 {
		t.Errorf("got %+v, want nothing learned", s)
	}
	if m.Latency("list", 0.5) == 0 || m.Size("list", 0.5) == 0 || m.Lead("get", 0.5) == 0 {
		t.Error("latencies, sizes and leads were not learned")
	}
	if m.Labels("get") != 60 {
		t.Errorf("got %d labels, want 60", m.Labels("get"))
	}
}

// However many are proposed, there are bounds.
func TestProposalsAreBounded(t *testing.T) {
	p := begin(t, predict.NewLearner(predict.LearnerOptions{Target: reads}))
	for i := range 20 {
		list(p, 1000*i, 200, 0.5)
		p.s.Propose(999_999, proposed(0, 5, 0.5)) // of an unknown call
	}
	if got := len(p.s.Candidates(p.now)); got > 256 {
		t.Errorf("got %d candidates", got)
	}
}
