package plan

import (
	"cmp"
	"math"
	"slices"

	"mcpschedd/internal/schedule"
)

// usualTokens stands for the size of an answer of which nothing is known, so that
// what is unknown is not taken for free.
const usualTokens = 500

// leastValue is what a result is worth at least: one of no known value comes back
// if there is room for it.
const leastValue = 1e-6

// optional is what is decided of a step that may be left out.
type optional struct {
	gate    int  // the task that keeps it from beginning; 0: none, or none any more
	picked  bool // of those whose results come back: it was chosen when that was last decided
	chosen  bool // it runs, as things stand
	lost    bool // it will be skipped whatever is chosen
	priced  bool // it does not for what it costs, or for what the one does that refers to it
	useful  bool // it comes back, or something that does refers to it
	patient bool // no step that must run waits for it, so it may be decided last
	decided bool // whether it runs was decided before the first call: third parties see that
}

// waived reports whether a step is left out, as things stand.
func (g *stage) waived() bool { return g.Optional && !g.chosen }

// excluded reports whether a step was left out before the first call, for good.
func (g *stage) excluded() bool { return g.decided && !g.chosen }

// begun reports whether a step is under way.
func (g *stage) begun() bool { return g.open > 0 || g.items != nil }

// leftOut is why a step is not run for the sake of the budget.
func (g *stage) leftOut() string {
	if g.priced {
		return "left out: budget_tokens"
	}
	return "left out: nothing that comes back needs it"
}

// enqueue makes the queue. An optional step waits for a gate too, a task behind
// one that begins first and never ends: it takes no slot as long as it is open
// whether there is room for it. It is let through by ending its gate.
func (x *execution) enqueue() {
	tasks, slots := x.tasks()
	if x.gated == 0 {
		x.queue = schedule.NewQueue(tasks, slots)
		return
	}
	root := len(tasks)
	start := root + 1 // what all others wait for, so that nothing but the root can be first
	tasks = append(tasks, schedule.Task{}, schedule.Task{After: []int{root}})
	for _, g := range x.stages {
		if g.Optional {
			g.gate = len(tasks)
			tasks[g.Index].After = append(slices.Clone(g.After), g.gate)
			tasks = append(tasks, schedule.Task{After: []int{root}})
		} else if len(g.After) == 0 {
			tasks[g.Index].After = []int{start}
		}
	}
	if slots.Total > 0 {
		slots.Total++ // the root's
	}
	x.queue = schedule.NewQueue(tasks, slots)
	x.queue.Next()
	x.queue.Done(start)
}

// classify finds which optional steps are of use, and which can wait.
func (x *execution) classify() {
	for _, g := range x.stages {
		g.patient = true
	}
	for _, g := range x.stages {
		if g.output {
			x.reach(g, (*stage).sources, (*stage).use)
		}
		if !g.Optional {
			x.reach(g, (*stage).waits, (*stage).hurry)
		}
		if g.Optional {
			x.gated++
		}
	}
}

// decideDisclosing decides, before the first call, which of the optional steps run
// whose calls third parties see. Later the sizes of results would have a say in it, and
// third parties would learn from a call, or from none, how much another step has read.
func (x *execution) decideDisclosing() {
	disclosing := func(g *stage) bool { return g.Optional && g.Tool.discloses() }
	if !slices.ContainsFunc(x.stages, disclosing) {
		return
	}
	x.pick()
	for _, g := range x.stages {
		g.decided = disclosing(g)
	}
}

func (g *stage) sources() []int { return g.Needs }
func (g *stage) waits() []int   { return g.After }

func (g *stage) use() bool {
	if g.useful {
		return false
	}
	g.useful = true
	return true
}

func (g *stage) hurry() bool {
	if !g.patient {
		return false
	}
	g.patient = false
	return true
}

// reach marks a step and all that it leads to; mark is false if the step was
// marked before.
func (x *execution) reach(g *stage, to func(*stage) []int, mark func(*stage) bool) {
	open := []*stage{g}
	for len(open) > 0 {
		g, open = open[len(open)-1], open[:len(open)-1]
		if mark(g) {
			for _, i := range to(g) {
				open = append(open, x.stages[i])
			}
		}
	}
}

// choose decides anew which optional steps run, once a step has ended, and lets
// through those whose turn it is.
func (x *execution) choose() {
	if !x.changed {
		return
	}
	x.changed = false
	if !slices.ContainsFunc(x.stages, x.turn) {
		return
	}
	x.pick()
	for _, g := range x.stages {
		if g.gate > 0 && x.ready(g) && (g.chosen || g.decided || !g.patient || x.doomed(g)) {
			x.pass(g)
		}
	}
}

// turn reports whether nothing but what is chosen keeps an optional step from
// beginning.
func (x *execution) turn(g *stage) bool {
	return g.Optional && !g.done() && !g.begun() && x.ready(g)
}

// leaveOut lets through what nothing can make room for any more: it is skipped. It
// reports whether there was anything.
func (x *execution) leaveOut() bool {
	for _, g := range x.stages {
		if g.gate > 0 && x.ready(g) {
			x.pass(g)
			return true
		}
	}
	return false
}

// ready reports whether all steps that a step waits for have ended.
func (x *execution) ready(g *stage) bool {
	return !slices.ContainsFunc(g.After, func(i int) bool { return !x.stages[i].done() })
}

