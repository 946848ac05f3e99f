package record_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"mcpschedd/internal/record"
)

// latent is a tally of calls that took so many milliseconds.
func latent(all ...float64) *record.Tally {
	t := record.New(0, nil)
	for i, v := range all {
		t.Add(&record.Event{Kind: record.Call, Upstream: "u", Tool: "t", Seq: int64(i + 1), Disposition: record.Fetched, LatencyMS: v})
	}
	return t
}

// Quantiles are near the true ones: of two digits in totals, of one for a tool. Number,
// sum and largest are exact.
func TestQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var all []float64
	var sum float64
	for range 10_000 {
		v := math.Exp(3 * r.NormFloat64()) // from microseconds to minutes
		all = append(all, v)
		sum += v
	}
	tally := latent(all...)
	slices.Sort(all)
	s := tally.Stats(time.Time{})
	for name, tt := range map[string]struct {
		q    record.Quantiles
		near float64
	}{"totals": {s.Totals.LatencyMS, 0.01}, "tool": {s.Tools["u/t"].LatencyMS, 0.07}, "upstream": {s.Upstreams["u"].LatencyMS, 0.07}} {
		q := tt.q
		if q.N != 10_000 || math.Abs(q.Sum-sum) > 1e-6*sum || q.Max != all[len(all)-1] {
			t.Errorf("%s: got n %d sum %v max %v, want %v and %v", name, q.N, q.Sum, q.Max, sum, all[len(all)-1])
		}
		for p, got := range map[float64]float64{0.5: q.P50, 0.9: q.P90, 0.99: q.P99} {
			want := all[int(p*float64(len(all)))-1]
			if math.Abs(got-want) > tt.near*want+0.001 {
				t.Errorf("%s: p%v: got %v, want about %v", name, p, got, want)
			}
		}
	}
}

func TestQuantilesOfTheOutermost(t *testing.T) {
	for _, v := range []float64{0, 1e-9, 1e300, 3600e3, 7 * 24 * 3600e3, -5} {
		q := latent(v).Stats(time.Time{}).Totals.LatencyMS
		if q.N != 1 || q.P50 > q.Max || q.P99 > q.Max || q.Max < 0 || q.Sum != q.Max {
			t.Errorf("%v ms: got %+v", v, q)
		}
	}
	if q := latent().Stats(time.Time{}).Totals.LatencyMS; q != (record.Quantiles{}) {
		t.Errorf("of nothing: got %+v", q)
	}
}

// Of each tool it is counted how many calls took no longer than each bound.
func TestLatencies(t *testing.T) {
	h := latent(0, 1, 1.5, 10, 99, 100, 5e6).Latencies()["u/t"]
	want := []int64{2, 3, 3, 4, 4, 4, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6}
	if h.Count != 7 || h.Sum != 5e6+211.5 || !slices.Equal(h.Counts, want) {
		t.Errorf("got %+v, want %v", h, want)
	}
	if got := tallied(record.Event{Kind: record.Prefetch, Fate: record.Compared}).Latencies(); len(got) != 0 {
		t.Errorf("of a tool that was never called: got %v", got)
	}
}
