package tune

import (
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
func (m *Miner) hold(sessions [][]step) {
	for _, s := range sessions {
		for i := range s {
			m.heldBytes += int64(len(s[i].text) + len(s[i].args) + heldStep)
		}
		m.held = append(m.held, s)
	}
	if m.heldBytes > m.o.Bytes/4 {
		m.follow()
	}
}

const heldStep = 256 // bytes of a step beside its texts

// follow mines the follow-ups of the sessions that are held: what is read off the
// first two thirds is tried on all.
func (m *Miner) follow() {
	sessions := m.held
	m.held, m.heldBytes = nil, 0
	learn := sessions[:(2*len(sessions)+2)/3]
	x := newExplainer(learn)
	for i, s := range learn {
		x.session(i, s)
	}
	by := m.worthTrying(x.edges)
	for i, s := range sessions {
		m.try(m.mined+i, s, by, i >= len(learn))
	}
	m.mined += len(sessions)
}

const (
	leastSupport = 3  // calls that an edge explains before it is tried
	mostTried    = 24 // edges between two tools
)

// worthTrying are the best supported edges, by trigger. They are remembered.
func (m *Miner) worthTrying(found map[string]*edge) map[string][]*edge {
	pairs := make(map[[2]string][]*edge)
	for _, words := range slices.Sorted(maps.Keys(found)) {
		if e := found[words]; e.support >= leastSupport && e.sessions > 1 {
			key := [2]string{e.trigger, e.tool}
			pairs[key] = append(pairs[key], e)
		}
	}
	by := make(map[string][]*edge)
	for _, pair := range pairs {
		slices.SortStableFunc(pair, func(a, b *edge) int { return b.support - a.support })
		for _, e := range pair[:min(len(pair), mostTried)] {
			if known := m.edges[e.words]; known != nil {
				e = known
			}
			m.edges[e.words] = e
			by[e.trigger] = append(by[e.trigger], e)
		}
	}
	for _, all := range by {
		slices.SortFunc(all, func(a, b *edge) int { return strings.Compare(a.words, b.words) })
	}
	return by
}
