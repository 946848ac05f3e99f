package predict

import "math"

const (
	numCells   = 64
	cellStep   = 1.35 // each cell is as much wider than the one before: 64 of them span 1e-3 to 1e5
	minValue   = 1e-3
	decayAfter = 512 // samples after which the older ones weigh half
)

// sketch keeps the distribution of a quantity in fixed space, right to 16 %, newer
// values weighing more.
type sketch struct {
	Cell [numCells]sum
	n    float32 // in all cells
}

func (q *sketch) add(x float64) {
	if x < 0 || math.IsNaN(x) {
		return
	}
	i := 0
	if x > minValue {
		i = min(numCells-1, 1+int(math.Log(x/minValue)/math.Log(cellStep)))
	}
	q.Cell[i].Now++
	if q.n++; q.n >= decayAfter {
		for i := range q.Cell {
			q.Cell[i].Now /= 2
		}
		q.n /= 2
	}
}

// plus adds what another process saw.
func (q *sketch) merge(o *sketch) {
	for i, c := range o.Cell {
		q.Cell[i].plus(c)
	}
	q.recount()
}

func (q *sketch) each(do func(*sum)) {
	for i := range q.Cell {
		do(&q.Cell[i])
	}
}

// count counts what is in the cells.
func (q *sketch) recount() {
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
				return minValue / 2
			}
			return minValue * math.Pow(cellStep, float64(i)-0.5)
		}
	}
	return minValue * math.Pow(cellStep, numCells)
}
