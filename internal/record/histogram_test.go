package record_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"mcpschedd/internal/record"
)

// latent returns a tally of calls with the given latencies in milliseconds.
func latent(all ...float64) *record.Tally {
	t := record.NewTally()
	for i, v := range all {
		e := record.Event{Kind: record.Call, Upstream: "u", Tool: "t", Seq: int64(i + 1), Disposition: record.Fetched, LatencyMS: v}
		record.Clamp(&e)
		t.Add(&e)
	}
	return t
}

// Quantiles are close to the true ones. Count, sum and maximum are exact.
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
	for name, q := range map[string]record.Histogram{"totals": s.Totals.LatencyMS, "tool": s.Tools["u/t"].LatencyMS, "upstream": s.Upstreams["u"].LatencyMS} {
		if q.N != 10_000 || math.Abs(q.Sum-sum) > 1e-6*sum || q.Max != all[len(all)-1] {
			t.Errorf("%s: got n %d sum %v max %v, want %v and %v", name, q.N, q.Sum, q.Max, sum, all[len(all)-1])
		}
		for p, got := range map[float64]float64{0.5: q.P50, 0.9: q.P90, 0.99: q.P99} {
			want := all[int(p*float64(len(all)))-1]
			if math.Abs(got-want) > 0.125*want+0.001 {
				t.Errorf("%s: p%v: got %v, want about %v", name, p, got, want)
			}
		}
	}
}

// A quantile is off by an eighth at most, wherever in their bucket the values are.
func TestQuantilesAtTheEdges(t *testing.T) {
	for _, edge := range record.Edges[1 : len(record.Edges)-1] {
		for _, v := range []float64{edge, math.Nextafter(edge, math.Inf(1))} {
			var h record.Histogram
			h.Add(record.Edges[0])
			for range 98 {
				h.Add(v)
			}
			h.Add(record.Edges[len(record.Edges)-1])
			for _, share := range []float64{0.02, 0.5, 0.99} {
				if got := h.Quantile(share); math.Abs(got-v) > v/8 {
					t.Errorf("%v of values of %v: got %v", share, v, got)
				}
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
	if q := latent().Stats(time.Time{}).Totals.LatencyMS; q.N != 0 || q.P50 != 0 || q.Counts != nil {
		t.Errorf("of nothing: got %+v", q)
	}
}
