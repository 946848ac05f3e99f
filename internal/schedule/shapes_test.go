package schedule_test

import (
	"math/rand/v2"

	"mcpschedd/internal/schedule"
)

// shapes are instances like those after one answer: values in expected hidden milliseconds, costs
// in tokens.
var shapes = []struct {
	name string
	draw func(r *rand.Rand, n int) []schedule.Item
}{
	{"independent", independent},
	{"alike", func(r *rand.Rand, n int) []schedule.Item {
		items := independent(r, n)
		for i := range items {
			items[i] = items[i%4]
		}
		return items
	}},
	{"prerequisites", func(r *rand.Rand, n int) []schedule.Item {
		items := independent(r, n)
		for i := range items {
			if i%4 > 0 {
				items[i].Needs = []int{i - i%4}
			} else {
				items[i].Value /= 10
			}
		}
		return items
	}},
	{"chains", func(r *rand.Rand, n int) []schedule.Item {
		items := independent(r, n)
		for i := range items {
			if i > 0 && r.IntN(3) > 0 {
				items[i].Needs = []int{r.IntN(i)}
			}
		}
		return items
	}},
}

func independent(r *rand.Rand, n int) []schedule.Item {
	items := make([]schedule.Item, n)
	for i := range items {
		items[i] = schedule.Item{Value: 50 + 950*r.Float64(), Cost: 100 + r.IntN(2000)}
	}
	return items
}
