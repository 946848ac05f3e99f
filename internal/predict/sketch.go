package predict

import "math"

const (
	cells    = 64
	cellStep = 1.35 // each cell is as much wider than the one before: 64 of them span 1e-3 to 1e5
	smallest = 1e-3
	sketched = 512 // samples after which the older ones weigh half
)

// sketch keeps the distribution of a quantity in fixed space, right to 16 %, newer
// values weighing more.
type sketch struct {
	Cell [cells]sum
	n    float32 // in all cells
}

func (q *sketch) add(x float64) {
	if x < 0 || math.IsNaN(x) {
		return
	}
	i := 0
	if x > smallest {
		i = min(cells-1, 1+int(math.Log(x/smallest)/math.Log(cellStep)))
	}
	q.Cell[i].Now++
	if q.n++; q.n >= sketched {
		for i := range q.Cell {
			q.Cell[i].Now /= 2
		}
		q.n /= 2
	}
}

// plus adds what another process saw.
func (q *sketch) plus(o *sketch) {
	for i, c := range o.Cell {
		q.Cell[i].plus(c)
	}
	q.count()
}

func (q *sketch) each(do func(*sum)) {
	for i := range q.Cell {
		do(&q.Cell[i])
	}
}

// count counts what is in the cells.
func (q *sketch) count() {
	q.n = 0
	for i := range q.Cell {
		q.n += q.Cell[i].Now
	}
}

// quantile is the value below which a share p of the samples lie; 0 without any.
func (q *sketch) quantile(p float64) float64 {
	if q.n == 0 {
		return 0
	}
	want := p * float64(q.n)
	for i, c := range q.Cell {
		if want -= float64(c.Now); want <= 0 {
			if i == 0 {
				return smallest / 2
			}
			return smallest * math.Pow(cellStep, float64(i)-0.5)
		}
	}
	return smallest * math.Pow(cellStep, cells)
}
