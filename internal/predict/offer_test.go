package predict_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// offered are guesses at a tool, less likely one after the other.
func offered(t *testing.T, n int) []predict.Candidate {
	t.Helper()
	models, problems := valuemodel.Compile([]valuemodel.Rule{{Pattern: "up/get", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly}}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	m := models.Resolve(valuemodel.Upstream{Name: "up"}, "get", valuemodel.Hints{})
	var out []predict.Candidate
	for i := range n {
		out = append(out, predict.Candidate{Key: call.Key{Tool: "get", Arguments: fmt.Sprintf(`{"n":%d}`, i)}, P: 0.9 - float64(i)/100, Model: m, Bytes: 400})
	}
	return out
}

func asked(g *predict.Candidate) predict.World {
	return predict.World{Key: call.Key{Upstream: 1, Scope: "s", Tool: g.Key.Tool, Arguments: g.Key.Arguments}}
}

func TestOfferGoesOn(t *testing.T) {
	guesses := offered(t, 5)
	guesses[4].P = 0.1
	o := predict.NewOffer(guesses, 1000)
	opt := enrich.Options{Slots: 2, MinProbability: 0.3, Think: time.Second}
	var started []string
	for round, want := range []struct{ start, open, declined int }{{2, 2, 1}, {2, 0, 0}, {0, 0, 0}} {
		p := o.Choose(asked, opt)
		if len(p.Start) != want.start || o.Open() != want.open || len(p.Declined) != want.declined {
			t.Errorf("round %d: got %d started, %d open, declined %v, want %+v", round, len(p.Start), o.Open(), p.Declined, want)
		}
		for _, g := range p.Start {
			started = append(started, g.Key.Arguments)
		}
	}
	if slices.Sort(started); len(slices.Compact(started)) != 4 {
		t.Errorf("got %v, want four calls, each once", started)
	}
}

// One answer's budget is not granted anew because its guesses take turns.
func TestOfferBudget(t *testing.T) {
	o := predict.NewOffer(offered(t, 5), 350) // each takes 150: 100 for its answer
	n := 0
	for range 5 {
		n += len(o.Choose(asked, enrich.Options{Slots: 1, MinProbability: 0.3}).Start)
	}
	if n != 2 {
		t.Errorf("got %d started, want the two that the budget allows", n)
	}
}

func reasons(all []predict.Declined) (why []enrich.Reason) {
	for _, d := range all {
		why = append(why, d.Why)
	}
	return why
}

func TestOfferWatches(t *testing.T) {
	guesses := offered(t, 3)
	guesses[0].Reason, guesses[1].Reason = enrich.Shadow, enrich.Schema
	o := predict.NewOffer(guesses, 1000)
	p := o.Choose(asked, enrich.Options{Slots: 3, MinProbability: 0.3})
	if len(p.Watch) != 1 || p.Watch[0].Key.Arguments != guesses[0].Key.Arguments || len(p.Start) != 1 || o.Open() != 0 {
		t.Errorf("got %+v and %d open, want the first watched and the last started", p, o.Open())
	}
	if want := []enrich.Reason{enrich.Shadow, enrich.Schema}; !slices.Equal(reasons(p.Declined), want) {
		t.Errorf("got %v, want %v", p.Declined, want)
	}
}

func TestLikely(t *testing.T) {
	guesses := offered(t, 2)
	guesses[1].P = 0.14
	keep := predict.Likely(guesses, 0.3)
	for arguments, want := range map[string]bool{guesses[0].Key.Arguments: true, guesses[1].Key.Arguments: false, `{"n":9}`: false} {
		if got := keep("get", arguments); got != want {
			t.Errorf("%s: got %v, want %v", arguments, got, want)
		}
	}
}

// What waits in an offer is held against the rules again when its turn comes. It
// once kept what was said of it at first, and was made whatever had happened since.
func TestOfferAsksAgain(t *testing.T) {
	const takes, other = `{"properties":{"n":{"type":"integer"}}}`, `{"properties":{"n":{"type":"boolean"}}}`
	rules := func(get valuemodel.Layer) []valuemodel.Rule {
		return []valuemodel.Rule{reading("list", follow(t, "get", 0.9, "n", "$result[*]")), {Pattern: "get", Layer: get}}
	}
	reads := valuemodel.Layer{Class: valuemodel.ReadOnly}
	for _, test := range []struct {
		name   string
		change func(*predict.Model, offer)
		want   enrich.Reason
	}{
		{"nothing happens", func(*predict.Model, offer) {}, ""},
		{"its rules are read anew", func(_ *predict.Model, o offer) { o["get"] = resolve(t, hub, rules(reads), "get", takes)["get"] }, ""},
		{"its tool is barred", func(f *predict.Model, _ offer) { f.Bar("get", "it asked something") }, enrich.NotSpeculatable},
		{"its tool gave two answers, and the operator says that it reads", func(f *predict.Model, _ offer) { f.Trial("get", false) }, ""},
		{"its tool is gone", func(_ *predict.Model, o offer) { delete(o, "get") }, enrich.NotSpeculatable},
		{"its tool writes now", func(_ *predict.Model, o offer) {
			o["get"] = resolve(t, hub, rules(valuemodel.Layer{Class: valuemodel.MutatesExternal}), "get", takes)["get"]
		}, enrich.NotSpeculatable},
		{"its tool takes something else", func(_ *predict.Model, o offer) { o["get"] = resolve(t, hub, rules(reads), "get", other)["get"] }, enrich.Schema},
		{"its tool tells third parties", func(_ *predict.Model, o offer) {
			o["get"] = resolve(t, hub, rules(valuemodel.Layer{Class: valuemodel.ReadOnly, Disclosure: valuemodel.ThirdParty}), "get", takes)["get"]
		}, enrich.Disclosure},
		{"its tool is known by hearsay", func(_ *predict.Model, o offer) { get := o["get"]; get.Hearsay = true; o["get"] = get }, enrich.Shadow},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := resolve(t, hub, rules(reads), "list", "", "get", takes)
			p := play(predict.New(predict.Options{Tool: o.tool}))
			p.call("list", `{}`, `[1,2]`)
			offer := p.s.Offer(p.guesses(), 8000)
			one := budget
			one.Slots = 1
			if first := offer.Choose(anything, one); len(first.Start) != 1 || offer.Open() != 1 {
				t.Fatalf("got %+v and %d open, want one begun and one waiting", first, offer.Open())
			}
			test.change(p.f, o)
			then := offer.Choose(anything, one)
			if test.want == "" {
				if len(then.Start) != 1 || then.Start[0].Model != o["get"].Model {
					t.Errorf("got %+v, want it begun under the model that holds now", then)
				}
				return
			}
			if len(then.Start) != 0 || !slices.Equal(reasons(then.Declined), []enrich.Reason{test.want}) || offer.Open() != 0 {
				t.Errorf("got %+v and %d open, want it declined: %s", then, offer.Open(), test.want)
			}
		})
	}
}

// Guesses that are equally likely are begun in the order of their list: its third
// once went first.
func TestOfferKeepsTheOrderOfTheList(t *testing.T) {
	guesses := offered(t, 8)
	for i := range guesses {
		guesses[i].P, guesses[i].Why.Rank = 0.4, i
	}
	o := predict.NewOffer(guesses, 8000)
	next := 0
	for _, slots := range []int{1, 3, 2, 2} {
		for _, g := range o.Choose(asked, enrich.Options{Slots: slots, MinProbability: 0.3, Think: time.Second}).Start {
			if g.Why.Rank != next {
				t.Errorf("got the rank %d, want %d", g.Why.Rank, next)
			}
			next++
		}
	}
	if next != len(guesses) {
		t.Errorf("got %d begun, want all %d", next, len(guesses))
	}
}
