package plan

import (
	"cmp"
	"slices"
	"time"

	"mcpschedd/internal/schedule"
)

// Outlook is what is to be expected of a plan before it runs, as JSON. Times are in
// milliseconds and count one call for each step, be it of for_each: how many items
// there will be is not known.
type Outlook struct {
	Steps        []StepOutlook `json:"steps"`         // as in the plan
	Order        []string      `json:"order"`         // ids of those that run, as they begin
	CriticalPath PathOutlook   `json:"critical_path"` // the chain of steps that takes longest
	Expected     CostOutlook   `json:"expected"`
	Writes       []string      `json:"writes"`    // ids of the steps that may change something
	Discloses    []string      `json:"discloses"` // ids of the steps that tell third parties what others returned
}

// StepOutlook is one step of an Outlook.
type StepOutlook struct {
	ID       string   `json:"id"`
	Tool     string   `json:"tool"`
	After    []string `json:"after,omitempty"` // ids of what it waits for, without those that others of them wait for
	Writes   bool     `json:"writes"`
	Optional bool     `json:"optional,omitempty"`
	Runs     bool     `json:"runs"`                     // false: it is optional, and the budget has no room for it
	Items    int      `json:"for_each_up_to,omitempty"` // calls it may become; 0: it is one
	Start    int64    `json:"start_ms"`
	End      int64    `json:"end_ms"`
}

// PathOutlook is a chain of steps and how long it takes.
type PathOutlook struct {
	IDs []string `json:"ids"`
	MS  int64    `json:"ms"`
}

// CostOutlook is what a plan takes.
type CostOutlook struct {
	MS         int64    `json:"ms"`
	P90        int64    `json:"ms_p90"`         // if each call takes as long as only one of ten does
	LowerBound int64    `json:"lower_bound_ms"` // no order of the same calls is faster
	Sequential int64    `json:"sequential_ms"`  // one call after the other
	Tokens     int      `json:"tokens"`         // of what comes back
	Calls      int      `json:"calls"`
	Guessed    []string `json:"guessed,omitempty"` // ids of steps whose time is not known: the mean of the others stands for it, or a second
}

// Outlook looks ahead: which steps will run, in what order, and what that takes.
func (p *Plan) Outlook(l Limits) *Outlook {
	x := p.foresee(l)
	runs := x.runs()
	a := newAgenda(p.Steps, runs, l.Parallel)
	o := &Outlook{Steps: []StepOutlook{}, Order: a.order(), Writes: []string{}, Discloses: []string{}}
	after := afters(p.Steps)
	for _, s := range p.Steps {
		one := StepOutlook{ID: s.ID, Tool: s.Tool.Name, After: s.leaders(p.Steps, after), Writes: s.Writes, Optional: s.Optional, Runs: runs[s.Index]}
		if s.ForEach != nil {
			one.Items = s.MaxItems
		}
		one.Start, one.End = a.span(s)
		o.Steps = append(o.Steps, one)
		if s.Writes {
			o.Writes = append(o.Writes, s.ID)
		}
		if p.Discloses(s) != nil {
			o.Discloses = append(o.Discloses, s.ID)
		}
	}
	o.CriticalPath = a.critical()
	o.Expected = a.cost()
	o.Expected.Tokens = x.brings()
	return o
}

// leaders are the ids of what a step waits for, without those that it only follows
// and that another of them waits for too.
func (s *Step) leaders(all []*Step, after []indices) []string {
	behind, follows := newIndices(len(all)), newIndices(len(all))
	for _, i := range s.After {
		behind.addAll(after[i])
	}
	for _, i := range s.Order {
		follows.add(i)
	}
	var ids []string
	for _, i := range s.After {
		if !follows.has(i) || !behind.has(i) {
			ids = append(ids, all[i].ID)
		}
	}
	return ids
}

// afters are, for each step, those it waits for.
func afters(all []*Step) []indices {
	after := make([]indices, len(all))
	for i, s := range all {
		after[i] = newIndices(len(all))
		for _, k := range s.After {
			after[i].add(k)
		}
	}
	return after
}

// foresee is the plan as a Runner would begin it, its optional steps chosen.
func (p *Plan) foresee(l Limits) *execution {
	x := newExecution(&Runner{Limits: l}, p)
	x.pick()
	return x
}

