package budget_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/budget"
)

// agent wants tokens at a steady rate during a part of the window.
type agent struct {
	client string
	wants  float64 // in pools per window
	from   float64 // start, as a part of the window
	until  float64 // end, likewise; 0 for the end of the window
}

const (
	poolTokens = 100_000_000
	steps      = 1_000
)

// play runs agents for one window, and returns which part of the pool each used.
func play(t *testing.T, r budget.Rules, agents []agent) (parts []float64) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) { parts = playWindow(t, r, agents) })
	return parts
}

func playWindow(t *testing.T, r budget.Rules, agents []agent) []float64 {
	t.Helper()
	r.Pool, r.Window = poolTokens, time.Hour
	p := budget.NewPool(r)
	joined, given := make([]*budget.Agent, len(agents)), make([]int, len(agents))
	for i, a := range agents {
		joined[i] = p.Join(budget.Session{Client: a.client})
	}
	for step := range steps {
		over := float64(step) / steps
		for _, i := range rand.Perm(len(agents)) {
			a := agents[i]
			if over < a.from || a.until > 0 && over > a.until {
				continue
			}
			wants := int(a.wants * poolTokens / (1 - a.from) / steps)
			if got := min(wants, joined[i].Room(1).Left); got > 0 {
				joined[i].Delivered(1, got)
				given[i] += got
			}
		}
		time.Sleep(time.Hour/steps - 1)
	}
	var parts []float64
	sum := 0
	for _, g := range given {
		parts = append(parts, float64(g)/poolTokens)
		sum += g
	}
	if sum > poolTokens {
		t.Errorf("%d tokens were used of %d", sum, poolTokens)
	}
	return parts
}

func TestFair(t *testing.T) {
	const greedy = 10
	weights := budget.Rules{Weights: map[string]float64{"main": 2}}
	for _, tt := range []struct {
		name   string
		agents []agent
		want   []float64
	}{
		{"all want all", []agent{{wants: greedy}, {wants: greedy}, {wants: greedy}, {wants: greedy}}, []float64{.25, .25, .25, .25}},
		{"by weight", []agent{{client: "main", wants: greedy}, {wants: greedy}, {wants: greedy}}, []float64{.5, .25, .25}},
		{"what one leaves is lent", []agent{{wants: .1}, {wants: greedy}, {wants: greedy}}, []float64{.1, .45, .45}},
		{"lent by weight", []agent{{wants: .1}, {client: "main", wants: greedy}, {wants: greedy}}, []float64{.1, .6, .3}},
		{"one that has enough", []agent{{wants: greedy, until: .5}, {wants: greedy}, {}}, []float64{5. / 12, 7. / 12, 0}},
		{"all want little", []agent{{wants: .2}, {wants: .3}}, []float64{.2, .3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := play(t, weights, tt.agents)
			for i, want := range tt.want {
				if math.Abs(got[i]-want) > .02*want+.001 {
					t.Errorf("agent %d: got %.3f of the pool, want %.3f (all: %.3f)", i, got[i], want, got)
				}
			}
		})
	}
}

// TestRandom: the agents together never use more than the pool, and each gets its share of the
// rest of the window if it wants it.
func TestRandom(t *testing.T) {
	for range 50 {
		var agents []agent
		weights, all := make(map[string]float64), 0.0
		for i := range 2 + rand.IntN(6) {
			agents = append(agents, agent{client: fmt.Sprint(i), wants: 2 * rand.Float64(), from: rand.Float64()})
			weight := .01 + 3*rand.Float64()
			weights[agents[i].client] = weight
			all += weight
		}
		for i, got := range play(t, budget.Rules{Weights: weights}, agents) {
			a := agents[i]
			if floor := min(a.wants, (1-a.from)*weights[a.client]/all); got < .98*floor-.003 {
				t.Errorf("agent %d: got %.3f of the pool, want at least %.3f", i, got, floor)
			}
		}
		if t.Failed() {
			t.Fatalf("with %+v and weights %v", agents, weights)
		}
	}
}

func TestSession(t *testing.T) {
	p := budget.NewPool(budget.Rules{Context: 10_000, PerTurn: 4000, Reserve: .2})
	a := p.Join(budget.Session{})
	step := func(turn, tokens int, want budget.Room) {
		t.Helper()
		a.Delivered(turn, tokens)
		if got := a.Room(turn); got != want {
			t.Errorf("after %d tokens of turn %d: got %+v, want %+v", tokens, turn, got, want)
		}
	}
	step(1, 3000, budget.Room{Left: 1000, Extras: 200, Excerpts: 1000, Optional: true}) // bound by PerTurn
	step(2, 1000, budget.Room{Left: 3000, Extras: 2200, Excerpts: 3000, Optional: true})
	step(3, 3000, budget.Room{Left: 1000, Extras: 200, Excerpts: 1000, Optional: true})
	step(4, 1500, budget.Room{Left: 1500, Extras: 0, Excerpts: 1500, Optional: true}) // bound by Context
	step(5, 1100, budget.Room{Left: 400, Extras: 0, Excerpts: 500, Optional: false})
	step(6, 9000, budget.Room{Left: 0, Extras: 0, Excerpts: 500, Optional: false}) // requested answers are delivered beyond the bound
	if several := p.Join(budget.Session{Multiplexed: true}); several.Room(1) != budget.Unlimited {
		t.Error("a multiplexed session is bounded")
	}
	free := budget.NewPool(budget.Rules{}).Join(budget.Session{})
	free.Delivered(1, 1<<40)
	if free.Room(1) != budget.Unlimited {
		t.Error("without rules the room is bounded")
	}
}

