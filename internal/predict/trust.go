package predict

import (
	"cmp"
	"maps"
	"slices"
)

// edgeName is a trigger and a target.
type edgeName struct{ trigger, target string }

// edge is how far a follow-up is trusted.
type trust struct {
	labels sum // since it began, or was put back
}

// edge is how far a follow-up is trusted, for adding to it.
func (m *Learner) edge(n edgeName) *trust {
	e := m.edges[n]
	if e == nil {
		if len(m.edges) >= maxEdges {
			m.evictEdges()
		}
		e = &trust{}
		m.edges[n] = e
	}
	return e
}

// evictEdges forgets the quarter with the fewest labels: they are the nearest to
// where a new one begins.
func (m *Learner) evictEdges() {
	all := m.sortedEdges()
	slices.SortStableFunc(all, func(a, b edgeName) int { return cmp.Compare(m.edges[a].labels.now, m.edges[b].labels.now) })
	for _, n := range all[:len(all)/4] {
		delete(m.edges, n)
	}
}

func (m *Learner) sortedEdges() []edgeName {
	return slices.SortedFunc(maps.Keys(m.edges), func(a, b edgeName) int {
		return cmp.Or(cmp.Compare(a.trigger, b.trigger), cmp.Compare(a.target, b.target))
	})
}

// shadow reports whether an edge has still to prove itself.
func (m *Learner) shadow(n edgeName) bool {
	e := m.edges[n]
	return e == nil || int(e.labels.now) < m.opt.ShadowLabels
}

func (e *trust) label(m *Learner, n edgeName) {
	e.labels.now++
	if int(e.labels.now) == m.opt.ShadowLabels {
		m.note(n, "issues")
	}
}

// demote puts an edge back into shadow.
func (m *Learner) demote(n edgeName, why string) {
	e := m.edge(n)
	e.labels.now = 0
	m.note(n, why)
}

// Harm puts every edge to a tool back into shadow.
func (m *Learner) Harm(tool string) {
	for _, n := range m.sortedEdges() {
		if n.target == tool {
			m.demote(n, "harm")
		}
	}
}

// Change is a step of an edge from shadow to issuing or back, or the bar of a tool.
type Change struct {
	Trigger string // "" if the target is barred whatever comes before it
	Target  string
	Why     string // "issues" or "harm"; why it is barred
}

const (
	maxChanges = 256
	maxEdges   = 8192
)

func (m *Learner) note(n edgeName, why string) {
	m.stats.Changes++
	if len(m.changes) < maxChanges {
		m.changes = append(m.changes, Change{n.trigger, n.target, why})
	}
}

// Changes returns the changes since it was last asked.
func (m *Learner) Changes() []Change {
	c := m.changes
	m.changes = nil
	return c
}
