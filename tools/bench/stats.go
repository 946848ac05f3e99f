package main

import (
	"cmp"
	"slices"
	"time"
)

// percentile returns the smallest value that at least p percent of the values do not exceed
// (nearest rank); 0 for no values. It sorts values.
func percentile[T cmp.Ordered](values []T, p float64) T {
	var zero T
	if len(values) == 0 {
		return zero
	}
	slices.Sort(values)
	rank := int(p / 100 * float64(len(values)))
	if float64(rank) < p/100*float64(len(values)) {
		rank++
	}
	return values[min(max(rank, 1), len(values))-1]
}

// spread is the variation of a figure over the rounds of a run.
type spread struct {
	Median float64
	Low    float64 // first quartile
	High   float64 // third quartile
	Min    float64
	Max    float64
	Rounds int
}

// spreadOf sorts values.
func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	return spread{
		Median: middle(values),
		Low:    percentile(values, 25),
		High:   percentile(values, 75),
		Min:    values[0],
		Max:    values[len(values)-1],
		Rounds: len(values),
	}
}

// middle returns the median of sorted values. For an even number it is the mean of the middle two,
// as a run has few rounds.
func middle(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// ratios divides round by round: the two figures of a quotient were measured within a second, so a
// slow machine affects both.
func ratios(over, under []float64) []float64 {
	var q []float64
	for i := range min(len(over), len(under)) {
		if under[i] > 0 {
			q = append(q, over[i]/under[i])
		}
	}
	return q
}

// rate returns n per second.
func rate(n int, in time.Duration) float64 {
	if in <= 0 {
		return 0
	}
	return float64(n) / in.Seconds()
}
