package tune

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"mcpschedd/internal/valuemodel"
)

// edge is a way in which calls were made: after the trigger came the tool, with each
// argument from where its binding says.
type edge struct {
	words   string // all that follows, as one text
	trigger string
	tool    string
	args    map[string]valuemodel.Binding

	support  int // calls that it explains
	sessions int // of how many sessions
	last     int // of those: the last one
	cases    []trial
}

// wordsOf names an edge.
func wordsOf(trigger, tool string, names []string, ways []way) string {
	var b strings.Builder
	b.WriteString(trigger + "\x00" + tool)
	for i, name := range names {
		b.WriteString("\x00" + name + "\x00" + ways[i].text)
	}
	return b.String()
}

// hold keeps sessions to be mined together: one session by itself tells what follows
// from nothing. When there is no room for more, those that are there are mined.
func (m *Miner) hold(sessions []session) {
	for _, s := range sessions {
		for i := range s.steps {
			m.heldBytes += int64(len(s.steps[i].text) + len(s.steps[i].args) + heldStep)
		}
		m.held = append(m.held, s)
	}
	if m.heldBytes > m.o.Bytes/4 {
		m.follow()
	}
}

const heldStep = 256 // bytes of a step beside its texts

// follow mines the follow-ups of the sessions that are held: what is read off some is
// tried on all.
func (m *Miner) follow() {
	sessions := m.held
	m.held, m.heldBytes = nil, 0
	slices.SortStableFunc(sessions, func(a, b session) int { return cmp.Compare(a.id, b.id) })
	aside := m.aside(sessions)
	x := newExplainer(sessions, m.o.Secret)
	for i, s := range sessions {
		x.session(i, s.steps, aside[i])
		m.succeed(s.steps)
	}
	by := m.worthTrying(x.edges)
	for i, s := range sessions {
		m.try(m.mined+i, s, by, aside[i])
	}
	m.mined += len(sessions)
}

// aside says for each session what is not read off it: of which tools its calls are
// only there to try follow-ups on. For each tool these are the sessions of every third
// id, in the order of the ids, which are as good as random: in whatever order the
// sessions were read and however they were grouped, both parts have some of each tool.
func (m *Miner) aside(sessions []session) []map[string]bool {
	out := make([]map[string]bool, len(sessions))
	last := make(map[string]uint64)
	for i, s := range sessions {
		out[i] = make(map[string]bool)
		for k := range s.steps {
			tool := s.steps[k].tool
			if _, known := out[i][tool]; known || s.steps[k].failed {
				continue
			}
			if id, known := last[tool]; !known || id != s.id { // parts of one session stay together
				last[tool] = s.id
				m.split[tool]++
			}
			out[i][tool] = m.split[tool]%3 == 0
		}
	}
	return out
}

const (
	leastSupport = 3  // calls that an edge explains before it is tried
	mostTried    = 24 // edges between two tools
)

// worthTrying are the best supported edges, and those that were found before, by
// trigger. They are remembered.
func (m *Miner) worthTrying(found map[string]*edge) map[string][]*edge {
	pairs := make(map[[2]string][]*edge)
	for _, words := range slices.Sorted(maps.Keys(found)) {
		if e := found[words]; e.support >= leastSupport && e.sessions > 1 {
			key := [2]string{e.trigger, e.tool}
			pairs[key] = append(pairs[key], e)
		}
	}
	for _, pair := range pairs {
		slices.SortStableFunc(pair, func(a, b *edge) int { return b.support - a.support })
		for _, e := range pair[:min(len(pair), mostTried)] {
			if m.edges[e.words] == nil && len(m.edges) < mostEdges {
				m.edges[e.words] = e
			}
		}
	}
	by := make(map[string][]*edge)
	for _, e := range m.edges {
		by[e.trigger] = append(by[e.trigger], e)
	}
	for _, all := range by {
		slices.SortFunc(all, func(a, b *edge) int { return strings.Compare(a.words, b.words) })
	}
	return by
}
