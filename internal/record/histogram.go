package record

import (
	"math"
	"slices"
	"sort"
)

// Histogram counts values by size. Count, sum and maximum are exact; a quantile is off by an
// eighth at most. The zero value is ready to use.
type Histogram struct {
	N      int64
	Sum    float64
	min    float64
	max    float64
	counts []uint32 // counts[i] is the number of values in (edges[i-1], edges[i]]; nil if there are none
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
	if h.counts == nil {
		h.counts, h.min = make([]uint32, len(edges)+1), v
	}
	h.N++
	h.Sum += v
	h.min, h.max = min(h.min, v), max(h.max, v)
	h.counts[sort.SearchFloat64s(edges, v)]++
}

// merge adds the values of another histogram.
func (h *Histogram) merge(o *Histogram) {
	if o.N == 0 {
		return
	}
	if h.counts == nil {
		h.counts, h.min = make([]uint32, len(edges)+1), o.min
	}
	h.N, h.Sum = h.N+o.N, h.Sum+o.Sum
	h.min, h.max = min(h.min, o.min), max(h.max, o.max)
	for i, n := range o.counts {
		h.counts[i] += n
	}
}

// Quantile returns the quantile for a share between 0 and 1, or 0 if there are no values.
func (h *Histogram) Quantile(share float64) float64 {
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
		return max(h.min, min(h.max, low+(edges[i]-low)*(rank-before)/float64(n)))
	}
	return 0
}

// prometheusBuckets are the bucket bounds (ms or KiB) of Prometheus histograms: a stored answer
// takes microseconds, a slow tool minutes.
var prometheusBuckets = []float64{1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1e3, 2.5e3, 5e3, 10e3, 30e3, 60e3, 300e3}

func (h *Histogram) quantiles() Quantiles {
	q := Quantiles{N: h.N, Sum: h.Sum, P50: h.Quantile(0.5), P90: h.Quantile(0.9), P99: h.Quantile(0.99), Max: h.max}
	upTo := int64(0)
	for i, n := range h.counts {
		upTo += int64(n)
		if i < len(edges) && slices.Contains(prometheusBuckets, edges[i]) {
			q.Buckets = append(q.Buckets, upTo)
		}
	}
	return q
}
