package tune

import "math"

// quantiles counts values by their size: a value is known to 5 %, however many there
// are and however far apart.
type quantiles struct {
	cells map[int16]uint32
	n     int
}

const step5 = 0.04879 // ln 1.05

// add counts a value. What is no number above 0 that a record could hold is left out.
func (q *quantiles) add(v float64) {
	if !(v > 1e-6 && v < 1e12) {
		return
	}
	if q.cells == nil {
		q.cells = make(map[int16]uint32)
	}
	q.cells[int16(math.Round(math.Log(v)/step5))]++
	q.n++
}

// at is the value below which a share of the values are; 0 if there are none.
func (q *quantiles) at(share float64) float64 {
	if q.n == 0 {
		return 0
	}
	low, high := int16(math.MaxInt16), int16(math.MinInt16)
	for c := range q.cells {
		low, high = min(low, c), max(high, c)
	}
	left := int(math.Ceil(share * float64(q.n)))
	for c := low; c < high; c++ {
		if left -= int(q.cells[c]); left <= 0 {
			return math.Exp(float64(c) * step5)
		}
	}
	return math.Exp(float64(high) * step5)
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
