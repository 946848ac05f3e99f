package predict

import "math"

const (
	numCells   = 64
	cellStep   = 1.35 // ratio of the upper bounds of adjacent cells: 64 cells span 1e-3 to 1e5
	minValue   = 1e-3
	decayAfter = 512 // number of samples at which all weights are halved
)

// sketch is a histogram of a quantity in fixed space, accurate to 16 %. Newer values have
// more weight.
type sketch struct {
	Cell [numCells]sum
	n    float32 // sum of all cells
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

// merge adds the samples of another process.
func (q *sketch) merge(o *sketch) {
	for i, c := range o.Cell {
		q.Cell[i].merge(c)
	}
	q.recount()
}

func (q *sketch) each(do func(*sum)) {
	for i := range q.Cell {
		do(&q.Cell[i])
	}
}

// recount recomputes n.
func (q *sketch) recount() {
	q.n = 0
	for i := range q.Cell {
		q.n += q.Cell[i].Now
	}
}

// quantile returns the p-quantile of the samples, p in 0 to 1; 0 without samples.
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
