package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"mcpschedd/internal/schedule"
)

// shapes are instances like those of a turn: values in expected hidden milliseconds, costs in
// tokens.
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

// BenchmarkSelect reports the median and the worst of many instances, which an average would hide.
func BenchmarkSelect(b *testing.B) {
	for _, shape := range shapes {
		for _, count := range []int{0, 3} {
			b.Run(fmt.Sprintf("%s, count %d", shape.name, count), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 2))
				instances := make([][]schedule.Item, 500)
				for i := range instances {
					instances[i] = shape.draw(r, 64)
				}
				var took []time.Duration
				inexact, nodes := 0, 0
				for n := 0; b.Loop(); n++ {
					began := time.Now()
					c := schedule.Select(instances[n%len(instances)], schedule.Limits{Budget: 8000, Count: count})
					took = append(took, time.Since(began))
					nodes += c.Nodes
					if !c.Exact {
						inexact++
					}
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "ns/median")
				b.ReportMetric(float64(took[len(took)-1].Nanoseconds()), "ns/worst")
				b.ReportMetric(float64(nodes)/float64(len(took)), "nodes/op")
				b.ReportMetric(float64(inexact)/float64(len(took)), "inexact/op")
			})
		}
	}
}
