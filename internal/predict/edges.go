package predict

import (
	"cmp"
	"maps"
)

const maxEdges = 8192

// edgeName is a trigger and a target. Each edge counts the labels of what it led to; it
// issues once it has had Options.ShadowLabels of them.
type edgeName struct{ trigger, target string }

func compareEdges(a, b edgeName) int {
	return cmp.Or(cmp.Compare(a.trigger, b.trigger), cmp.Compare(a.target, b.target))
}

// edge is the labels of an edge, for adding to them. If there are too many edges, those
// with the fewest labels are forgotten.
func (m *state) edge(n edgeName) *sum {
	e := m.edges[n]
	if e != nil {
		return e
	}
	if len(m.edges) >= maxEdges {
		for few := float32(1); len(m.edges) > maxEdges*3/4; few *= 2 {
			maps.DeleteFunc(m.edges, func(_ edgeName, e *sum) bool { return e.Now <= few })
		}
	}
	e = &sum{}
	m.edges[n] = e
	return e
}

// shadow reports whether an edge has still to prove itself.
func (m *Model) shadow(n edgeName) bool {
	e := m.learned.edges[n]
	return e == nil || int(e.Now) < m.opt.ShadowLabels
}

// Harm notes that a prefetch of a tool did harm: every edge to it is only watched again.
func (m *Model) Harm(tool string) {
	for n, labels := range m.learned.edges {
		if n.target == tool {
			labels.Now = 0
		}
	}
}
