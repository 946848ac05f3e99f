package predict

import (
	"cmp"
	"encoding/json"
	"math"
)

const (
	cells    = 64
	cellStep = 1.35 // each cell is as much wider than the one before: 64 of them span 1e-3 to 1e5
	smallest = 1e-3
	sketched = 512 // samples after which the older ones weigh half
)

// sketch keeps the distribution of a quantity in fixed space, right to 16 %, newer
// values weighing more.
type sketch struct {
	cell [cells]sum
	n    float32
}

func (q *sketch) add(x float64) {
	if x < 0 || math.IsNaN(x) {
		return
	}
	i := 0
	if x > smallest {
		i = min(cells-1, 1+int(math.Log(x/smallest)/math.Log(cellStep)))
	}
	q.cell[i].now++
	if q.n++; q.n >= sketched {
		for i := range q.cell {
			q.cell[i].now /= 2
		}
		q.n /= 2
	}
}

// plus adds what another process saw.
func (q *sketch) plus(o *sketch) {
	q.n = 0
	for i, c := range o.cell {
		q.cell[i].plus(c)
		q.n += q.cell[i].now
	}
}

// MarshalJSON writes the cells.
func (q sketch) MarshalJSON() ([]byte, error) {
	var counts [cells]float32
	for i, c := range q.cell {
		counts[i] = c.now
	}
	return json.Marshal(counts)
}

// UnmarshalJSON reads them, if they are such as could have been counted.
func (q *sketch) UnmarshalJSON(saved []byte) error {
	var counts [cells]float32
	if err := json.Unmarshal(saved, &counts); err != nil || !sound(counts[:]...) {
		return cmp.Or(err, errUnsound)
	}
	for i, c := range counts {
		q.cell[i] = kept(c)
		q.n += c
	}
	return nil
}

// quantile is the value below which a share p of the samples lie; 0 without any.
func (q *sketch) quantile(p float64) float64 {
	if q.n == 0 {
		return 0
	}
	want := p * float64(q.n)
	for i, c := range q.cell {
		if want -= float64(c.now); want <= 0 {
			if i == 0 {
				return smallest / 2
			}
			return smallest * math.Pow(cellStep, float64(i)-0.5)
		}
	}
	return smallest * math.Pow(cellStep, cells)
}
