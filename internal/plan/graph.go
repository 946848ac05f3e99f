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
	r.orderDomains(newPrecedence(waits))
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
// earlier ones of its domains, and all the later ones wait for it. Only where the
// earlier one waits for the later one anyway, directly or not, is it the other way
// round; so nothing waits for itself, whatever order a plan is written in.
//
// These are more edges than a chain needs. But a step may end without having waited
// for anything, skipped or left out, and what waited for it alone would then overtake
// a write that is under way.
func (r *reading) orderDomains(p precedence) {
	touched := make(map[string][]*draft) // domain → steps of it so far
	for _, d := range r.steps {
		if d.Tool == nil {
			continue
		}
		for _, domain := range slices.Compact(slices.Sorted(slices.Values(d.Tool.Domains))) {
			for _, earlier := range slices.Backward(touched[domain]) { // most of the others follow from the last
				switch {
				case !d.Writes && !earlier.Writes:
				case p.before(d.Index, earlier.Index):
					earlier.Order = append(earlier.Order, d.Index)
				default:
					d.Order = append(d.Order, earlier.Index)
					p.add(earlier.Index, d.Index)
				}
			}
			touched[domain] = append(touched[domain], d)
		}
	}
	for _, d := range r.steps {
		d.Order = slices.DeleteFunc(rising(d.Order), func(i int) bool { return slices.Contains(d.waits, i) })
	}
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
