package plan

import (
	"slices"
	"strings"

	"mcpschedd/internal/schedule"
)

// order computes OrderAfter of each step, and reports cycles and excessive depth.
//
// Of two steps that share a domain, of which one may write, the later one follows the earlier one,
// unless the earlier one must follow the later one anyway. OrderAfter has all steps that a step
// follows for this reason, not only the last of them: the last may be skipped, and then it ends at
// once, while a write before it is still in flight.
func (p *parser) order() {
	steps := p.plan.Steps
	after := make([][]int, len(steps))
	for i, s := range steps {
		after[i] = s.Waits
	}
	if cycle := schedule.Cycle(after); cycle != nil {
		first := slices.Index(cycle, slices.Min(cycle)) // in the plan
		cycle = slices.Concat(cycle[first:], cycle[:first+1])
		p.at(steps[cycle[0]]).errorf("cycle: %s, each waits for the next", strings.Join(p.plan.ids(cycle), " -> "))
		return
	}
	follows := p.closure()
	for k, s := range steps {
		for i := k - 1; i >= 0; i-- {
			if !s.conflicts(steps[i]) {
				continue
			}
			first, then := i, k
			if follows[i][k] {
				first, then = k, i
			}
			if !slices.Contains(steps[then].Waits, first) {
				steps[then].OrderAfter = append(steps[then].OrderAfter, first)
			}
			if follows[then][first] {
				continue
			}
			for x := range steps {
				if x == then || follows[x][then] {
					follows[x][first] = true
					union(follows[x], follows[first])
				}
			}
		}
	}
	for _, s := range steps {
		slices.Sort(s.OrderAfter)
	}
}

// closure returns for each step which steps it follows, directly or not, and checks the depth.
// Steps that only keep the order of writes do not count as depth: twenty files may be written one
// after the other.
func (p *parser) closure() [][]bool {
	steps := p.plan.Steps
	follows, depth := make([][]bool, len(steps)), make([]int, len(steps))
	var visit func(i int)
	visit = func(i int) {
		if follows[i] != nil {
			return
		}
		follows[i], depth[i] = make([]bool, len(steps)), 1
		for _, k := range steps[i].Waits {
			visit(k)
			follows[i][k] = true
			union(follows[i], follows[k])
			depth[i] = max(depth[i], depth[k]+1)
		}
	}
	deepest := 0
	for i := range steps {
		if visit(i); depth[i] > depth[deepest] {
			deepest = i
		}
	}
	if limit := p.options.Depth; len(steps) > 0 && depth[deepest] > limit {
		p.at(steps[deepest]).errorf("%d steps in a row: a plan may have %d ([plan].max_depth)", depth[deepest], limit)
	}
	return follows
}

// union adds the members of a set to another.
func union(to, from []bool) {
	for i, in := range from {
		to[i] = to[i] || in
	}
}

// conflicts reports whether two steps share a domain and one of them may write.
func (s *Step) conflicts(to *Step) bool {
	return (s.Writes || to.Writes) && s.Tool != nil && to.Tool != nil &&
		slices.ContainsFunc(s.Tool.Domains, func(domain string) bool { return slices.Contains(to.Tool.Domains, domain) })
}

// ids returns the ids of steps.
func (p *Plan) ids(steps []int) (ids []string) {
	for _, i := range steps {
		ids = append(ids, p.Steps[i].ID)
	}
	return ids
}
