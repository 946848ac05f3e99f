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

// TestCycleOfALongChain: a chain is too long for recursion.
func TestCycleOfALongChain(t *testing.T) {
	after := make([][]int, 100_000)
	for i := range after {
		after[i] = []int{i + 1}
	}
	after[len(after)-1] = nil
	if got := schedule.Cycle(after); got != nil {
		t.Errorf("got a cycle of %d, want none", len(got))
	}
	after[len(after)-1] = []int{0}
	if got := schedule.Cycle(after); len(got) != len(after) {
		t.Errorf("got a cycle of %d, want all", len(got))
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
		t.Error("no cycle in any of them")
	}
}

func TestCriticalPath(t *testing.T) {
	type task = schedule.Task
	const s = time.Second
	tests := []struct {
		name  string
		tasks []task
		want  time.Duration
		chain []int
	}{
		{"nothing", nil, 0, nil},
		{"one of several", []task{{Mean: s}, {Mean: 3 * s}, {Mean: 2 * s}}, 3 * s, []int{1}},
		{"the first of equals", []task{{Mean: s}, {Mean: s}}, s, []int{0}},
		{"a chain out of order", []task{{Mean: s, After: []int{2}}, {Mean: 3 * s}, {Mean: 2*s + 1}}, 3*s + 1, []int{2, 0}},
		{"the longer way", []task{{Mean: s}, {Mean: s, After: []int{0}}, {Mean: 2 * s, After: []int{0}}, {Mean: s, After: []int{1, 2}}}, 4 * s, []int{0, 2, 3}},
		{"nothing known: a second each", []task{{}, {After: []int{0}}}, 2 * s, []int{0, 1}},
		{"one unknown: as the others", []task{{Mean: 2 * s}, {Mean: 4 * s}, {After: []int{0}}}, 5 * s, []int{0, 2}},
		{"half of P90", []task{{P90: 4 * s}, {Mean: -s, P90: 2 * s}}, 2 * s, []int{0}},
		{"a cycle, and what is behind it", []task{{Mean: 9 * s, After: []int{1}}, {After: []int{0}}, {After: []int{0}}, {Mean: s}}, s, []int{3}},
		{"a cycle behind it", []task{{Mean: s}, {Mean: 9 * s, After: []int{0, 2}}, {After: []int{1}}}, s, []int{0}},
		{"only a cycle", []task{{After: []int{0}}}, 0, nil},
		{"beyond all durations", []task{{Mean: math.MaxInt64}, {Mean: math.MaxInt64, After: []int{0}}}, math.MaxInt64, []int{0, 1}},
	}
	for _, tt := range tests {
		got, chain := schedule.CriticalPath(tt.tasks)
		if diff := cmp.Diff(tt.chain, chain); diff != "" || got != tt.want {
			t.Errorf("%s: got %v, want %v; chain -want +got:\n%s", tt.name, got, tt.want, diff)
		}
	}
}
