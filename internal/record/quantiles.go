package record

import (
	"slices"

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

// bounds (ms) of the latencies that Prometheus is given: a stored answer takes microseconds,
// a slow tool minutes.
var bounds = []float64{1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1e3, 2.5e3, 5e3, 10e3, 30e3, 60e3, 300e3}

// Histogram is latencies as Prometheus wants them.
type Histogram struct {
	Count  int64
	Sum    float64 // milliseconds
	Counts []int64 // of values up to each of the bounds
}

func (h *Histogram) add(ms float64) {
	if h.Counts == nil {
		h.Counts = make([]int64, len(bounds))
	}
	h.Count++
	h.Sum += ms
	for i, bound := range slices.Backward(bounds) {
		if ms > bound {
			break
		}
		h.Counts[i]++
	}
}

// Latencies are those of the calls of each tool.
func (t *Tally) Latencies() map[string]Histogram {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]Histogram)
	for name, of := range t.tools {
		if h := of.took; h.Count > 0 {
			h.Counts = slices.Clone(h.Counts)
			all[name] = h
		}
	}
	return all
}
