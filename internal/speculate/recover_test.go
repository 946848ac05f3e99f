package speculate_test

import (
	"math/rand/v2"
	"testing"

	"mcpschedd/internal/speculate"
)

// walk adds random labels to a throttle, of which the share right are hits, and calls each with
// the number of labels so far.
func walk(t *speculate.Throttle, r *rand.Rand, right float64, labels int, each func(n int)) {
	for n := range labels {
		t.Started()
		t.Label(t.Era(), r.Float64() < right, false)
		each(n + 1)
	}
}

// shaken returns a throttle with a random history.
func shaken(r *rand.Rand) *speculate.Throttle {
	t := speculate.NewThrottle()
	for range r.IntN(6) {
		walk(t, r, r.Float64(), r.IntN(60), func(int) {})
		for range r.IntN(5) {
			t.Started()
			t.Harm()
		}
	}
	return t
}

// TestRecovers: from any state and without further harm, a throttle recovers if half of the
// prefetches are right, and does not if only a fifth is.
func TestRecovers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		right float64
		goal  func(level int) bool
		most  int     // number of labels until it has recovered, at most
		share float64 // share of the time after the first 500 labels for which it has recovered, at least
	}{
		{"half right: what is configured", 0.5, func(level int) bool { return level >= 3 }, 300, 0.99},
		{"a fifth right: one at a time at most", 0.2, func(level int) bool { return level <= 1 }, 300, 0.99},
		{"a fifth right: only watched", 0.2, func(level int) bool { return level == 0 }, 300, 0.99},
		{"a tenth right: only watched", 0.1, func(level int) bool { return level == 0 }, 150, 0.99},
	} {
		t.Run(tt.name, func(t *testing.T) {
			there, longest := 0, 0
			const walks, labels = 1000, 1500
			for seed := range uint64(walks) {
				r := rand.New(rand.NewPCG(seed, 1))
				th, first := shaken(r), 0
				walk(th, r, tt.right, labels, func(n int) {
					is := tt.goal(th.Level())
					if is && first == 0 {
						first = n
					}
					if is && n > 500 {
						there++
					}
				})
				if first == 0 {
					t.Fatalf("walk %d: after %d labels still at level %d", seed, labels, th.Level())
				}
				longest = max(longest, first)
			}
			share := float64(there) / (walks * (labels - 500))
			t.Logf("recovered %.3f of the time, first after %d labels at most", share, longest)
			if longest > tt.most || share < tt.share {
				t.Errorf("recovered after %d labels and for %.3f of the time, want %d and %.3f", longest, share, tt.most, tt.share)
			}
		})
	}
}
