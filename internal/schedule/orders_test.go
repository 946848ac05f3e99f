package schedule_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
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

// valid returns an error if a timeline breaks a rule of Task or Slots.
func valid(tasks []schedule.Task, took []time.Duration, s schedule.Slots, t schedule.Timeline) error {
	for i, task := range tasks {
		if t.Start[i] < 0 || t.End[i] != t.Start[i]+took[i] || t.End[i] > t.Makespan {
			return fmt.Errorf("task %d from %v to %v, took %v, makespan %v", i, t.Start[i], t.End[i], took[i], t.Makespan)
		}
		for _, k := range task.After {
			if t.Start[i] < t.End[k] {
				return fmt.Errorf("task %d begins at %v, %d ends at %v", i, t.Start[i], k, t.End[k])
			}
		}
		total, host := 0, 0 // numbers of tasks that run when it begins
		for k := range tasks {
			if t.Start[k] <= t.Start[i] && t.Start[i] < t.End[k] {
				total++
				if tasks[k].Host == task.Host {
					host++
				}
			}
		}
		if most := s.Hosts[task.Host]; task.Host != "" && most > 0 && host > most || s.Total > 0 && total > s.Total {
			return fmt.Errorf("%d at once at %v, %d of them against %q", total, t.Start[i], host, task.Host)
		}
	}
	return nil
}

// idle returns an error if a task could have begun earlier: when its last predecessor ended, or
// when a slot was released.
func idle(tasks []schedule.Task, took []time.Duration, s schedule.Slots, t schedule.Timeline) error {
	for i, task := range tasks {
		from := time.Duration(0)
		for _, k := range task.After {
			from = max(from, t.End[k])
		}
		for _, at := range append(slices.Clone(t.End), from) {
			if at < from || at >= t.Start[i] {
				continue
			}
			m := newModel(tasks, s)
			for k := range tasks {
				m.ended[k] = t.End[k] <= at
				if t.Start[k] <= at && at < t.End[k] {
					m.holds[k] = 1
				}
			}
			if m.fits(i) {
				return fmt.Errorf("task %d could begin at %v and begins at %v", i, at, t.Start[i])
			}
		}
	}
	return nil
}

// TestSimulateIsValid: a timeline keeps all bounds, and leaves no slot free that a ready task
// could take.
func TestSimulateIsValid(t *testing.T) {
	for seed := range uint64(soak(200, 20_000)) {
		r := rand.New(rand.NewPCG(seed, 1))
		tasks, slots := drawTasks(r, 1+r.IntN(40))
		took := make([]time.Duration, len(tasks))
		for i := range took {
			took[i] = time.Duration(1+r.IntN(5)) * time.Second
		}
		line := schedule.Simulate(tasks, took, slots)
		if err := valid(tasks, took, slots, line); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if line.Makespan < lowerBound(actual(tasks, took), slots) {
			t.Fatalf("seed %d: makespan %v is below the bound", seed, line.Makespan)
		}
		if err := idle(tasks, took, slots, line); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
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
	bound := schedule.Simulate(tasks, schedule.Expected(tasks), schedule.Slots{}).Makespan // longest path
	work, hosts := time.Duration(0), make(map[string]time.Duration)                        // work of all tasks, and host → work of its tasks
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
