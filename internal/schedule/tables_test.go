package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"mcpschedd/internal/schedule"
)

// Reports for each policy its value as a share of the optimum, on average and at
// worst, and how much of the budget it used.
func BenchmarkPolicies(b *testing.B) {
	for _, pop := range []struct {
		name   string
		budget int
		draw   func(r *rand.Rand) []schedule.Item
	}{
		{"100 in forests", 10_000, func(r *rand.Rand) []schedule.Item {
			if r.IntN(2) == 0 {
				return lists(r, 100)
			}
			items := independent(r, 100)
			for i := range items {
				if i > 0 && r.IntN(4) > 0 {
					items[i].Needs = []int{r.IntN(i)}
				}
			}
			return items
		}},
		{"64 independent", 8000, func(r *rand.Rand) []schedule.Item { return independent(r, 64) }},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		instances, best := make([][]schedule.Item, 200), make([]float64, 200)
		for i := range instances {
			instances[i] = pop.draw(r)
			best[i] = table(instances[i], pop.budget)
		}
		for _, p := range policies(1) {
			b.Run(fmt.Sprintf("%s/%s", pop.name, p.name), func(b *testing.B) {
				l := schedule.Limits{Budget: pop.budget}
				for n := 0; b.Loop(); n++ {
					p.choose(instances[n%len(instances)], l)
				}
				var value, used tally
				for i, items := range instances {
					c := p.choose(items, l)
					value, used = append(value, c.Value/best[i]), append(used, float64(c.Cost)/float64(pop.budget))
				}
				b.ReportMetric(value.mean(), "of-optimum")
				b.ReportMetric(value.part(0), "worst-of-optimum")
				b.ReportMetric(used.mean(), "of-budget")
			})
		}
	}
}

// Reports for each rule its makespan, on average as a multiple of the bound and of
// that of waves.
func BenchmarkOrders(b *testing.B) {
	for _, pop := range populations {
		r := rand.New(rand.NewPCG(1, 2))
		dags, slots := make([][]schedule.Task, 200), make([]schedule.Slots, 200)
		for i := range dags {
			dags[i], slots[i] = pop.draw(r), schedule.Slots{Total: 1 + r.IntN(16)}
		}
		for _, rule := range rules {
			b.Run(fmt.Sprintf("%s/%s", pop.name, rule.name), func(b *testing.B) {
				for n := 0; b.Loop(); n++ {
					i := n % len(dags)
					schedule.Simulate(dags[i], exactly(dags[i]), slots[i], rule.rule)
				}
				var toBound, toWaves tally
				for i, tasks := range dags {
					span := func(r schedule.Rule) float64 {
						return float64(schedule.Simulate(tasks, exactly(tasks), slots[i], r).Makespan)
					}
					toBound = append(toBound, span(rule.rule)/float64(schedule.Bound(tasks, slots[i])))
					toWaves = append(toWaves, span(rule.rule)/span(schedule.Waves))
				}
				b.ReportMetric(toBound.mean(), "of-bound")
				b.ReportMetric(toWaves.mean(), "of-waves")
			})
		}
	}
}

// Reports what a task costs from the making of the queue to its end.
func BenchmarkQueue(b *testing.B) {
	for _, shape := range []struct {
		name string
		draw func(r *rand.Rand, n int) []schedule.Task
	}{
		{"wide", func(r *rand.Rand, n int) []schedule.Task { return lengthen(r, make([]schedule.Task, n)) }},
		{"random", randomDAG},
		{"hosts and conflicts", func(r *rand.Rand, n int) []schedule.Task {
			tasks := randomDAG(r, n)
			for i := range tasks {
				tasks[i].Host = fmt.Sprint(r.IntN(20))
				tasks[i].Conflicts = []int{r.IntN(n), r.IntN(n)}
			}
			return tasks
		}},
	} {
		for _, n := range []int{100, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", shape.name, n), func(b *testing.B) {
				tasks := shape.draw(rand.New(rand.NewPCG(1, 2)), n)
				hosts := map[string]int{}
				for i := range 20 {
					hosts[fmt.Sprint(i)] = 2
				}
				for b.Loop() {
					q := schedule.NewQueue(tasks, schedule.Slots{Total: 16, Hosts: hosts})
					for q.Left() > 0 {
						for _, task := range begin(q) {
							q.Done(task)
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/task")
			})
		}
	}
}

// Reports what Expect of all tasks that wait costs after each end, with the Next
// that follows.
func BenchmarkExpect(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tasks := randomDAG(rand.New(rand.NewPCG(1, 2)), n)
			for b.Loop() {
				q := schedule.NewQueue(tasks, schedule.Slots{Total: 8})
				for round := 0; q.Left() > 0; round++ {
					for _, task := range begin(q) {
						q.Done(task)
						for i := range tasks {
							q.Expect(i, tasks[i].Mean+time.Duration(round%3))
						}
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/task")
		})
	}
}