// TestFloorUnderDemand: an agent keeps its share of the rest of the window, whatever is delivered
// to others on request.
func TestFloorUnderDemand(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := budget.NewPool(budget.Rules{Pool: 900, Window: time.Hour})
		greedy, other, modest := p.Join(budget.Session{}), p.Join(budget.Session{}), p.Join(budget.Session{})
		greedy.Delivered(1, 5000)
		time.Sleep(30 * time.Minute)
		if got := modest.Room(1).Left; got < 150 {
			t.Errorf("in the second half: got %d left, want the share of 150", got)
		}
		if got := greedy.Room(1).Left; got != 0 {
			t.Errorf("of the agent that used all: got %d left, want 0", got)
		}
		other.Leave()
		if got := modest.Room(1).Left; got < 225 {
			t.Errorf("with one other agent: got %d left, want the share of 225", got)
		}
	})
}

// TestJoinLate: a late agent takes nothing from others' reservations, and reserves at most what is
// free.
func TestJoinLate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := budget.NewPool(budget.Rules{Pool: 900, Window: time.Hour})
		idle, busy := p.Join(budget.Session{}), p.Join(budget.Session{})
		time.Sleep(30 * time.Minute)
		for range 10 { // until its share and what is lent are used up
			busy.Delivered(1, busy.Room(1).Left)
		}
		if got := busy.Used(); got != 675 {
			t.Errorf("got %d used, want 675: its share, and half of the other one", got)
		}
		late := p.Join(budget.Session{})
		if got, other := idle.Room(1).Left, late.Room(1).Left; got != 150 || other != 75 {
			t.Errorf("got %d and %d left, want 150 and the free 75", got, other)
		}
		late.Leave()
		if got, other := idle.Room(1).Left, busy.Room(1).Left; got != 225 || other != 0 {
			t.Errorf("after the late agent has left: got %d and %d left, want 225 and 0", got, other)
		}
	})
}

// TestJoinBeginsWindow: an agent that is the first to do anything in a new window reserves its share of the rest.
func TestJoinBeginsWindow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := budget.NewPool(budget.Rules{Pool: 900, Window: time.Hour})
		busy := p.Join(budget.Session{})
		time.Sleep(70 * time.Minute)
		late := p.Join(budget.Session{})
		for range 10 { // until its share and what is lent are used up
			busy.Delivered(1, busy.Room(1).Left)
		}
		if got := late.Room(1).Left; got != 375 {
			t.Errorf("got %d left, want the share of 375", got)
		}
	})
}

func TestConfigure(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := budget.NewPool(budget.Rules{Pool: 900, Window: time.Hour})
		a, b := p.Join(budget.Session{Client: "main"}), p.Join(budget.Session{})
		p.Configure(budget.Rules{Pool: 900, Window: time.Hour, Weights: map[string]float64{"main": 2}})
		if got, other := a.Room(1).Left, b.Room(1).Left; got != 600 || other != 300 {
			t.Errorf("got shares of %d and %d, want 600 and 300", got, other)
		}
		p.Configure(budget.Rules{Pool: 9000, Window: time.Hour})
		a.Delivered(1, 4500)
		if got, other := a.Room(1).Left, b.Room(1).Left; got != 0 || other != 4500 {
			t.Errorf("after one has used its share of a larger pool: got %d and %d left, want 0 and 4500", got, other)
		}
	})
}

func TestWindow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := budget.NewPool(budget.Rules{Pool: 100, Window: time.Minute})
		a := p.Join(budget.Session{})
		a.Delivered(1, 100)
		if got := a.Room(1).Left; got != 0 {
			t.Errorf("got %d left in a pool that is used up, want 0", got)
		}
		b := p.Join(budget.Session{})
		b.Leave()
		a.Leave()
		if got := p.Join(budget.Session{}).Room(1).Left; got != 0 {
			t.Errorf("a new agent after the pool was used up: got %d left, want 0", got)
		}
		time.Sleep(61 * time.Second)
		b = p.Join(budget.Session{})
		if got := b.Room(1).Left; got != 50 {
			t.Errorf("in the next window, with one other agent: got %d left, want the share of 50", got)
		}
		b.Delivered(1, 20)
		time.Sleep(90 * time.Second)
		if used, left := p.Used(); used != 0 || left != 29*time.Second {
			t.Errorf("in a later window: got %d used and %v to go, want 0 and 29s", used, left)
		}
	})
}

// TestConcurrent: agents join, use tokens and leave concurrently, while the rules change.
func TestConcurrent(t *testing.T) {
	p := budget.NewPool(budget.Rules{Pool: 1000, Window: time.Nanosecond})
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			for turn := range 200 {
				a := p.Join(budget.Session{Client: fmt.Sprint(i)})
				a.Delivered(turn, 10)
				if room := a.Room(turn); room.Left < 0 || room.Left > 1000 {
					t.Errorf("got %+v of a pool of 1000", room)
				}
				p.Configure(budget.Rules{Context: 1000, Pool: 1000, Window: time.Duration(1 + turn%3), Weights: map[string]float64{"1": float64(1 + turn%2)}})
				p.Used()
				a.Leave()
			}
		})
	}
	running.Wait()
}
