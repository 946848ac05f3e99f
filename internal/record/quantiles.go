package record

import (
	"math/bits"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// histogram counts values by size. Number, sum and largest are exact; the rest is made when
// the first value comes, and sparse: most tools answer about as fast every time.
type histogram struct {
	digits int     // significant ones that are kept
	unit   float64 // what is counted in, of what values are given in
	top    int64   // what is more counts as this

	n        int64
	sum, max float64
	h        *hdr.PackedHistogram
}

func (s *histogram) add(v float64) {
	s.n++
	s.sum += v
	s.max = max(s.max, v)
	if s.h == nil {
		s.h = hdr.NewPacked(1, s.top, s.digits)
	}
	s.h.RecordValue(int64(min(max(1, v/s.unit+0.5), float64(s.top)))) // in range: it cannot fail
}

var percentiles = []float64{50, 90, 99}

func (s *histogram) quantiles() Quantiles {
	q := Quantiles{N: s.n, Sum: s.sum, Max: s.max}
	if s.h == nil {
		return q
	}
	at := s.h.ValueAtPercentilesSlice(percentiles)
	q.P50, q.P90, q.P99 = min(float64(at[0])*s.unit, s.max), min(float64(at[1])*s.unit, s.max), min(float64(at[2])*s.unit, s.max)
	return q
}

// Histogram is latencies as Prometheus wants them.
type Histogram struct {
	Count  int64
	Sum    float64 // milliseconds
	Counts []int64 // of values up to each bound
}

// Latencies are those of the calls of each tool, by upper bounds in ascending milliseconds. The
// counts are of a histogram of one significant digit: a value less than 7 % under a bound
// may count as above it.
func (t *Tally) Latencies(bounds []float64) map[string]Histogram {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]Histogram)
	for name, of := range t.tools {
		if of.latency.n > 0 {
			all[name] = of.latency.under(bounds)
		}
	}
	return all
}

func (s *histogram) under(bounds []float64) Histogram {
	h := Histogram{Count: s.n, Sum: s.sum, Counts: make([]int64, len(bounds))}
	at, below := 0, int64(0)
	s.h.ForEachBucket(func(v, n int64) bool {
		for at < len(bounds) && bounds[at] < float64(largestWith(v))*s.unit {
			h.Counts[at] = below
			at++
		}
		below += n
		return true
	})
	for ; at < len(bounds); at++ {
		h.Counts[at] = below
	}
	return h
}

// largestWith is the largest value that one digit counts together with v: 32 sub-buckets of
// one unit, then twice 16 for each power of two.
func largestWith(v int64) int64 {
	width := int64(1) << max(0, bits.Len64(uint64(v))-5)
	return v/width*width + width - 1
}
