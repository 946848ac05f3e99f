package schedule_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"mcpschedd/internal/schedule"

	"pgregory.net/rapid"
)

// model implements the documentation of Queue, computing everything from all tasks each time.
type model struct {
	tasks   []schedule.Task
	slots   schedule.Slots
	lengths []time.Duration
	holds   []int // task → slots that it holds; 0 if it does not run
	ended   []bool
}

func newModel(tasks []schedule.Task, s schedule.Slots) *model {
	m := &model{tasks: tasks, slots: s, lengths: make([]time.Duration, len(tasks)), holds: make([]int, len(tasks)), ended: make([]bool, len(tasks))}
	var sum, known time.Duration
	for i, task := range tasks {
		m.lengths[i] = max(0, task.Mean)
		if sum += m.lengths[i]; m.lengths[i] > 0 {
			known++
		}
	}
	for i := range tasks {
		switch {
		case m.lengths[i] > 0:
		case known == 0:
			m.lengths[i] = time.Second
		default:
			m.lengths[i] = sum / known
		}
	}
	return m
}

func (m *model) ready(i int) bool {
	return !m.ended[i] && m.holds[i] == 0 && !slices.ContainsFunc(m.tasks[i].After, func(k int) bool { return !m.ended[k] })
}

// slot reports whether there is a free slot for a task.
func (m *model) slot(i int) bool {
	total, host := 0, 0
	for k, n := range m.holds {
		total += n
		if m.tasks[k].Host == m.tasks[i].Host {
			host += n
		}
	}
	bound := 0
	if m.tasks[i].Host != "" {
		bound = m.slots.Hosts[m.tasks[i].Host]
	}
	return total < m.slots.Total && (bound <= 0 || host < bound)
}

func (m *model) fits(i int) bool { return m.ready(i) && m.slot(i) }

// path returns the length of the longest path from the start of a task to the end.
func (m *model) path(i int, known map[int]time.Duration) time.Duration {
	if d, ok := known[i]; ok {
		return d
	}
	most := time.Duration(0)
	for k := range m.tasks {
		if slices.Contains(m.tasks[k].After, i) {
			most = max(most, m.path(k, known))
		}
	}
	known[i] = most + m.lengths[i]
	return known[i]
}

// next returns the task that Next must return; -1 if there is none.
func (m *model) next() int {
	next, known := -1, map[int]time.Duration{}
	for i := range m.tasks {
		if !m.fits(i) {
			continue
		}
		if next < 0 || m.path(i, known) > m.path(next, known) {
			next = i
		}
	}
	return next
}

func (m *model) running() (all []int) {
	for i, n := range m.holds {
		if n > 0 {
			all = append(all, i)
		}
	}
	return all
}

func (m *model) left() (left int) {
	for _, ended := range m.ended {
		if !ended {
			left++
		}
	}
	return left
}

// drawTasks draws a DAG with few different durations, so that there are many ties, and with a few
// bounded hosts.
func drawTasks(r *rand.Rand, n int) ([]schedule.Task, schedule.Slots) {
	tasks := make([]schedule.Task, n)
	hosts, edges := []string{"", "a", "b", "c"}[:1+r.IntN(4)], r.IntN(4)
	names := r.Perm(n) // the order of tasks is not a possible order of running them
	for at, i := range names {
		task := &tasks[i]
		task.Host = hosts[r.IntN(len(hosts))]
		task.Mean = time.Duration(r.IntN(6)) * time.Second
		for range r.IntN(1 + edges) {
			if at > 0 {
				task.After = append(task.After, names[r.IntN(at)]) // may repeat a predecessor
			}
		}
	}
	return tasks, schedule.Slots{Total: []int{1, 2, 3, 4, 5, n}[r.IntN(6)], Hosts: map[string]int{"a": 1, "b": r.IntN(4), "": 1, "z": 1}}
}

// history is a queue and its model in a random run.
type history struct {
	t  *rapid.T
	r  *rand.Rand
	m  *model
	q  *schedule.Queue
	it counts
}

// counts are numbers of events, to check that each kind occurred.
type counts struct{ next, none, more, refused, less, skipped int }

func (h *history) step() {
	switch h.r.IntN(9) {
	case 0, 1, 2, 3:
		h.next()
	case 4:
		h.more()
	case 5:
		h.less()
	case 6:
		if h.r.IntN(4) == 0 { // any task, in whatever state
			task := h.r.IntN(len(h.m.tasks))
			if !h.m.ended[task] && h.m.holds[task] == 0 {
				h.it.skipped++
			}
			h.done(task)
		}
	default:
		if running := h.m.running(); len(running) > 0 {
			h.done(running[h.r.IntN(len(running))])
		}
	}
}

// one draws a task, usually a running one.
func (h *history) one() int {
	if running := h.m.running(); len(running) > 0 && h.r.IntN(8) > 0 {
		return running[h.r.IntN(len(running))]
	}
	return h.r.IntN(len(h.m.tasks))
}

func (h *history) next() {
	want := h.m.next()
	task, ok := h.q.Next()
	if ok != (want >= 0) || ok && task != want {
		h.t.Fatalf("next: got %d, %v, want %d", task, ok, want)
	}
	if !ok {
		h.it.none++
		return
	}
	h.m.holds[task] = 1
	h.it.next++
}

func (h *history) more() {
	task := h.one()
	want := h.m.holds[task] > 0 && h.m.slot(task) && h.m.next() < 0
	if got := h.q.AcquireExtra(task); got != want {
		h.t.Fatalf("more of %d: got %v, want %v", task, got, want)
	}
	if want {
		h.m.holds[task]++
		h.it.more++
	} else {
		h.it.refused++
	}
}

func (h *history) less() {
	task := h.one()
	h.q.ReleaseExtra(task)
	if h.m.holds[task] > 1 {
		h.m.holds[task]--
		h.it.less++
	}
}

func (h *history) done(task int) {
	h.q.Done(task)
	h.m.ended[task], h.m.holds[task] = true, 0
}

// live runs a queue through random operations, and returns what occurred.
func live(t *rapid.T) counts {
	n := 30 - rapid.IntRange(0, 29).Draw(t, "fewer") // rapid draws mostly small numbers
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	tasks, slots := drawTasks(r, n)
	h := &history{t: t, r: r, m: newModel(tasks, slots), q: schedule.NewQueue(tasks, slots)}
	for range 6 * n {
		h.step()
	}
	for h.m.left() > 0 {
		h.next()
		if running := h.m.running(); len(running) > 0 && r.IntN(2) == 0 {
			h.done(running[r.IntN(len(running))])
		}
	}
	return h.it
}

// TestQueueAgainstModel: for any sequence of operations the queue agrees with the model, stays
// within the slots, leaves none free that a ready task could take, and runs every task.
func TestQueueAgainstModel(t *testing.T) {
	setChecks(t, 400, 50_000)
	var all counts
	rapid.Check(t, func(t *rapid.T) { all.add(live(t)) })
	if slices.Contains([]int{all.next, all.none, all.more, all.refused, all.less, all.skipped}, 0) {
		t.Errorf("got %+v: one kind of event never occurred", all)
	}
	t.Logf("%+v", all)
}

func (c *counts) add(d counts) {
	c.next += d.next
	c.none += d.none
	c.more += d.more
	c.refused += d.refused
	c.less += d.less
	c.skipped += d.skipped
}
