package tune

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcpschedd/internal/valuemodel"
)

// succession is how often calls of one tool came right after those of another.
type succession struct{ n, sessions int }

// succeed counts which calls, of those that may be guessed at, came in the turn after
// which others.
func (m *Miner) succeed(s []step) {
	met := make(map[[2]string]bool)
	for i := range s {
		t := &s[i]
		if !t.target || t.repeat || t.failed {
			continue
		}
		before := make(map[string]bool)
		for k := i - 1; k >= 0 && s[k].turn >= t.turn-1; k-- {
			if e := &s[k]; e.turn == t.turn-1 && !e.failed && !before[e.tool] && upstreamOf(e.tool) == upstreamOf(t.tool) {
				before[e.tool] = true
				m.succeeds([2]string{e.tool, t.tool}, met)
			}
		}
	}
}

func (m *Miner) succeeds(pair [2]string, met map[[2]string]bool) {
	f := m.follows[pair]
	if f == nil {
		if len(m.follows) >= mostEdges {
			return
		}
		f = &succession{}
		m.follows[pair] = f
	}
	f.n++
	if !met[pair] {
		met[pair] = true
		f.sessions++
	}
}

const (
	leastFrequent = 10 // times that a tool came after another, for it to be said why nothing is proposed
	mostFrequent  = 12 // pairs of which it is said
)

// silences say for each two tools that often come one after the other, and of which
// nothing is proposed or configured, why not.
func (m *Miner) silences(blocks map[string][]Line, why map[[2]string]string) (notes []string) {
	pairs := slices.SortedFunc(maps.Keys(m.follows), func(a, b [2]string) int {
		return cmp.Or(m.follows[b].n-m.follows[a].n, cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	var unread []string
	more := 0
	for _, p := range pairs {
		if m.follows[p].n < leastFrequent || m.groundless(p[0]) || m.groundless(p[1]) || m.followed(p, blocks[p[0]]) {
			continue
		}
		reason, tried := why[p]
		switch {
		case !tried:
			unread = append(unread, fmt.Sprintf("%s to %s (%d)", p[0], p[1], m.follows[p].n))
		case reason == "": // it is configured
		case len(notes) >= mostFrequent:
			more++
		default:
			notes = append(notes, fmt.Sprintf("no follow-up from %s to %s, which came right after it %d times: %s", p[0], p[1], m.follows[p].n, reason))
		}
	}
	if more > 0 {
		notes = append(notes, fmt.Sprintf("nor are there any between %d other pairs of tools, which came less often", more))
	}
	if len(unread) > 0 {
		notes = append(notes, fmt.Sprintf("no follow-up, as the arguments were not found in the call before or in its answer, in the same way %d times in 2 sessions: %s", leastSupport, firstOf(unread)))
	}
	return notes
}

// followed reports whether one tool's follow-ups, configured or proposed, lead to calls
// of the other. One without arguments only says how often it follows.
func (m *Miner) followed(pair [2]string, proposed []Line) bool {
	return slices.ContainsFunc(m.model(pair[0]).FollowUps, func(f valuemodel.FollowUp) bool { return len(f.Args) > 0 && bare(f.Tool) == bare(pair[1]) }) ||
		slices.ContainsFunc(proposed, func(l Line) bool {
			return l.Key == "follow_up" && strings.HasPrefix(l.Value, "{ tool = "+quoted(bare(pair[1]))+",")
		})
}
