package schedule_test

import (
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"mcpschedd/internal/schedule"
)

// fewestSteps finds the least number of steps in which p slots can do all tasks of
// a second each, by going on from every set of tasks that can have been done.
func fewestSteps(tasks []schedule.Task, p int) time.Duration {
	var needs []uint
	for _, task := range tasks {
		var need uint
		for _, k := range task.After {
			need |= 1 << k
		}
		needs = append(needs, need)
	}
	all := uint(1)<<len(tasks) - 1
	reached := map[uint]bool{0: true}
	for steps := time.Duration(0); ; steps++ {
		if reached[all] {
			return steps * second
		}
		next := map[uint]bool{}
		for done := range reached {
			var ready uint
			for i, need := range needs {
				if done>>i&1 == 0 && need&^done == 0 {
					ready |= 1 << i
				}
			}
			for some := ready; some != 0; some = (some - 1) & ready {
				if n := bits.OnesCount(some); n == p || n < p && some == ready {
					next[done|some] = true
				}
			}
		}
		reached = next
	}
}

// An edge that says nothing new, as that from 0 to 5 beside those over 1 and 4, must not count
// as one: with it the labels lead to five steps.
func TestCoffmanGrahamWithoutRedundantEdges(t *testing.T) {
	tasks := unit(nil, []int{7, 0, 6}, []int{7, 6}, []int{7, 0, 6}, []int{7, 0, 6}, []int{0, 4, 1}, nil, nil)
	if got := makespan(tasks, 2, schedule.CoffmanGraham); got != 4*second {
		t.Errorf("got %v, want 4 s", got)
	}
}

// On two slots the labels are exact for tasks of equal length, edges that say
// nothing new included; on more they stay within 2-2/p (Lam and Sethi 1977).
func TestCoffmanGrahamAgainstEverySchedule(t *testing.T) {
	better, redundant := 0, 0
	for seed := range uint64(soak(1500, 30_000)) {
		r := rand.New(rand.NewPCG(seed, 6))
		tasks := make([]schedule.Task, 4+r.IntN(7))
		names, rare := r.Perm(len(tasks)), 2+r.IntN(4)
		for at, i := range names {
			tasks[i].Mean = second
			for _, k := range names[:at] {
				if r.IntN(rare) == 0 {
					tasks[i].After = append(tasks[i].After, k)
				}
			}
		}
		for p := 1; p <= 4; p++ {
			got, best := makespan(tasks, p, schedule.CoffmanGraham), fewestSteps(tasks, p)
			if p <= 2 && got != best {
				t.Fatalf("seed %d: %v: got %v on %d slots, want %v", seed, tasks, got, p, best)
			}
			if float64(got) > (2-2/float64(p))*float64(best)+1 && p > 2 {
				t.Fatalf("seed %d: got %v on %d slots, optimum %v", seed, got, p, best)
			}
			if p == 2 && makespan(tasks, p, schedule.ByCriticalPath) > got {
				better++
			}
		}
		for _, task := range tasks {
			for _, k := range task.After {
				for _, via := range task.After {
					for _, before := range tasks[via].After {
						if before == k {
							redundant++
						}
					}
				}
			}
		}
	}
	if better == 0 || redundant == 0 {
		t.Errorf("got %d better than by paths, %d redundant edges: the instances prove nothing", better, redundant)
	}
	t.Logf("better than by paths: %d", better)
}
