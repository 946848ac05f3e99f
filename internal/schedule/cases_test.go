package schedule_test

import (
	"slices"
	"testing"
	"time"

	"mcpschedd/internal/schedule"
)

// unit are tasks that take a second each.
func unit(after ...[]int) []schedule.Task {
	tasks := make([]schedule.Task, len(after))
	for i := range tasks {
		tasks[i] = schedule.Task{Mean: second, After: after[i]}
	}
	return tasks
}

func makespan(tasks []schedule.Task, slots int, r schedule.Rule) time.Duration {
	return schedule.Simulate(tasks, exactly(tasks), schedule.Slots{Total: slots}, r).Makespan
}

// The worked example of the paper: four checks beside each other take as long as
// the longest of them, not less (0.9 s, as it says elsewhere).
func TestErratum19Heartbeat(t *testing.T) {
	const ms = time.Millisecond
	checks := []schedule.Task{{Mean: 800 * ms}, {Mean: 900 * ms}, {Mean: 1100 * ms}, {Mean: 400 * ms}} // email, calendar, health, state
	for _, rule := range rules {
		got, alone := makespan(checks, 4, rule.rule), makespan(checks, 1, rule.rule)
		if got != 1100*ms || alone != 3200*ms {
			t.Errorf("%s: got %v, and %v one by one, want 1.1 s and 3.2 s", rule.name, got, alone)
		}
		if times := float64(alone) / float64(got); times < 2.905 || times > 2.915 {
			t.Errorf("%s: got %.3f times faster, want 2.91", rule.name, times)
		}
	}
	if length, chain := schedule.CriticalPath(checks); length != 1100*ms || !slices.Equal(chain, []int{2}) {
		t.Errorf("got %v by %v, want health alone", length, chain)
	}
}

// With the degrees counted on the wrong side, as the paper has it, a chain or a
// diamond runs its last task and no other, and a cycle runs as nothing at all.
func TestErratum10EverythingIsScheduled(t *testing.T) {
	for _, rule := range rules {
		for name, tasks := range map[string][]schedule.Task{
			"a chain":   unit(nil, []int{0}, []int{1}),
			"a diamond": unit(nil, []int{0}, []int{0}, []int{1, 2}),
		} {
			line := schedule.Simulate(tasks, exactly(tasks), schedule.Slots{}, rule.rule)
			if err := valid(tasks, exactly(tasks), schedule.Slots{}, line); err != nil || line.Makespan != 3*second {
				t.Errorf("%s: %s: %v, %v", rule.name, name, line, err)
			}
		}
		cycle := unit(nil, []int{2}, []int{1}, []int{2})
		line := schedule.Simulate(cycle, exactly(cycle), schedule.Slots{}, rule.rule)
		if !slices.Equal(line.Start, []time.Duration{0, -1, -1, -1}) || line.Makespan != second {
			t.Errorf("%s: a cycle: got %+v", rule.name, line)
		}
	}
}

// A DAG of unit tasks is easy where there are slots for all that is ready: then
// the longest chain is the optimum. With fewer slots it is not.
func TestErratum12UnitTasks(t *testing.T) {
	tasks := unit(nil, nil, nil, []int{0}, []int{3})
	if got := makespan(tasks, 0, schedule.FIFO); got != 3*second {
		t.Errorf("got %v with any number of slots, want the longest chain", got)
	}
	if got := schedule.Bound(tasks, schedule.Slots{Total: 1}); got != 5*second {
		t.Errorf("got bound %v with one slot, want 5 s", got)
	}
}

// Starting all that is ready is not optimal for unit tasks: it matters which go
// first, and the longest path does not always say so. The labels of Coffman and
// Graham do, on two slots.
func TestErratum13ReadyFirstIsNotOptimal(t *testing.T) {
	tests := []struct {
		name                        string
		tasks                       []schedule.Task
		fifo, path, labels, optimum time.Duration
	}{
		{"two before a chain", unit(nil, nil, nil, []int{2}, []int{3}), 4, 3, 3, 3},
		{"eight tasks", unit([]int{1, 7}, nil, []int{6}, []int{7, 2}, []int{5, 7}, nil, nil, nil), 4, 5, 4, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, c := range []struct {
				rule schedule.Rule
				want time.Duration
			}{{schedule.FIFO, tt.fifo}, {schedule.ByCriticalPath, tt.path}, {schedule.CoffmanGraham, tt.labels}} {
				if got := makespan(tt.tasks, 2, c.rule); got != c.want*second {
					t.Errorf("rule %d: got %v, want %d s", c.rule, got, c.want)
				}
			}
			if got := shortest(tt.tasks, schedule.Slots{Total: 2}); got != tt.optimum*second {
				t.Errorf("got optimum %v, want %d s", got, tt.optimum)
			}
		})
	}
}

