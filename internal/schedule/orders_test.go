package schedule_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"mcpschedd/internal/schedule"
)

// soak returns n, or long in a soak test.
func soak(n, long int) int {
	if os.Getenv("MCPSCHEDD_SOAK") == "1" {
		return long
	}
	return n
}

// setChecks sets the number of rapid's checks.
func setChecks(t *testing.T, n, long int) {
	t.Helper()
	if err := flag.Set("rapid.checks", strconv.Itoa(soak(n, long))); err != nil {
		t.Fatal(err)
	}
}

// TestNearTheOptimum: the makespan is on average within 5 % of the optimum, for instances that can
// be solved exactly, and within Graham's 2-1/p if only the slots are bounded.
func TestNearTheOptimum(t *testing.T) {
	for _, bound := range []bool{false, true} {
		sum, worst, exact, n := 0.0, 1.0, 0, soak(300, 20_000)
		for seed := range uint64(n) {
			r := rand.New(rand.NewPCG(seed, 2))
			tasks := randomDAG(r, 5+r.IntN(5))
			slots := schedule.Slots{Total: 1 + r.IntN(4)}
			if bound {
				slots.Hosts = map[string]int{"a": 1, "b": 2}
				for i := range tasks {
					tasks[i].Host = []string{"", "a", "b"}[r.IntN(3)]
				}
			}
			best := shortest(tasks, slots)
			got := schedule.Simulate(tasks, exactly(tasks), slots).Makespan
			ratio := float64(got) / float64(best)
			if got < best || lowerBound(tasks, slots) > best {
				t.Fatalf("seed %d: makespan %v, bound %v, optimum %v", seed, got, lowerBound(tasks, slots), best)
			}
			if !bound && ratio > 2-1/float64(slots.Total)+1e-9 {
				t.Fatalf("seed %d: %v of the optimum with %d slots", seed, ratio, slots.Total)
			}
			if sum, worst = sum+ratio, max(worst, ratio); got == best {
				exact++
			}
		}
		t.Logf("hosts %v: mean %.4f of the optimum, worst %.3f, optimal %.1f %%", bound, sum/float64(n), worst, 100*float64(exact)/float64(n))
		if sum/float64(n) > 1.05 {
			t.Errorf("hosts %v: got %.4f of the optimum on average, want at most 1.05", bound, sum/float64(n))
		}
	}
}

// lowerBound is a lower bound of the makespan if each task takes its Mean: the longest chain, the
// work divided by all slots, or the work of one host divided by its slots. The optimum may be
// longer.
func lowerBound(tasks []schedule.Task, s schedule.Slots) time.Duration {
	bound := schedule.Simulate(tasks, schedule.Expected(tasks), schedule.Slots{Total: len(tasks)}).Makespan // longest path
	work, hosts := time.Duration(0), make(map[string]time.Duration)                                         // work of all tasks, and host → work of its tasks
	for i, length := range schedule.Expected(tasks) {
		work += length
		hosts[tasks[i].Host] += length
	}
	bound = max(bound, share(work, s.Total))
	delete(hosts, "")
	for host, work := range hosts {
		bound = max(bound, share(work, s.Hosts[host]))
	}
	return bound
}

// share returns work divided by slots, rounded up to nanoseconds; 0 without a bound.
func share(work time.Duration, slots int) time.Duration {
	if slots <= 0 || work == 0 {
		return 0
	}
	return (work-1)/time.Duration(slots) + 1
}