// runs says for each step whether it runs, as things stand.
func (x *execution) runs() []bool {
	runs := make([]bool, len(x.stages))
	for i, g := range x.stages {
		runs[i] = !g.waived()
	}
	return runs
}

// brings is how many tokens are expected to come back.
func (x *execution) brings() int {
	sum := 0
	for _, g := range x.stages {
		if g.output && !g.waived() {
			sum += g.expected()
		}
	}
	if x.plan.Budget > 0 { // without the model's reserve
		sum = min(sum, x.Brings(x.plan.Budget))
	}
	return sum
}

// agenda is when steps that run are expected to.
type agenda struct {
	steps   []*Step // those that run
	tasks   []schedule.Task
	slots   schedule.Slots
	place   map[int]int // step → task
	guessed []string
	line    schedule.Timeline
}

// newAgenda plays the steps that run as the Runner would, if each call took its mean.
func newAgenda(all []*Step, runs []bool, parallel int) *agenda {
	a := &agenda{place: make(map[int]int), slots: schedule.Slots{Total: parallel, Hosts: make(map[string]int)}}
	for _, s := range all {
		if runs[s.Index] {
			a.place[s.Index] = len(a.steps)
			a.steps = append(a.steps, s)
		}
	}
	for _, s := range a.steps {
		t := schedule.Task{After: a.places(s.After), Conflicts: a.places(s.Conflicts)}
		if s.Tool != nil {
			t.Mean, t.P90, t.Host = s.Tool.Mean, s.Tool.P90, s.Tool.Host
			a.slots.Hosts[t.Host] = s.Tool.Capacity
		}
		a.tasks = append(a.tasks, t)
	}
	a.guess()
	a.line = schedule.Simulate(a.tasks, a.lengths(false), a.slots)
	return a
}

// places are the tasks of those steps that run.
func (a *agenda) places(steps []int) []int {
	var tasks []int
	for _, i := range steps {
		if at, runs := a.place[i]; runs {
			tasks = append(tasks, at)
		}
	}
	return tasks
}

// guess puts something in place of times that are not known, as the schedule does.
func (a *agenda) guess() {
	for i, took := range schedule.Expected(a.tasks) {
		t := &a.tasks[i]
		if t.Mean <= 0 && t.P90 <= 0 {
			a.guessed = append(a.guessed, a.steps[i].ID)
		}
		t.Mean, t.P90 = took, max(t.P90, took)
	}
}

// lengths are how long the tasks take; slow: as long as only one of ten does.
func (a *agenda) lengths(slow bool) []time.Duration {
	took := make([]time.Duration, len(a.tasks))
	for i, t := range a.tasks {
		if took[i] = t.Mean; slow {
			took[i] = t.P90
		}
	}
	return took
}

// order is the ids as the steps begin.
func (a *agenda) order() []string {
	tasks := make([]int, len(a.tasks))
	for i := range tasks {
		tasks[i] = i
	}
	slices.SortStableFunc(tasks, func(i, k int) int { return cmp.Compare(a.line.Start[i], a.line.Start[k]) })
	return a.ids(tasks)
}

func (a *agenda) ids(tasks []int) []string {
	ids := []string{}
	for _, i := range tasks {
		ids = append(ids, a.steps[i].ID)
	}
	return ids
}

// span is when a step begins and ends; zero for one that does not run.
func (a *agenda) span(s *Step) (start, end int64) {
	at, runs := a.place[s.Index]
	if !runs {
		return 0, 0
	}
	return a.line.Start[at].Milliseconds(), a.line.End[at].Milliseconds()
}

func (a *agenda) critical() PathOutlook {
	length, chain := schedule.CriticalPath(a.tasks)
	return PathOutlook{a.ids(chain), length.Milliseconds()}
}

func (a *agenda) cost() CostOutlook {
	c := CostOutlook{MS: a.line.Makespan.Milliseconds(), Calls: len(a.tasks), Guessed: a.guessed}
	c.P90 = schedule.Simulate(a.tasks, a.lengths(true), a.slots).Makespan.Milliseconds()
	c.LowerBound = schedule.Bound(a.tasks, a.slots).Milliseconds()
	sum := time.Duration(0)
	for _, took := range a.lengths(false) {
		sum += took
	}
	c.Sequential = sum.Milliseconds()
	return c
}
