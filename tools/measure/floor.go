package main

import (
	"cmp"
	"path/filepath"
	"slices"

	"mcpschedd/internal/replay"
	"mcpschedd/tools/dataset"
)

// floor is the curve that a prefetcher must exceed.
type floor struct {
	Calls   int `json:"calls"`
	Reads   int `json:"reads"`   // without repeats
	Repeats int `json:"repeats"` // repeated reads
	Curve   []struct {
		Issued   float64 `json:"issued_per_call"`
		Coverage float64 `json:"coverage"`
	} `json:"curve"`
}

func readFloor(dir, set string) (*floor, error) {
	f := new(floor)
	return f, dataset.JSON(filepath.Join(dir, "floor", set+".json"), f)
}

// at returns the running maximum of the curve.
func (f *floor) at(issued float64) float64 {
	best := 0.0
	for _, p := range f.Curve {
		if p.Issued <= issued {
			best = max(best, p.Coverage)
		}
	}
	return best
}

// last is the end of the range in which the floor must be exceeded.
const last = 1.8

// where returns the places at which the curves are compared: the floor's own points from the first
// above zero, and a grid between them.
func (f *floor) where() []float64 {
	at := []float64{last}
	first := last
	for _, p := range f.Curve {
		if p.Issued > 0 && p.Issued <= last && p.Coverage > 0 {
			at = append(at, p.Issued)
			first = min(first, p.Issued)
		}
	}
	for x := 0.02; x < last; x += 0.02 {
		if x > first {
			at = append(at, x)
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// point is one gate of the measured curve.
type point struct{ issued, coverage float64 }

// curve returns the measured curve, by number of calls issued. Coverage is relative to the reads
// that the floor counts, so that leaving out reads gains nothing.
func curve(gates []*replay.Report, f *floor) []point {
	points := []point{{}}
	for _, r := range gates {
		reads := max(f.Reads, r.Reads-r.Repeats)
		points = append(points, point{r.IssuedPerCall, float64(r.Used-r.UsedByRepeats) / float64(reads)})
	}
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.issued, b.issued) })
	return points
}

// coverage interpolates a curve. After its end it is constant.
func coverage(points []point, issued float64) float64 {
	var low point
	for _, p := range points {
		if p.issued >= issued && p.issued > low.issued {
			return low.coverage + (p.coverage-low.coverage)*(issued-low.issued)/(p.issued-low.issued)
		}
		low = p
	}
	return low.coverage
}
