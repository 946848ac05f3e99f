package plan

import (
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schedule"
)

// maxCycles is the maximum number of reported cycles.
const maxCycles = 10

// graph has the dependencies between the steps of a plan.
type graph struct {
	steps    []*draft
	waits    [][]int // step → steps that must have ended: its references and depends_on, sorted
	requires [][]int // step → steps whose results it requires
}

// link builds the graph from the references and depends_on of the steps.
func link(src *source) *graph {
	n := len(src.drafts)
	g := &graph{steps: src.drafts, waits: make([][]int, n), requires: make([][]int, n)}
	for i, d := range g.steps {
		for _, s := range d.scopes {
			d.step.refs = append(d.step.refs, s.ref)
			if to := src.target(d, s); to != nil {
				d.step.Needs = append(d.step.Needs, to.step.Index)
				if s.ref.Default == nil {
					g.requires[i] = append(g.requires[i], to.step.Index)
				}
			}
		}
		g.waits[i] = slices.Clone(d.step.Needs)
		for _, m := range d.dependsOn {
			if to := src.find(m); to == d {
				m.errorf("waits for itself")
			} else if to != nil {
				g.waits[i] = append(g.waits[i], to.step.Index)
			}
		}
		d.step.Needs, g.waits[i] = sortedSet(d.step.Needs), sortedSet(g.waits[i])
	}
	return g
}

// target returns the step that a reference refers to, or nil. An unknown name is a defect unless
// it is a parameter or an item.
func (src *source) target(d *draft, s scope) *draft {
	ref, at := s.ref, d.place.at(s.ref.At)
	switch {
	case ref.Step == params && src.options.Params != nil:
		src.checkParam(s, at)
	case d.loops && s.item && ref.Step == index && ref.Pointer != "":
		at.errorf(`"index" is a number: there is nothing at %s in it`, ref.Pointer)
	case d.loops && s.item && (ref.Step == item || ref.Step == index):
	case ref.Step == d.step.ID:
		at.errorf("refers to itself")
	case src.byID[ref.Step] != nil:
		return src.byID[ref.Step]
	case ref.Step == params:
		at.errorf("there are no parameters: only a named plan has them")
	case ref.Step == item || ref.Step == index:
		at.errorf("%s is defined only in the arguments of a step with for_each", quoted(ref.Step))
	default:
		src.find(mention{at, ref.Step})
	}
	return nil
}

// checkParam checks a reference to a parameter. All parameters of the plan are in Options.Params;
// a null one has an unknown value, in which any path may exist.
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
		at.errorf("unknown parameter %s%s", quoted(path[0]), src.suggest(path[0], newNames(slices.Collect(jsonrpc.Names(all)))))
	case string(whole) == "null" || slices.Contains(path, "*"):
	case value == nil && !s.ref.Null:
		at.errorf("there is nothing at %s in the parameter %s", s.ref.Pointer[len("/")+len(name):], quoted(path[0]))
	case s.loop && value != nil && value[0] != '[':
		at.errorf("want an array, the parameter is %s", kindOf(value))
	}
}

// sortedSet sorts indices and removes duplicates.
func sortedSet(indices []int) []int {
	slices.Sort(indices)
	return slices.Compact(indices)
}

// order computes After and Order of each step, and reports cycles and excessive depth.
func (g *graph) order(depth int) {
	if g.reportCycles() {
		return
	}
	g.orderDomains()
	for i, d := range g.steps {
		d.step.After = sortedSet(slices.Concat(g.waits[i], d.step.Order))
	}
	g.checkDepth(depth)
	g.makeRequired()
}

// reportCycles reports cycles as defects, and returns whether there are any.
func (g *graph) reportCycles() bool {
	after := slices.Clone(g.waits)
	for count := range maxCycles {
		cycle := schedule.Cycle(after)
		if cycle == nil {
			return count > 0
		}
		g.reportCycle(cycle)
		for _, i := range cycle {
			after[i] = nil
		}
	}
	return true
}