// Many short tasks before one long chain: what is ready first is 2-1/p of the
// optimum, which is as bad as any list can be (Graham 1966) and worse than the
// 1+1/p of the paper.
func TestErrata14And15GrahamsBoundIsTight(t *testing.T) {
	for _, p := range []int{2, 4, 8} {
		tasks := make([]schedule.Task, p*p)
		for i := range tasks {
			tasks[i].Mean = second
			if i > (p-1)*p {
				tasks[i].After = []int{i - 1}
			}
		}
		optimum := time.Duration(p) * second
		for _, rule := range []schedule.Rule{schedule.FIFO, schedule.GreedyDAG} {
			if got := makespan(tasks, p, rule); got != time.Duration(2*p-1)*second {
				t.Errorf("%d slots: rule %d: got %v, want 2-1/p of %v", p, rule, got, optimum)
			}
		}
		for _, rule := range []schedule.Rule{schedule.ByCriticalPath, schedule.CoffmanGraham} {
			if got := makespan(tasks, p, rule); got != optimum {
				t.Errorf("%d slots: rule %d: got %v, want %v", p, rule, got, optimum)
			}
		}
	}
}

// A timestep is not a time: a task of 10 s on the only slot holds up the next.
func TestErratum17DurationsCount(t *testing.T) {
	tasks := []schedule.Task{{Mean: 10 * second}, {Mean: 10 * second, After: []int{0}}, {Mean: 10 * second}}
	for _, rule := range rules {
		line := schedule.Simulate(tasks, exactly(tasks), schedule.Slots{Total: 1}, rule.rule)
		if err := valid(tasks, exactly(tasks), schedule.Slots{Total: 1}, line); err != nil || line.Makespan != 30*second {
			t.Errorf("%s: got %+v, %v", rule.name, line, err)
		}
	}
}

// Ten chains, each with one long task, no two of them at the same depth: a barrier
// after each level waits for every one of them.
func TestErratum18WavesWaitForTheSlowest(t *testing.T) {
	const depth = 10
	var tasks []schedule.Task
	for chain := range depth {
		for at := range depth {
			task := schedule.Task{Mean: 100 * time.Millisecond}
			if at == chain {
				task.Mean = 10 * second
			}
			if at > 0 {
				task.After = []int{len(tasks) - 1}
			}
			tasks = append(tasks, task)
		}
	}
	for rule, want := range map[schedule.Rule]time.Duration{
		schedule.Waves: 100 * second, schedule.GreedyDAG: 100 * second,
		schedule.FIFO: 10*second + 900*time.Millisecond, schedule.ByCriticalPath: 10*second + 900*time.Millisecond,
	} {
		if got := makespan(tasks, depth, rule); got != want {
			t.Errorf("rule %d: got %v, want %v", rule, got, want)
		}
	}
}

// More slots, shorter tasks or fewer edges can each take longer (Graham 1969).
// This is why nothing here promises that they do not.
func TestErratum21Anomalies(t *testing.T) {
	lengths := []time.Duration{3, 2, 2, 2, 4, 4, 4, 4, 9}
	after := [][]int{{}, {}, {}, {}, {3}, {3}, {3}, {3}, {0}}
	shorter := []time.Duration{2, 1, 1, 1, 3, 3, 3, 3, 8}
	fewer := [][]int{{}, {}, {}, {}, {}, {}, {3}, {3}, {0}}
	tests := []struct {
		name  string
		after [][]int
		took  []time.Duration
		slots int
		want  time.Duration
	}{
		{"as it is", after, lengths, 3, 12},
		{"one slot more", after, lengths, 4, 15},
		{"each a second less", after, shorter, 3, 13},
		{"two edges less", fewer, lengths, 3, 16},
	}
	for _, tt := range tests {
		tasks := listed(tt.after)
		if got := schedule.Simulate(tasks, tt.took, schedule.Slots{Total: tt.slots}, schedule.ByCriticalPath).Makespan; got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

// First come is first served, whichever stands first; and nothing takes less than
// no time.
func TestSimulateFIFO(t *testing.T) {
	tasks := unit([]int{1}, nil, nil)
	line := schedule.Simulate(tasks, []time.Duration{second, -second, second}, schedule.Slots{Total: 1}, schedule.FIFO)
	if !slices.Equal(line.Start, []time.Duration{second, 0, 0}) || line.Makespan != 2*second {
		t.Errorf("got %+v, want the last before the first", line)
	}
}

// Within a wave the first is first, though it became ready by the last of those
// before.
func TestSimulateWaves(t *testing.T) {
	tasks := unit([]int{4}, []int{3}, nil, nil, nil)
	line := schedule.Simulate(tasks, exactly(tasks), schedule.Slots{Total: 1}, schedule.Waves)
	if !slices.Equal(line.Start, []time.Duration{3 * second, 4 * second, 0, second, 2 * second}) {
		t.Errorf("got %v", line.Start)
	}
}

// listed are tasks of such a Mean that the longest path is that of the first, the
// next longest that of the second, and so on: the priorities are those of a list.
func listed(after [][]int) []schedule.Task {
	tasks, paths := make([]schedule.Task, len(after)), make([]time.Duration, len(after)+1)
	for i := len(after) - 1; i >= 0; i-- {
		next := len(after)
		for k := i + 1; k < len(after); k++ {
			if slices.Contains(after[k], i) {
				next = min(next, k)
			}
		}
		paths[i] = time.Duration(len(after) - i)
		tasks[i] = schedule.Task{After: after[i], Mean: paths[i] - paths[next]}
	}
	return tasks
}
