package schedule_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"mcpschedd/internal/schedule"

	"github.com/google/go-cmp/cmp"
)

func TestCycle(t *testing.T) {
	tests := []struct {
		name  string
		after [][]int
		want  []int
	}{
		{"nothing", nil, nil},
		{"a diamond", [][]int{{}, {0}, {0}, {1, 2}}, nil},
		{"itself", [][]int{{}, {1}}, []int{1}},
		{"each other", [][]int{{1}, {0}}, []int{0, 1}},
		{"behind what is no part of it", [][]int{{1}, {2}, {3}, {1}}, []int{1, 2, 3}},
		{"behind what is in order", [][]int{{}, {0, 0}, {1, 3}, {0, 2}}, []int{2, 3}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, schedule.Cycle(tt.after)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, diff)
		}
	}
}

// TestCycleAgainstElimination: Cycle returns a cycle exactly if tasks remain after repeatedly
// removing those without predecessors.
func TestCycleAgainstElimination(t *testing.T) {
	found := 0
	for seed := range uint64(soak(1000, 100_000)) {
		r := rand.New(rand.NewPCG(seed, 5))
		after := make([][]int, 1+r.IntN(8))
		for i := range after {
			for range r.IntN(3) {
				after[i] = append(after[i], r.IntN(len(after)))
			}
		}
		gone := make([]bool, len(after))
		for range after {
			for i := range after {
				gone[i] = gone[i] || !slices.ContainsFunc(after[i], func(k int) bool { return !gone[k] })
			}
		}
		cycle := schedule.Cycle(after)
		if (cycle != nil) != slices.Contains(gone, false) {
			t.Fatalf("%v: got %v", after, cycle)
		}
		for at, i := range cycle {
			if !slices.Contains(after[i], cycle[(at+1)%len(cycle)]) || slices.Contains(cycle[:at], i) {
				t.Fatalf("%v: got %v", after, cycle)
			}
		}
		found += min(1, len(cycle))
	}
	if found == 0 {
		t.Error("no graph had a cycle")
	}
}

func TestExpected(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		tasks []schedule.Task
		want  []time.Duration
	}{
		{[]schedule.Task{{Mean: 3 * s}, {Mean: 2 * s}, {Mean: -s}}, []time.Duration{3 * s, 2 * s, 2500 * time.Millisecond}},
		{[]schedule.Task{{}, {}}, []time.Duration{s, s}},
		{[]schedule.Task{{Mean: math.MaxInt64}}, []time.Duration{24 * time.Hour}},
	} {
		if got := schedule.Expected(c.tasks); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.tasks, got, c.want)
		}
	}
}
