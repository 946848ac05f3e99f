package predict_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

func id(n int) string { return fmt.Sprintf(`{"id":%d}`, n) }

// configured returns a model with a configured follow-up of list: get for each of its ids.
func configured(t testing.TB, probability float64) *predict.Model {
	f := follow(t, "get", probability, "id", "$result.ids[*]")
	f.Max = 5
	return learner(learning{Target: reads, Follows: map[string][]valuemodel.FollowUp{"list": {f}}})
}

// list calls list. The result has n ids.
func list(p *historyPlayer, from, n int) {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprint(from+i))
	}
	p.call("list", fmt.Sprintf(`{"n":%d}`, from), `{"ids":[`+strings.Join(ids, ",")+`]}`)
}

func TestFollowUpBeginsAtItsProbability(t *testing.T) {
	p := begin(t, configured(t, 0.4))
	list(p, 1, 2)
	for n := range 2 {
		if c := p.find("get", id(1+n)); math.Abs(c.P-0.4) > 1e-9 || !c.Why.Configured || c.Why.Rank != n {
			t.Errorf("get %d: got %+v, want a probability of 0.4 at rank %d", 1+n, c, n)
		}
	}
}

// With more labels the observed probability of each rank replaces the configured one.
func TestFollowUpLearnsItsRank(t *testing.T) {
	m := configured(t, 0.5)
	for i := range 60 {
		p := begin(t, m)
		list(p, 100*i, 3)
		p.find("get", id(100*i))
		p.call("get", id(100*i+1), "x") // always the second
		p.s.End()
	}
	p := begin(t, m)
	list(p, 99_000, 3)
	for rank, want := range [][2]float64{{0, 0.15}, {0.8, 1}, {0, 0.15}} {
		if got := p.find("get", id(99_000+rank)).P; got < want[0] || got > want[1] {
			t.Errorf("rank %d: got P %.2f, want it in %v", rank, got, want)
		}
	}
}

// A call that has not come in the turn after its trigger rarely comes later. The labels of later
// turns must lower P of such an old candidate, but not P of a new one.
func TestFollowUpFades(t *testing.T) {
	m := configured(t, 0.5)
	for i := range 100 {
		p := begin(t, m)
		list(p, 100*i, 1)
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
	list(p, 99_000, 1)
	if got := p.find("get", id(99_000)).P; got < 0.3 || got > 0.7 {
		t.Errorf("just answered: got P %.2f, want about 0.5", got)
	}
	p.call("other", "{}", "x")
	if got := p.find("get", id(99_000)).P; got > 0.15 {
		t.Errorf("a turn later: got P %.2f, want it low", got)
	}
}

func TestFollowUpEnds(t *testing.T) {
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
			p := begin(t, configured(t, 0.5))
			list(p, 7, 1)
			test.then(p)
			if ends := p.find("get", id(7)).P == 0; ends != test.ends {
				t.Errorf("candidate removed: got %v, want %v", ends, test.ends)
			}
		})
	}
}

// A learned and a configured template of the same call make one candidate. The more labels there
// are, the less the configured probability counts, whether it was too low or too high.
func TestFollowUpBesideWhatIsLearned(t *testing.T) {
	for _, test := range []struct {
		probability float64
		asks        bool
		low, high   float64
	}{{0.05, true, 0.8, 1}, {0.9, false, 0, 0.2}} {
		f := follow(t, "get", test.probability, "id", "$result.items[*].id")
		m := learner(learning{Target: reads, Follows: map[string][]valuemodel.FollowUp{"list": {f}}})
		last := 0.0
		for i := range 60 {
			p := begin(t, m)
			p.call("list", fmt.Sprintf(`{"n":%d}`, i), `{"items":[`+item(i)+`]}`)
			n := 0
			for _, c := range p.s.Candidates(p.now) {
				if c.Key.Arguments == item(i) {
					last = c.P
					n++
				}
			}
			if n != 1 {
				t.Fatalf("got %d candidates of the same call", n)
			}
			if test.asks || i < 3 { // so that a template is learned
				p.call("get", item(i), "x")
			}
			p.s.End()
		}
		if last < test.low || last > test.high {
			t.Errorf("configured as %v, asked for: %v: got P %.2f", test.probability, test.asks, last)
		}
	}
}

// Without learning, follow-ups keep their configured probability, but latencies and sizes are
// still learned.
func TestStatic(t *testing.T) {
	f := follow(t, "get", 0.3, "id", "$result.ids[*]")
	m := learner(learning{Target: reads, Static: true, Follows: map[string][]valuemodel.FollowUp{"list": {f}}})
	for i := range 30 {
		p := begin(t, m)
		list(p, 10*i, 2)
		got := p.s.Candidates(p.now)
		if len(got) != 2 || got[0].P != 0.3 || got[1].P != 0.3 || got[0].Reason != "" {
			t.Fatalf("session %d: got %+v, want both as configured", i, got)
		}
		p.call("get", id(10*i), "x")
		p.s.End()
	}
	if templates, weights := m.Learned(); templates+weights != 0 {
		t.Errorf("got %d templates and %d weights, want nothing learned", templates, weights)
	}
	if u := m.Typical("list"); u.Latency.P50 == 0 || u.Bytes == 0 {
		t.Errorf("got %+v, want latency and size of list", u)
	}
}

// What was learned before is not used either, such as a call whose arguments are constants.
func TestStaticForgoesWhatIsKnown(t *testing.T) {
	m := model()
	learn(t, m, 0, 20)
	for _, learns := range []bool{true, false, true} {
		m.Configure(learns, 0, 0)
		p := begin(t, m)
		p.call("list", `{"n":5}`, `{"items":[{"id":"id-77"}]}`)
		p.call("get", `{"id":"id-77"}`, "x")
		if got := p.find("read", `{"path":"/home/u/README.md"}`).P > 0; got != learns {
			t.Errorf("learn = %v: predicted: %v", learns, got)
		}
	}
}
