package plan

import (
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/schedule"
)

// mostCycles is how many of them are told of: one is enough to go by.
const mostCycles = 10

// link makes edges of what the steps say of each other.
func (r *reading) link() {
	for _, d := range r.steps {
		for _, s := range d.scope {
			r.refer(d, s)
		}
		d.waits = slices.Clone(d.Needs)
		for _, m := range d.dependsOn {
			if to := r.find(d, m); to == d {
				r.say(d, m.at, "waits for itself")
			} else if to != nil {
				d.waits = append(d.waits, to.Index)
			}
		}
	}
	for _, d := range r.steps {
		d.Needs, d.waits = rising(d.Needs), rising(d.waits)
	}
}

// rising sorts indices and leaves each one in once.
func rising(indices []int) []int {
	slices.Sort(indices)
	return slices.Compact(indices)
}

// order finds what each step waits for, and refuses what could never begin.
func (r *reading) order() {
	waits := make([][]int, len(r.steps))
	for i, d := range r.steps {
		waits[i] = d.waits
	}
	if r.circular(waits) {
		return
	}
	r.orderDomains(waits)
	for _, d := range r.steps {
		d.After = rising(slices.Concat(d.waits, d.Order))
	}
	r.checkDepth(waits)
	r.require()
}

// circular reports whether steps wait for each other in circles, and tells of them.
func (r *reading) circular(after [][]int) bool {
	after = slices.Clone(after)
	for count := range mostCycles {
		circle := schedule.Cycle(after)
		if circle == nil {
			return count > 0
		}
		r.sayCircle(circle)
		for _, i := range circle {
			after[i] = nil
		}
	}
	return true
}

// sayCircle tells of steps each of which waits for the next, and the last for the
// first; from the one on that is first in the plan.
func (r *reading) sayCircle(circle []int) {
	first := slices.Index(circle, slices.Min(circle))
	circle = slices.Concat(circle[first:], circle[:first+1])
	d := r.steps[circle[0]]
	r.say(d, d.at, "cycle: %s, each waits for the next", r.chain(circle))
}

// chain is a path of steps for a message.
func (r *reading) chain(steps []int) string {
	var ids []string
	for _, i := range steps {
		ids = append(ids, cut(r.steps[i].ID, shownName))
	}
	const ends = 10 // shown of a long one, at either end
	if len(ids) > 2*ends+1 {
		ids = slices.Concat(ids[:ends], []string{"…"}, ids[len(ids)-ends:])
	}
	return strings.Join(ids, " -> ")
}

// orderDomains makes steps that touch the same things follow each other as they are
// written wherever one of them may change something: such a step waits for all the
// earlier ones of its domains, and all the later ones wait for it. If a plan is not
// written in an order that its references can be kept in, each step counts as written
// right behind those that it waits for; so nothing waits for itself.
//
// These are more edges than a chain needs. But a step may end without having waited
// for anything, skipped or left out, and what waited for it alone would then overtake
// a write that is under way.
func (r *reading) orderDomains(waits [][]int) {
	place := make([]int, len(r.steps)) // of each step in the order
	for i := range place {
		place[i] = i
	}
	if schedule.Cycle(r.follow(place, waits)) != nil {
		for at, i := range sorted(waits) {
			place[i] = at
		}
	}
	for i, after := range r.follow(place, make([][]int, len(waits))) {
		d := r.steps[i]
		d.Order = slices.DeleteFunc(rising(after), func(k int) bool { return slices.Contains(d.waits, k) })
	}
}

// follow adds to what each step waits for those that it follows in its domains.
func (r *reading) follow(place []int, waits [][]int) [][]int {
	after := make([][]int, len(waits))
	for i, d := range r.steps {
		after[i] = slices.Clone(waits[i])
		for k, to := range r.steps {
			if place[k] < place[i] && d.meets(to) {
				after[i] = append(after[i], k)
			}
		}
	}
	return after
}

// meets reports whether two steps touch the same things, and one may change them.
func (d *draft) meets(to *draft) bool {
	return (d.Writes || to.Writes) && d.Tool != nil && to.Tool != nil &&
		slices.ContainsFunc(d.Tool.Domains, func(domain string) bool { return slices.Contains(to.Tool.Domains, domain) })
}

// sorted are all steps, each behind those that it waits for. There are no cycles.
func sorted(after [][]int) (order []int) {
	seen := make([]bool, len(after))
	var visit func(i int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		for _, k := range after[i] {
			visit(k)
		}
		order = append(order, i)
	}
	for i := range after {
		visit(i)
	}
	return order
}

// checkDepth bounds how many steps feed each other in a row. Those that only keep the
// order of their writes do not count: twenty files can be written one after the other.
func (r *reading) checkDepth(waits [][]int) {
	if r.o.Depth <= 0 {
		return
	}
	tasks := make([]schedule.Task, len(waits))
	for i := range tasks {
		tasks[i] = schedule.Task{After: waits[i], Mean: time.Second}
	}
	_, chain := schedule.CriticalPath(tasks)
	if len(chain) > r.o.Depth {
		last := r.steps[chain[len(chain)-1]]
		r.say(last, last.at, "%d steps in a row: a plan may have %d ([plan].max_depth): %s", len(chain), r.o.Depth, r.chain(chain))
	}
}

// require makes a step that is optional a required one where a required step cannot
// do without its result.
func (r *reading) require() {
	var required []*draft
	for _, d := range r.steps {
		if !d.Optional {
			required = append(required, d)
		}
	}
	for len(required) > 0 {
		d := required[len(required)-1]
		required = required[:len(required)-1]
		for _, i := range d.must {
			if to := r.steps[i]; to.Optional {
				to.Optional = false
				required = append(required, to)
			}
		}
	}
}
