package schedule_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"mcpschedd/internal/schedule"

	"github.com/google/go-cmp/cmp"
)

func TestSelect(t *testing.T) {
	type item = schedule.Item
	budget := func(n int) schedule.Limits { return schedule.Limits{Budget: n, Count: 9} }
	tests := []struct {
		name   string
		items  []item
		limits schedule.Limits
		want   []int
	}{
		{"the example of the package", []item{{9, 40, nil}, {70, 50, []int{0}}, {20, 30, nil}, {5, 10, nil}}, budget(100), []int{0, 1, 3}},
		{"nothing", nil, budget(100), nil},
		{"all fit", []item{{1, 1, nil}, {2, 2, nil}}, budget(3), []int{0, 1}},
		{"what is free needs no budget", []item{{1, 0, nil}, {2, 2, nil}}, budget(0), []int{0}},
		{"no budget at all", []item{{1, 0, nil}}, budget(-1), nil},
		{"what is worth nothing is left", []item{{0, 0, nil}, {1, 1, nil}}, budget(5), []int{1}},
		{"unless it is needed", []item{{0, 0, nil}, {1, 1, []int{0}}}, budget(5), []int{0, 1}},
		{"too dear", []item{{9, 6, nil}, {1, 1, nil}}, budget(5), []int{1}},
		{"too dear with what it needs", []item{{0, 3, nil}, {9, 3, []int{0}}, {1, 1, nil}}, budget(5), []int{2}},
		{"what two need is paid for once", []item{{0, 3, nil}, {4, 2, []int{0}}, {4, 2, []int{0}}, {6, 6, nil}}, budget(7), []int{0, 1, 2}},
		{"needs of needs", []item{{5, 1, []int{1}}, {0, 1, []int{2}}, {0, 1, nil}}, budget(3), []int{0, 1, 2}},
		{"costs beyond all integers", []item{{1, math.MaxInt, nil}, {2, math.MaxInt, nil}, {3, math.MaxInt, []int{1}}}, budget(math.MaxInt), []int{1}},
		{"equal ones: the first", []item{{1, 2, nil}, {1, 2, nil}, {1, 2, nil}}, budget(5), []int{0, 1}},
		{"at most two", []item{{3, 1, nil}, {5, 9, nil}, {4, 1, nil}}, schedule.Limits{Budget: 11, Count: 2}, []int{1, 2}},
		{"what is needed counts too", []item{{0, 1, nil}, {6, 1, []int{0}}, {4, 1, nil}, {3, 1, nil}}, schedule.Limits{Budget: 9, Count: 2}, []int{2, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := schedule.Choose(tt.items, tt.limits, 0)
			if diff := cmp.Diff(tt.want, c.Items); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !c.Exact {
				t.Errorf("not optimal after %d nodes", c.Nodes)
			}
		})
	}
}

// TestEqualItemsAreNotPermuted: the search does not try all combinations of equal items.
func TestEqualItemsAreNotPermuted(t *testing.T) {
	items := make([]schedule.Item, 200)
	for i := range items {
		items[i] = schedule.Item{Value: 3, Cost: 7}
	}
	if c := schedule.Choose(items, schedule.Limits{Budget: 500, Count: 200}, 0); !c.Exact || c.Nodes > 300 || len(c.Items) != 71 {
		t.Errorf("got %d items, exact %v, after %d nodes", len(c.Items), c.Exact, c.Nodes)
	}
}

// TestSearchIsShort: pruning does not change the result, so only the number of nodes shows that it
// works.
func TestSearchIsShort(t *testing.T) {
	most := map[string]int{"independent": 90, "alike": 40, "prerequisites": 1300, "chains": 290}
	for _, shape := range shapes {
		r := rand.New(rand.NewPCG(1, 2))
		nodes := 0
		for range 100 {
			nodes += schedule.Choose(shape.draw(r, 64), schedule.Limits{Budget: 8000, Count: 64}, 0).Nodes
		}
		if nodes/100 > most[shape.name] {
			t.Errorf("%s: got %d nodes on average, want at most %d", shape.name, nodes/100, most[shape.name])
		}
	}
}

// hard returns items with equal densities, for which the bound prunes almost nothing.
func hard(n int) []schedule.Item {
	r := rand.New(rand.NewPCG(3, 4))
	items := make([]schedule.Item, n)
	for i := range items {
		cost := 2 * (1000 + r.IntN(9000))
		items[i] = schedule.Item{Value: float64(cost), Cost: cost}
	}
	return items
}

func TestNodeCap(t *testing.T) {
	items := hard(64)
	for _, limit := range []int{1, 10, 1000} {
		c := schedule.Choose(items, schedule.Limits{Budget: 100_001, Count: 64}, limit)
		if c.Exact || c.Nodes != limit {
			t.Errorf("cap %d: got exact %v after %d nodes", limit, c.Exact, c.Nodes)
		}
	}
	if c := schedule.Choose(items, schedule.Limits{Budget: 100_001, Count: 64}, 0); c.Nodes != 20_000 {
		t.Errorf("got %d nodes, want the default cap of 20,000", c.Nodes)
	}
}
