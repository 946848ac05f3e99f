package plan

import (
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schedule"
)

// mostCycles is how many of them are told of: one is enough to go by.
const mostCycles = 10

// graph is what the steps of a plan wait for.
type graph struct {
	steps []*draft
	waits [][]int // step → those that must have ended: what it refers to and depends_on, rising
	must  [][]int // step → those whose results it cannot do without
}

// link makes edges of what the steps say of each other.
func link(src *source) *graph {
	n := len(src.drafts)
	g := &graph{steps: src.drafts, waits: make([][]int, n), must: make([][]int, n)}
	for i, d := range g.steps {
		for _, s := range d.scopes {
			d.step.refs = append(d.step.refs, s.ref)
			if to := src.target(d, s); to != nil {
				d.step.Needs = append(d.step.Needs, to.step.Index)
				if s.ref.Default == nil {
					g.must[i] = append(g.must[i], to.step.Index)
				}
			}
		}
		g.waits[i] = slices.Clone(d.step.Needs)
		for _, m := range d.dependsOn {
			if to := src.find(m); to == d {
				m.say("waits for itself")
			} else if to != nil {
				g.waits[i] = append(g.waits[i], to.step.Index)
			}
		}
		d.step.Needs, g.waits[i] = rising(d.step.Needs), rising(g.waits[i])
	}
	return g
}

// target is the step that a reference leads to; nil if it leads to none, which is a defect
// unless it is to a parameter or an item.
func (src *source) target(d *draft, s scope) *draft {
	ref, at := s.ref, d.place.at(s.ref.At)
	switch {
	case ref.Step == params && src.options.Params != nil:
		src.checkParam(s, at)
	case d.loops && s.item && ref.Step == index && ref.Pointer != "":
		at.say(`"index" is a number: there is nothing at %s in it`, ref.Pointer)
	case d.loops && s.item && (ref.Step == item || ref.Step == index):
	case ref.Step == d.step.ID:
		at.say("refers to itself")
	case src.byID[ref.Step] != nil:
		return src.byID[ref.Step]
	case ref.Step == params:
		at.say("there are no parameters: only a named plan has them")
	case ref.Step == item || ref.Step == index:
		at.say("%s means something only in the arguments of a step with for_each", quoted(ref.Step))
	default:
		src.find(mention{at, ref.Step})
	}
	return nil
}

// checkParam looks a parameter up. All that a plan has are there; one that is null
// may stand for any value that is not known yet, and so may what is in it.
func (src *source) checkParam(s scope, at place) {
	path := slices.Collect(jsonrpc.PointerTokens(s.ref.Pointer))
	if len(path) == 0 || s.ref.Default != nil {
		return
	}
	all := trimmed(src.options.Params)
	name := jsonrpc.PointerToken(path[0])
	value := jsonrpc.At(all, s.ref.Pointer)
	switch whole := jsonrpc.Get(all, path[0]); {
	case whole == nil:
		at.say("unknown parameter %s%s", quoted(path[0]), src.meant(path[0], newNames(slices.Collect(jsonrpc.Names(all)))))
	case string(whole) == "null" || slices.Contains(path, "*"):
	case value == nil && !s.ref.Null:
		at.say("there is nothing at %s in the parameter %s", s.ref.Pointer[len("/")+len(name):], quoted(path[0]))
	case s.loop && value != nil && value[0] != '[':
		at.say("want an array, the parameter is %s", kindOf(value))
	}
}

// rising sorts indices and leaves each one in once.
func rising(indices []int) []int {
	slices.Sort(indices)
	return slices.Compact(indices)
}

// order finds what each step waits for, and refuses what could never begin.
func (g *graph) order(depth int) {
	if g.circular() {
		return
	}
	g.orderDomains()
	for i, d := range g.steps {
		d.step.After = rising(slices.Concat(g.waits[i], d.step.Order))
	}
	g.checkDepth(depth)
	g.require()
}

// circular reports whether steps wait for each other in circles, and tells of them.
func (g *graph) circular() bool {
	after := slices.Clone(g.waits)
	for count := range mostCycles {
		circle := schedule.Cycle(after)
		if circle == nil {
			return count > 0
		}
		g.sayCircle(circle)
		for _, i := range circle {
			after[i] = nil
		}
	}
	return true
}

// sayCircle tells of steps each of which waits for the next, and the last for the
// first; from the one on that is first in the plan.
func (g *graph) sayCircle(circle []int) {
	first := slices.Index(circle, slices.Min(circle))
	circle = slices.Concat(circle[first:], circle[:first+1])
	g.steps[circle[0]].place.say("cycle: %s, each waits for the next", g.chain(circle))
}

// chain is a path of steps for a message.
func (g *graph) chain(steps []int) string {
	var ids []string
	for _, i := range steps {
		ids = append(ids, excerpt.Shorten(g.steps[i].step.ID, shownName))
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
func (g *graph) orderDomains() {
	place := make([]int, len(g.steps)) // of each step in the order
	for i := range place {
		place[i] = i
	}
	if schedule.Cycle(g.follow(place, g.waits)) != nil {
		for at, i := range sorted(g.waits) {
			place[i] = at
		}
	}
	for i, after := range g.follow(place, make([][]int, len(g.steps))) {
		g.steps[i].step.Order = slices.DeleteFunc(rising(after), func(k int) bool { return slices.Contains(g.waits[i], k) })
	}
}

// follow adds to what each step waits for those that it follows in its domains.
func (g *graph) follow(place []int, waits [][]int) [][]int {
	after := make([][]int, len(waits))
	for i, d := range g.steps {
		after[i] = slices.Clone(waits[i])
		for k, to := range g.steps {
			if place[k] < place[i] && d.meets(to) {
				after[i] = append(after[i], k)
			}
		}
	}
	return after
}

// meets reports whether two steps touch the same things, and one may change them.
func (d *draft) meets(to *draft) bool {
	return (d.step.Writes || to.step.Writes) && d.step.Tool != nil && to.step.Tool != nil &&
		slices.ContainsFunc(d.step.Tool.Domains, func(domain string) bool { return slices.Contains(to.step.Tool.Domains, domain) })
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
func (g *graph) checkDepth(most int) {
	if most <= 0 || most >= len(g.steps) {
		return
	}
	tasks := make([]schedule.Task, len(g.steps))
	for i := range tasks {
		tasks[i] = schedule.Task{After: g.waits[i], Mean: time.Second}
	}
	if _, chain := schedule.CriticalPath(tasks); len(chain) > most {
		last := g.steps[chain[len(chain)-1]]
		last.place.say("%d steps in a row: a plan may have %d ([plan].max_depth): %s", len(chain), most, g.chain(chain))
	}
}

// require makes a step that is optional a required one where a required step cannot
// do without its result.
func (g *graph) require() {
	var required []*draft
	for _, d := range g.steps {
		if !d.step.Optional {
			required = append(required, d)
		}
	}
	for len(required) > 0 {
		d := required[len(required)-1]
		required = required[:len(required)-1]
		for _, i := range g.must[d.step.Index] {
			if to := g.steps[i]; to.step.Optional {
				to.step.Optional = false
				required = append(required, to)
			}
		}
	}
}
