package predict

import (
	"math"
	"time"

	"mcpschedd/internal/enrich"
)

const (
	numCells   = 64
	cellStep   = 1.35 // ratio of the upper bounds of adjacent cells: 64 cells span 1e-3 to 1e5
	minValue   = 1e-3
	decayAfter = 512 // number of samples at which all weights are halved
)

// sketch is a histogram of a quantity in fixed space, accurate to 16 %. Newer values have
// more weight.
type sketch struct {
	Cells [numCells]float32
	N     float32 // sum of all cells
}

func (q *sketch) add(x float64) {
	if !(x >= 0) {
		return
	}
	i := 0
	if x > minValue {
		i = min(numCells-1, 1+int(math.Log(x/minValue)/math.Log(cellStep)))
	}
	q.Cells[i]++
	if q.N++; q.N >= decayAfter {
		for i := range q.Cells {
			q.Cells[i] /= 2
		}
		q.N /= 2
	}
}

// quantile returns the p-quantile of the samples, p in 0 to 1; 0 without samples.
func (q *sketch) quantile(p float64) float64 {
	if q.N == 0 {
		return 0
	}
	want, i := float32(p)*q.N, 0
	for ; i < numCells-1 && want > q.Cells[i]; i++ {
		want -= q.Cells[i]
	}
	return minValue * math.Pow(cellStep, float64(i)-0.5)
}

// percentiles returns the percentiles of a sketch of seconds.
func (q *sketch) percentiles() enrich.Percentiles {
	at := func(p float64) time.Duration { return time.Duration(q.quantile(p) * float64(time.Second)) }
	return enrich.Percentiles{P10: at(0.1), P50: at(0.5), P90: at(0.9)}
}

// bytes returns a percentile of a sketch of sizes in KB.
func (q *sketch) bytes(p float64) int { return int(q.quantile(p) * 1024) }
