package tune

import (
	"math"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// quantiles counts values by their size, to two digits, in thousandths.
type quantiles struct {
	h *hdr.PackedHistogram // nil: there are none
	n int
}

const largest = 1e12 // value that is counted

// add counts a value. What is no number above 0 that a record could hold is left out.
func (q *quantiles) add(v float64) {
	if !(v > 1e-3 && v < largest) {
		return
	}
	if q.h == nil {
		q.h = hdr.NewPacked(1, largest*1000, 2)
	}
	q.h.RecordValue(int64(v * 1000)) // in range: it cannot fail
	q.n++
}

// at is the value below which a share of the values are; 0 if there are none.
func (q *quantiles) at(share float64) float64 {
	if q.h == nil {
		return 0
	}
	return float64(q.h.ValueAtPercentile(100*share)) / 1000
}

// digits rounds a value to two digits.
func digits(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	out := math.Round(v/unit) * unit
	return math.Round(out*1e6) / 1e6
}
