package schedule_test

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"mcpschedd/internal/schedule"

	"pgregory.net/rapid"
)

// instance is a random problem, small enough for exhaustive search.
type instance struct {
	items  []schedule.Item
	limits schedule.Limits
}

// drawInstance draws from few integer values and costs, for many ties and exact sums. The numbers
// come from a random seed, as rapid itself draws mostly small ones, for which greedy is usually
// optimal.
func drawInstance(t *rapid.T) instance {
	n := rapid.IntRange(0, 12).Draw(t, "fewer") // rapid draws mostly small numbers
	needy := rapid.IntRange(0, 3).Draw(t, "needs")
	counted := rapid.Bool().Draw(t, "counted")
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	most := []int{4, 20, 1000}[r.IntN(3)]
	in := instance{items: make([]schedule.Item, 12-n)}
	for i := range in.items {
		it := schedule.Item{Value: float64(r.IntN(most)), Cost: r.IntN(most)}
		for range r.IntN(1 + needy) {
			if i > 0 {
				it.Needs = append(it.Needs, r.IntN(i))
			}
		}
		in.items[i] = it
	}
	in.limits.Budget = r.IntN(most*3) - 1
	if in.limits.Count = len(in.items); counted {
		in.limits.Count = 1 + r.IntN(5)
	}
	return in
}

// feasible reports whether a set of items, a bit for each, may be chosen according to
// [schedule.Item], and returns its value.
func (in instance) feasible(chosen uint) (value float64, ok bool) {
	count, cost := 0, 0
	for i, it := range in.items {
		if chosen>>i&1 == 0 {
			continue
		}
		if slices.ContainsFunc(it.Needs, func(k int) bool { return chosen>>k&1 == 0 }) {
			return 0, false
		}
		count++
		cost += it.Cost
		value += it.Value
	}
	if chosen == 0 {
		return 0, true // the empty set fits any budget
	}
	within := cost <= in.limits.Budget && count <= in.limits.Count
	return value, within
}

// optimum returns the greatest value of all feasible sets.
func (in instance) optimum() float64 {
	most := 0.0
	for chosen := range uint(1) << len(in.items) {
		if value, ok := in.feasible(chosen); ok {
			most = max(most, value)
		}
	}
	return most
}

// closure returns an item with everything that it needs.
func (in instance) closure(i int) uint {
	closure := uint(1) << i
	for _, k := range in.items[i].Needs {
		closure |= in.closure(k)
	}
	return closure
}

// floor returns the guaranteed value of a choice: the better of the best closure and greedy by
// density.
func (in instance) floor() float64 {
	var chosen uint
	single := 0.0
	for first := true; ; first = false {
		best, most, least := chosen, 0.0, 1.0
		have, _ := in.feasible(chosen)
		for i := range in.items {
			c := in.closure(i)
			value, fits := in.feasible(chosen | c)
			if !fits {
				continue
			}
			if first {
				single = max(single, value)
			}
			cost := float64(in.cost(chosen|c) - in.cost(chosen))
			if (value-have)*least > most*cost {
				best, most, least = chosen|c, value-have, cost
			}
		}
		if best == chosen {
			return max(single, have)
		}
		chosen = best
	}
}

func (in instance) cost(chosen uint) int {
	cost := 0
	for ; chosen != 0; chosen &= chosen - 1 {
		cost += in.items[bits.TrailingZeros(chosen)].Cost
	}
	return cost
}

// check fails if a choice is not feasible or has a wrong value.
func (in instance) check(t interface{ Fatalf(string, ...any) }, c schedule.Choice) {
	var chosen uint
	for _, i := range c.Items {
		chosen |= 1 << i
	}
	value, ok := in.feasible(chosen)
	if !ok || value != c.Value || in.cost(chosen) != c.Cost || !slices.IsSorted(c.Items) || bits.OnesCount(chosen) != len(c.Items) {
		t.Fatalf("%+v: no choice: %+v", in, c)
	}
	for i := range in.items {
		if value, fits := in.feasible(chosen | in.closure(i)); c.Exact && fits && value > c.Value {
			t.Fatalf("%+v: %+v: item %d would fit too", in, c, i)
		}
	}
}

// TestSelectAgainstEveryChoice: below the node cap the choice is optimal; at any cap its value is
// at least the floor.
func TestSelectAgainstEveryChoice(t *testing.T) {
	setChecks(t, 1000, 100_000)
	capped, searched, above := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		in := drawInstance(t)
		best, floor := in.optimum(), in.floor()
		c := schedule.Choose(in.items, in.limits, 0)
		in.check(t, c)
		if !c.Exact || c.Value != best {
			t.Fatalf("%+v: got %+v, want %v", in, c, best)
		}
		if c.Nodes > 1 {
			searched++
		}
		if best > floor {
			above++
		}

		most := rapid.IntRange(1, 6).Draw(t, "cap")
		c = schedule.Choose(in.items, in.limits, most)
		in.check(t, c)
		if c.Nodes > most || c.Value < floor || c.Exact && c.Value != best {
			t.Fatalf("%+v: got %+v, want at least %v and at most %v", in, c, floor, best)
		}
		if !c.Exact {
			capped++
		}
	})
	if capped == 0 || searched == 0 || above == 0 {
		t.Errorf("got %d capped, %d searched, %d above the floor: the test proves nothing about one of them", capped, searched, above)
	}
	t.Logf("%d searched, %d above the floor, %d capped", searched, above, capped)
}
