package forecast_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/forecast"
	"mcpschedd/internal/valuemodel"
)

// offered are guesses at a tool, less likely one after the other.
func offered(t *testing.T, n int) []forecast.Guess {
	t.Helper()
	models, problems := valuemodel.Compile([]valuemodel.Rule{{Pattern: "up/get", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly}}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	m := models.Resolve(valuemodel.Upstream{Name: "up"}, "get", valuemodel.Hints{}, valuemodel.Layer{})
	var out []forecast.Guess
	for i := range n {
		out = append(out, forecast.Guess{Tool: "get", Arguments: fmt.Sprintf(`{"n":%d}`, i), P: 0.9 - float64(i)/100, Model: m, Bytes: 400})
	}
	return out
}

func asked(g *forecast.Guess) forecast.World {
	return forecast.World{Key: call.Key{Upstream: 1, Scope: "s", Tool: g.Tool, Arguments: g.Arguments}}
}

func TestOfferGoesOn(t *testing.T) {
	guesses := offered(t, 5)
	guesses[4].P = 0.1
	o := forecast.NewOffer(guesses, 1000)
	opt := enrich.Options{Slots: 2, MinProbability: 0.3, Think: time.Second}
	var started []string
	for round, want := range []struct{ start, open, declined int }{{2, 2, 1}, {2, 0, 0}, {0, 0, 0}} {
		p := o.Choose(asked, opt)
		if len(p.Start) != want.start || o.Open() != want.open || len(p.Declined) != want.declined {
			t.Errorf("round %d: got %d started, %d open, declined %v, want %+v", round, len(p.Start), o.Open(), p.Declined, want)
		}
		for _, g := range p.Start {
			started = append(started, g.Arguments)
		}
	}
	if slices.Sort(started); len(slices.Compact(started)) != 4 {
		t.Errorf("got %v, want four calls, each once", started)
	}
}

// One answer's budget is not granted anew because its guesses take turns.
func TestOfferBudget(t *testing.T) {
	o := forecast.NewOffer(offered(t, 5), 350) // each takes 150: 100 for its answer
	n := 0
	for range 5 {
		n += len(o.Choose(asked, enrich.Options{Slots: 1, MinProbability: 0.3}).Start)
	}
	if n != 2 {
		t.Errorf("got %d started, want the two that the budget allows", n)
	}
}

func TestOfferWatches(t *testing.T) {
	guesses := offered(t, 3)
	guesses[0].Reason, guesses[1].Reason = enrich.Shadow, enrich.Schema
	o := forecast.NewOffer(guesses, 1000)
	p := o.Choose(asked, enrich.Options{Slots: 3, MinProbability: 0.3})
	if len(p.Watch) != 1 || p.Watch[0].Arguments != guesses[0].Arguments || len(p.Start) != 1 || o.Open() != 0 {
		t.Errorf("got %+v and %d open, want the first watched and the last started", p, o.Open())
	}
	if want := []enrich.Reason{enrich.Shadow, enrich.Schema}; !slices.Equal(p.Declined, want) {
		t.Errorf("got %v, want %v", p.Declined, want)
	}
}

func TestLikely(t *testing.T) {
	guesses := offered(t, 2)
	guesses[1].P = 0.14
	keep := forecast.Likely(guesses, 0.3)
	for arguments, want := range map[string]bool{guesses[0].Arguments: true, guesses[1].Arguments: false, `{"n":9}`: false} {
		if got := keep("get", arguments); got != want {
			t.Errorf("%s: got %v, want %v", arguments, got, want)
		}
	}
}
