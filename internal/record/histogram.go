package record

import (
	"math"
	"slices"
)

// Histogram counts values by size. Number, sum and maximum are exact; a quantile from 0.001 to
// 9,000,000 is off by an eighth at most. The zero value is ready to use.
type Histogram struct {
	N   int64   `json:"n" jsonschema:"Number of values, exact."`
	Sum float64 `json:"sum" jsonschema:"Sum of them, exact."`
	P50 float64 `json:"p50" jsonschema:"Median."`
	P90 float64 `json:"p90" jsonschema:"90th percentile."`
	P99 float64 `json:"p99" jsonschema:"99th percentile."`
	Max float64 `json:"max" jsonschema:"Largest, exact."`

	Min    float64  `json:"-"`
	Counts []uint32 `json:"-"` // number of values in each bucket, of which bucket i is (edges[i-1], edges[i]]; nil if there are no values, or only the quantiles are known
}

// edges are round numbers at most a quarter apart. In milliseconds they cover a microsecond to
// hours, in KiB a byte to gigabytes.
var edges = func() (all []float64) {
	for power := -3; power <= 6; power++ {
		for _, digits := range []float64{1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9} {
			all = append(all, digits*math.Pow10(power))
		}
	}
	return all
}()

// Add counts a value, which is not negative.
func (h *Histogram) Add(v float64) {
	if h.Counts == nil {
		h.Counts, h.Min = make([]uint32, len(edges)+1), v
	}
	h.N++
	h.Sum += v
	h.Min, h.Max = min(h.Min, v), max(h.Max, v)
	bucket, _ := slices.BinarySearch(edges, v)
	h.Counts[bucket]++
}

// merge adds the values of another histogram. The quantiles become the mean of both, weighted by
// the number of values; derive replaces them if the counts are known.
func (h *Histogram) merge(o *Histogram) {
	if o.N == 0 {
		return
	}
	share := float64(o.N) / float64(h.N+o.N)
	for mine, other := range map[*float64]float64{&h.P50: o.P50, &h.P90: o.P90, &h.P99: o.P99} {
		*mine += (other - *mine) * share
	}
	if h.N == 0 && o.Counts != nil {
		h.Counts, h.Min = make([]uint32, len(edges)+1), o.Min
	}
	if o.Counts == nil {
		h.Counts = nil
	}
	for i := range h.Counts {
		h.Counts[i] += o.Counts[i]
	}
	h.N, h.Sum = h.N+o.N, h.Sum+o.Sum
	h.Min, h.Max = min(h.Min, o.Min), max(h.Max, o.Max)
}

// derive sets the quantiles, unless the values come from another process, without their counts.
func (h *Histogram) derive() {
	if h.Counts != nil {
		h.P50, h.P90, h.P99 = h.Quantile(0.5), h.Quantile(0.9), h.Quantile(0.99)
	}
}

// Quantile returns the quantile for a share between 0 and 1, or 0 if there are no values. It is
// the middle of its bucket, which is at most an eighth away from any value in it, and exact if it
// is the largest value.
func (h *Histogram) Quantile(share float64) float64 {
	rank, upTo := max(int64(math.Ceil(share*float64(h.N))), 1), int64(0)
	for i, n := range h.Counts {
		if upTo += int64(n); upTo < rank {
			continue
		}
		if rank == h.N || i == len(edges) {
			return h.Max
		}
		low := 0.0
		if i > 0 {
			low = edges[i-1]
		}
		return max(h.Min, min(h.Max, (low+edges[i])/2))
	}
	return 0
}
