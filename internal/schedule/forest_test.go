package schedule_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"mcpschedd/internal/schedule"
)

// lists are calls of which each fourth is a list, worth little by itself, and the
// three behind it take their arguments from it.
func lists(r *rand.Rand, n int) []schedule.Item {
	items := independent(r, n)
	for i := range items {
		if i%4 > 0 {
			items[i].Needs = []int{i - i%4}
		} else {
			items[i].Value /= 10
		}
	}
	return items
}

// On a hundred calls of this kind the search reaches its cap for one instance in
// ten, and was up to 2 % below the best there.
func TestForestBeyondTheCap(t *testing.T) {
	r, beyond := rand.New(rand.NewPCG(1, 2)), 0
	for range soak(40, 1000) {
		items := lists(r, 100)
		c := schedule.Select(items, schedule.Limits{Budget: 10_000})
		best := table(items, 10_000)
		if !c.Exact || c.Value < best*(1-1e-9) || c.Cost > 10_000 {
			t.Fatalf("got %+v, want %v", c, best)
		}
		if c.Nodes == 20_000 {
			beyond++
		}
		items = append(items, schedule.Item{}) // free, and what all lists need
		for i := range 100 {
			items[i].Needs = append([]int{100}, items[i].Needs...) // of the others this says nothing new
		}
		if c := schedule.Select(items, schedule.Limits{Budget: 10_000}); !c.Exact || c.Value < best*(1-1e-9) {
			t.Fatalf("with an item that all need: got %+v, want %v", c, best)
		}
	}
	if beyond == 0 {
		t.Error("the search was never at its cap")
	}
}

// table is the best value of a forest in which each item needs at most one, which
// stands before it: for each item and budget, from the last to the first.
func table(items []schedule.Item, budget int) float64 {
	kids := make([][]int, len(items)+1) // the last are the roots
	for i, it := range items {
		parent := len(items)
		if len(it.Needs) > 0 {
			parent = it.Needs[0]
		}
		kids[parent] = append(kids[parent], i)
	}
	// within is the best of some trees, for each budget, on top of what the rest brings.
	var within func(trees []int, rest []float64) []float64
	within = func(trees []int, rest []float64) []float64 {
		for _, i := range trees {
			with := within(kids[i], rest)
			rest = slices.Clone(rest)
			for left := budget; left >= items[i].Cost; left-- {
				rest[left] = max(rest[left], with[left-items[i].Cost]+items[i].Value)
			}
		}
		return rest
	}
	return within(kids[len(items)], make([]float64, budget+1))[budget]
}

// At any cap what the table solves is the best there is, and only forests are
// solved by it.
func TestForestAgainstEveryChoice(t *testing.T) {
	solved, units := 0, 0
	for seed := range uint64(soak(3000, 100_000)) {
		r := rand.New(rand.NewPCG(seed, 4))
		in := instance{items: make([]schedule.Item, 4+r.IntN(8))}
		unit, extra := 1+15*r.IntN(2), r.IntN(3) == 0
		names := r.Perm(len(in.items)) // what is needed may stand behind
		for at, i := range names {
			in.items[i] = schedule.Item{Value: float64(r.IntN(20)), Cost: unit * r.IntN(6)}
			if at > 0 && r.IntN(4) > 0 {
				in.items[i].Needs = append(in.items[i].Needs, names[r.IntN(at)])
				if needs := in.items[in.items[i].Needs[0]].Needs; extra && len(needs) > 0 {
					in.items[i].Needs = slices.Concat(needs, in.items[i].Needs, needs) // says nothing new
				}
			}
		}
		if r.IntN(4) == 0 { // no forest
			i, k := names[len(names)-1], names[r.IntN(len(names)-1)]
			in.items[i].Needs = append(in.items[i].Needs, k)
		}
		in.limits = schedule.Limits{Budget: unit*r.IntN(30) + r.IntN(unit), Nodes: 1 + r.IntN(6)}
		c := schedule.Select(in.items, in.limits)
		in.check(t, c)
		if best := in.optimum(); c.Exact && c.Value != best {
			t.Fatalf("seed %d: %+v: got %+v, want %v", seed, in, c, best)
		}
		if c.Exact && c.Nodes == in.limits.Nodes && c.Nodes > 1 {
			if solved++; unit > 1 {
				units++
			}
		}
	}
	if solved < 100 || units < 20 {
		t.Errorf("got %d solved at the cap, %d of them in units: the instances prove nothing", solved, units)
	}
}

// A table that would take longer than the search was allowed to is not made.
func TestForestTableIsBounded(t *testing.T) {
	items := lists(rand.New(rand.NewPCG(1, 2)), 100)
	for _, tt := range []struct {
		name string
		l    schedule.Limits
	}{
		{"few nodes", schedule.Limits{Budget: 10_000, Nodes: 100}},
		{"counted", schedule.Limits{Budget: 10_000, Nodes: 1000, Count: 9}},
	} {
		if c := schedule.Select(items, tt.l); c.Exact {
			t.Errorf("%s: got %+v", tt.name, c)
		}
	}
}
