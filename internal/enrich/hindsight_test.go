package enrich_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"mcpschedd/internal/enrich"
)

func TestHindsight(t *testing.T) {
	hit := func(ms float64, tokens int) enrich.Outcome {
		return enrich.Outcome{HiddenMS: ms, Tokens: tokens, Called: true, Issued: true}
	}
	missed := func(ms float64, tokens int) enrich.Outcome {
		return enrich.Outcome{HiddenMS: ms, Tokens: tokens, Called: true}
	}
	waste := func(ms float64, tokens int) enrich.Outcome {
		return enrich.Outcome{HiddenMS: ms, Tokens: tokens, Issued: true}
	}
	barred := func(c enrich.Outcome) enrich.Outcome { c.Barred = true; return c }
	bounds := enrich.Bounds{Budget: 1000, Slots: 2}
	tests := []struct {
		name           string
		all            []enrich.Outcome
		bounds         enrich.Bounds
		best, achieved float64
	}{
		{"nothing", nil, bounds, 0, 0},
		{"the right ones", []enrich.Outcome{hit(300, 500), hit(200, 500), {HiddenMS: 900}}, bounds, 500, 500},
		{"a waste took the slot", []enrich.Outcome{waste(900, 10), hit(200, 10), missed(300, 10)}, bounds, 500, 200},
		{"a waste took the tokens", []enrich.Outcome{waste(900, 800), missed(300, 500)}, bounds, 300, 0},
		{"the lesser one", []enrich.Outcome{hit(200, 600), missed(300, 600)}, bounds, 300, 200},
		{"two for one", []enrich.Outcome{hit(500, 1000), missed(300, 500), missed(301, 500)}, bounds, 601, 500},
		{"one slot", []enrich.Outcome{hit(500, 1000), missed(300, 500), missed(301, 500)}, enrich.Bounds{Budget: 1000, Slots: 1}, 500, 500},
		{"what is barred is missed by no choice", []enrich.Outcome{barred(missed(900, 10)), hit(10, 10)}, bounds, 10, 10},
		{"what is barred and was issued has hidden something", []enrich.Outcome{barred(hit(900, 10)), missed(10, 10)}, bounds, 10, 900},
		{"no slots", []enrich.Outcome{missed(900, 0), missed(9, 0)}, enrich.Bounds{Budget: 1000}, 0, 0},
		{"no budget", []enrich.Outcome{missed(900, 1), missed(9, 0)}, enrich.Bounds{Slots: 3}, 9, 0},
		{"what hides nothing takes no slot", []enrich.Outcome{hit(0, 900), hit(-5, 900), hit(math.NaN(), 900), hit(7, 900)}, enrich.Bounds{Budget: 1000, Slots: 1}, 7, 7},
		{"numbers out of range", []enrich.Outcome{hit(math.Inf(1), -1), missed(1, math.MaxInt), missed(1, math.MaxInt)}, enrich.Bounds{Budget: math.MaxInt, Slots: 3}, 1e99, 1e99},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			best, achieved := enrich.Hindsight(tt.all, tt.bounds)
			if best != tt.best || achieved != tt.achieved {
				t.Errorf("got best %v and achieved %v, want %v and %v", best, achieved, tt.best, tt.achieved)
			}
		})
	}
}

// Against every set there is. What hides the same is drawn often, for ties are
// where a search goes wrong, and amounts are whole, so that sums are exact.
func TestHindsightIsTheBestOfAllSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) enrich.Outcome {
			return enrich.Outcome{
				HiddenMS: float64(rapid.IntRange(-2, 40).Draw(t, "hides")),
				Tokens:   rapid.IntRange(-1, 30).Draw(t, "tokens"),
				Called:   rapid.IntRange(0, 3).Draw(t, "called") > 0,
				Issued:   rapid.Bool().Draw(t, "issued"),
				Barred:   rapid.IntRange(0, 5).Draw(t, "barred") == 0,
			}
		}), 0, 11).Draw(t, "all")
		b := enrich.Bounds{Budget: rapid.IntRange(0, 90).Draw(t, "budget"), Slots: rapid.IntRange(0, 5).Draw(t, "slots")}

		want, feasible := 0.0, false
		for set := range 1 << len(all) {
			if ms, ok := hides(all, set, b); ok {
				want = max(want, ms)
				feasible = feasible || set == issued(all)
			}
		}
		best, achieved := enrich.Hindsight(all, b)
		if best != want {
			t.Errorf("best %v, want %v", best, want)
		}
		if feasible && achieved > best {
			t.Errorf("achieved %v, which is more than the best %v", achieved, best)
		}
		if got, _ := hides(all, issued(all), enrich.Bounds{Budget: math.MaxInt, Slots: math.MaxInt}); achieved != got {
			t.Errorf("achieved %v, want %v", achieved, got)
		}
	})
}

// issued is the set of what was begun.
func issued(all []enrich.Outcome) (set int) {
	for i, c := range all {
		if c.Issued {
			set |= 1 << i
		}
	}
	return set
}

// hides is what a set of candidates has hidden, and whether it keeps the bounds:
// a waste takes room too.
func hides(all []enrich.Outcome, set int, b enrich.Bounds) (ms float64, ok bool) {
	tokens, slots := 0, 0
	ok = true
	for i, c := range all {
		if set>>i&1 == 0 {
			continue
		}
		tokens += max(c.Tokens, 0)
		slots++
		ok = ok && !c.Barred
		if c.Called {
			ms += max(c.HiddenMS, 0)
		}
	}
	return ms, ok && tokens <= b.Budget && slots <= b.Slots
}

// What a choice usually comes to: eight candidates, of which two were called.
func BenchmarkHindsight(b *testing.B) {
	all := make([]enrich.Outcome, 8)
	for i := range all {
		all[i] = enrich.Outcome{HiddenMS: 400, Tokens: 900, Called: i < 2, Issued: i%3 == 0}
	}
	b.ReportAllocs()
	for b.Loop() {
		enrich.Hindsight(all, enrich.Bounds{Budget: 8000, Slots: 3})
	}
}