// reportCycle reports one cycle, starting with the step that is first in the plan.
func (g *graph) reportCycle(cycle []int) {
	first := slices.Index(cycle, slices.Min(cycle))
	cycle = slices.Concat(cycle[first:], cycle[:first+1])
	g.steps[cycle[0]].place.errorf("cycle: %s, each waits for the next", g.chain(cycle))
}

// chain formats a path of steps for a message.
func (g *graph) chain(steps []int) string {
	var ids []string
	for _, i := range steps {
		ids = append(ids, excerpt.Shorten(g.steps[i].step.ID, maxShownName))
	}
	const ends = 10 // steps shown at either end of a long path
	if len(ids) > 2*ends+1 {
		ids = slices.Concat(ids[:ends], []string{"…"}, ids[len(ids)-ends:])
	}
	return strings.Join(ids, " -> ")
}

// orderDomains orders steps that share a domain as written, if one of them may write: a write
// waits for all earlier steps of its domains, and all later ones wait for the write. If the
// written order contradicts the references, each step is placed directly after its dependencies,
// so that no cycle arises.
//
// A chain would need fewer edges. But a step may end at once because it is skipped or excluded,
// and then a step that waits for it alone would overtake a write in flight.
func (g *graph) orderDomains() {
	place := make([]int, len(g.steps)) // step → position in the order
	for i := range place {
		place[i] = i
	}
	if schedule.Cycle(g.addDomainOrder(place, g.waits)) != nil {
		for at, i := range topoSort(g.waits) {
			place[i] = at
		}
	}
	for i, after := range g.addDomainOrder(place, make([][]int, len(g.steps))) {
		g.steps[i].step.Order = slices.DeleteFunc(sortedSet(after), func(k int) bool { return slices.Contains(g.waits[i], k) })
	}
}

// addDomainOrder adds to each step's dependencies the earlier steps that conflict with it.
func (g *graph) addDomainOrder(place []int, waits [][]int) [][]int {
	after := make([][]int, len(waits))
	for i, d := range g.steps {
		after[i] = slices.Clone(waits[i])
		for k, to := range g.steps {
			if place[k] < place[i] && d.conflicts(to) {
				after[i] = append(after[i], k)
			}
		}
	}
	return after
}

// conflicts reports whether two steps share a domain and one of them may write.
func (d *draft) conflicts(to *draft) bool {
	return (d.step.Writes || to.step.Writes) && d.step.Tool != nil && to.step.Tool != nil &&
		slices.ContainsFunc(d.step.Tool.Domains, func(domain string) bool { return slices.Contains(to.step.Tool.Domains, domain) })
}

// topoSort returns all steps in topological order. There must be no cycles.
func topoSort(after [][]int) (order []int) {
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

// checkDepth limits the length of dependency chains. Steps that only keep the order of writes do
// not count: twenty files may be written one after the other.
func (g *graph) checkDepth(limit int) {
	if limit <= 0 || limit >= len(g.steps) {
		return
	}
	tasks := make([]schedule.Task, len(g.steps))
	for i := range tasks {
		tasks[i] = schedule.Task{After: g.waits[i], Mean: time.Second}
	}
	if _, chain := schedule.CriticalPath(tasks); len(chain) > limit {
		last := g.steps[chain[len(chain)-1]]
		last.place.errorf("%d steps in a row: a plan may have %d ([plan].max_depth): %s", len(chain), limit, g.chain(chain))
	}
}

// makeRequired makes an optional step required if a required step needs its result.
func (g *graph) makeRequired() {
	var required []*draft
	for _, d := range g.steps {
		if !d.step.Optional {
			required = append(required, d)
		}
	}
	for len(required) > 0 {
		d := required[len(required)-1]
		required = required[:len(required)-1]
		for _, i := range g.requires[d.step.Index] {
			if to := g.steps[i]; to.step.Optional {
				to.step.Optional = false
				required = append(required, to)
			}
		}
	}
}