// doomed reports whether a step will be skipped whatever the budget.
func (x *execution) doomed(g *stage) bool {
	why, _ := x.barred(g)
	return why != ""
}

func (x *execution) pass(g *stage) {
	x.queue.Done(g.gate)
	g.gate = 0
	x.gated--
}

// pick chooses of the optional steps that have not begun, those whose results
// come back for what they are expected to be worth and to cost, and others for
// the sake of who refers to them alone: they bring nothing.
//
// What was picked stays the best choice as long as it has room, and no more than
// when it was picked: steps that could be chosen only become fewer.
func (x *execution) pick() {
	open := x.candidates()
	room := x.room()
	if spare := x.spare(open, room); spare < 0 || spare > x.unused {
		x.selectFrom(open, room)
		x.unused = x.spare(open, room)
	}
	for _, g := range open {
		if g.picked {
			x.reach(g, (*stage).sources, (*stage).choose)
		}
	}
	for _, g := range x.stages {
		runs := !g.Optional && g.useful || g.decided && g.chosen
		if !runs {
			continue
		}
		for _, i := range g.Needs { // of one that is required, each with a default, or it would not be optional
			x.reach(x.stages[i], (*stage).sources, (*stage).choose)
		}
	}
	for _, g := range open {
		if g.output && !g.chosen {
			x.reach(g, (*stage).sources, (*stage).price)
		}
	}
}

// spare is what those that are picked leave of the room.
func (x *execution) spare(open []*stage, room int) int {
	for _, g := range open {
		if g.picked {
			room -= g.expected()
		}
	}
	return room
}

// selectFrom picks anew.
func (x *execution) selectFrom(open []*stage, room int) {
	items, place := make([]schedule.Item, len(open)), make(map[int]int, len(open)) // step → item
	for k, g := range open {
		place[g.Index] = k
		g.picked = false
	}
	for k, g := range open {
		if g.output {
			items[k].Value, items[k].Cost = max(g.Value*g.Probability, leastValue), g.expected()
		}
		for _, i := range g.Needs {
			if n, ok := place[i]; ok {
				items[k].Needs = append(items[k].Needs, n)
			}
		}
	}
	for _, k := range fitting(items, room) {
		open[k].picked = open[k].output
	}
}

// fitting are the items to choose: all of them if there is room.
func fitting(items []schedule.Item, room int) []int {
	all, left := make([]int, len(items)), room
	for k := range items {
		if all[k] = k; items[k].Cost > left {
			return schedule.Select(items, schedule.Limits{Budget: room}).Items
		}
		left -= items[k].Cost
	}
	return all
}

// candidates are the optional steps that have not begun and may still be of use.
func (x *execution) candidates() (open []*stage) {
	lost := false
	for _, g := range x.stages {
		g.lost = false
		if g.done() || g.begun() {
			continue
		}
		why, void := x.barred(g)
		g.lost = why != "" || g.excluded()
		lost = lost || g.lost
		if g.Optional && !g.decided {
			g.chosen = false
			g.priced = g.priced && void // else the reason stands: what kept it from running was left out for its sake
		}
	}
	for lost { // what is certain to be skipped takes those along that cannot do without
		lost = false
		for _, g := range x.stages {
			if !g.lost && !g.done() && !g.begun() && slices.ContainsFunc(g.Needs, func(i int) bool { return g.lostWith(x.stages[i]) }) {
				g.lost, lost = true, true
			}
		}
	}
	for _, g := range x.stages {
		if g.Optional && g.useful && !g.lost && !g.done() && !g.begun() && !g.decided {
			open = append(open, g)
		}
	}
	return open
}

// lostWith reports whether a step is skipped for certain if another one is.
func (g *stage) lostWith(d *stage) bool {
	goesOn := !d.excluded() && (d.OnError == Default || d.OnError == Continue)
	return d.lost && !goesOn && !g.defaults(d)
}

// choose marks a step that runs, and says whether it was not marked before.
func (g *stage) choose() bool {
	if !g.Optional || g.chosen || g.decided {
		return false
	}
	g.chosen = true
	return true
}

// price marks a step that does not run, and says whether it was not marked before.
func (g *stage) price() bool {
	if !g.waived() || g.done() || g.priced {
		return false
	}
	g.priced = true
	return true
}

// room is how many tokens optional steps may still bring: of the budget, without
// the model's reserve, what the results that are there and those of the steps that
// run anyway leave.
func (x *execution) room() int {
	if x.plan.Budget <= 0 {
		return math.MaxInt
	}
	room := x.Brings(x.plan.Budget)
	for _, g := range x.stages {
		switch {
		case !g.output:
		case g.done():
			room -= g.bounded(g.status.Tokens)
		case (!g.Optional || g.begun() || g.decided && g.chosen) && !x.doomed(g):
			room -= g.expected()
		}
	}
	return room
}

// expected is how many tokens a step's result is expected to bring.
func (g *stage) expected() int {
	n := cmp.Or(max(g.Tool.Tokens, 0), usualTokens)
	if g.items != nil {
		n *= len(g.items.all)
	}
	return g.bounded(n)
}

// bounded is how many of a result's tokens come back.
func (g *stage) bounded(tokens int) int {
	if g.MaxTokens > 0 {
		return min(tokens, g.MaxTokens)
	}
	return tokens
}
