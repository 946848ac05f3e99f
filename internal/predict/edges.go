package predict

import (
	"cmp"
	"maps"
	"slices"
)

const (
	maxEdges   = 8192
	maxChanges = 256
)

// edgeName is a trigger and a target. Each edge counts the labels of what it led to; it
// issues once it has had Options.ShadowLabels of them.
type edgeName struct{ trigger, target string }

func compareEdges(a, b edgeName) int {
	return cmp.Or(cmp.Compare(a.trigger, b.trigger), cmp.Compare(a.target, b.target))
}

// edge is the labels of an edge, for adding to them. If there are too many edges, the
// quarter with the fewest labels is forgotten.
func (m *state) edge(n edgeName) *sum {
	e := m.edges[n]
	if e != nil {
		return e
	}
	if len(m.edges) >= maxEdges {
		all := slices.SortedFunc(maps.Keys(m.edges), func(a, b edgeName) int {
			return cmp.Or(cmp.Compare(m.edges[a].now, m.edges[b].now), compareEdges(a, b))
		})
		for _, n := range all[:len(all)/4] {
			delete(m.edges, n)
		}
	}
	e = &sum{}
	m.edges[n] = e
	return e
}

// shadow reports whether an edge has still to prove itself.
func (m *Model) shadow(n edgeName) bool {
	e := m.learned.edges[n]
	return e == nil || int(e.now) < m.opt.ShadowLabels
}

// count counts a label of an edge.
func (m *Model) count(n edgeName) {
	e := m.learned.edge(n)
	e.now++
	if int(e.now) == m.opt.ShadowLabels {
		m.note(n, "issues")
	}
}

// Harm notes that a prefetch of a tool did harm: every edge to it is only watched again.
func (m *Model) Harm(tool string) {
	for _, n := range slices.SortedFunc(maps.Keys(m.learned.edges), compareEdges) {
		if n.target == tool {
			m.learned.edges[n].now = 0
			m.note(n, "harm")
		}
	}
}

// Change is a step of an edge from shadow to issuing or back, or the bar of a tool.
type Change struct {
	Trigger string // "" if the target is barred whatever comes before it
	Target  string
	Why     string // "issues" or "harm"; why it is barred
}

func (m *Model) note(n edgeName, why string) {
	if len(m.changes) < maxChanges {
		m.changes = append(m.changes, Change{n.trigger, n.target, why})
	}
}

// Changes returns what became trusted or ceased to be since it was last asked.
func (m *Model) Changes() []Change {
	c := m.changes
	m.changes = nil
	return c
}
