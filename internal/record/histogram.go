package record

import (
	"math"
	"slices"
	"sort"
)

// Histogram counts values by size. Number, sum and largest are exact; a quantile is wrong by
// an eighth at most. The zero value is ready.
type Histogram struct {
	N      int64
	Sum    float64
	least  float64
	max    float64
	counts []uint32 // of values up to each of the edges and above the one before; nil: of none
}

// edges are round and a quarter apart at most, from a microsecond to hours in milliseconds,
// and from a byte to gigabytes in KiB.
var edges = func() (all []float64) {
	for power := -3; power <= 6; power++ {
		for _, digits := range []float64{1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9} {
			all = append(all, digits*math.Pow10(power))
		}
	}
	return all
}()

// Add counts a value; what is negative or no number counts as 0, and what is endless as much.
func (h *Histogram) Add(v float64) {
	v = min(positive(v), mostAmount)
	if h.counts == nil {
		h.counts, h.least = make([]uint32, len(edges)+1), v
	}
	h.N++
	h.Sum += v
	h.least, h.max = min(h.least, v), max(h.max, v)
	h.counts[sort.SearchFloat64s(edges, v)]++
}

// At is the value below which a share of the values are; 0 without values.
func (h *Histogram) At(share float64) float64 {
	rank, before := math.Ceil(share*float64(h.N)), 0.0
	for i, n := range h.counts {
		if n == 0 || before+float64(n) < rank {
			before += float64(n)
			continue
		}
		if i == len(edges) {
			return h.max
		}
		low := 0.0
		if i > 0 {
			low = edges[i-1]
		}
		return max(h.least, min(h.max, low+(edges[i]-low)*(rank-before)/float64(n)))
	}
	return 0
}

// bounds are the edges (ms) that Prometheus is given: a stored answer takes microseconds, a
// slow tool minutes.
var bounds = []float64{1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1e3, 2.5e3, 5e3, 10e3, 30e3, 60e3, 300e3}

func (h *Histogram) quantiles() Quantiles {
	q := Quantiles{N: h.N, Sum: h.Sum, P50: h.At(0.5), P90: h.At(0.9), P99: h.At(0.99), Max: h.max}
	upTo := int64(0)
	for i, n := range h.counts {
		upTo += int64(n)
		if i < len(edges) && slices.Contains(bounds, edges[i]) {
			q.Buckets = append(q.Buckets, upTo)
		}
	}
	return q
}
