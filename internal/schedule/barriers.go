package schedule

import (
	"slices"
	"time"
)

// waves runs the levels of the DAG one after the other: a task's level is the
// number of tasks on the longest chain that leads to it.
func (t *Timeline) waves(tasks []Task, took []time.Duration, s Slots) {
	g := newGraph(tasks)
	level, levels := make([]int, len(tasks)), [][]int(nil)
	for _, i := range g.order {
		for _, k := range tasks[i].After {
			level[i] = max(level[i], level[k]+1)
		}
		if level[i] == len(levels) {
			levels = append(levels, nil)
		}
		levels[level[i]] = append(levels[level[i]], i)
	}
	for _, wave := range levels {
		slices.Sort(wave)
		t.run(newArrivals(alone(tasks, wave), s), took, t.Makespan, wave)
	}
}

// alone are some of the tasks with nothing to wait for and the conflicts among them.
func alone(tasks []Task, names []int) []Task {
	place := make(map[int]int, len(names))
	for at, i := range names {
		place[i] = at
	}
	some := make([]Task, len(names))
	for at, i := range names {
		some[at].Host = tasks[i].Host
		for _, k := range tasks[i].Conflicts {
			if to, ok := place[k]; ok {
				some[at].Conflicts = append(some[at].Conflicts, to)
			}
		}
	}
	return some
}

// batches takes from the tasks that are ready, in the order in which they became
// so, as many as may run beside each other, and waits for all of them.
func (t *Timeline) batches(tasks []Task, took []time.Duration, s Slots) {
	q := newArrivals(tasks, s)
	for {
		var batch []int
		from := t.Makespan
		for task, ok := q.Next(); ok; task, ok = q.Next() {
			batch = append(batch, task)
			t.note(task, from, took[task])
		}
		if len(batch) == 0 {
			return
		}
		for _, task := range batch {
			q.arrived++
			q.Done(task)
		}
	}
}
