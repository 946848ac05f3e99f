package record

import (
	"cmp"
	"slices"
)

// Bounds of the graph.
const (
	maxPairs        = 4096
	maxToolsPerTurn = 16 // distinct tools of one turn that are counted
	maxFollowUps    = 60 // shown
)

// graph counts which tool is called after which. Each tool of a turn follows each tool of the
// previous turn of the session once, however often either was called; where turns are not
// known, each call is a turn. Steps of plans are not counted: the model fixed their order
// before the first was answered. Neither is a call that is answered after a call of a later turn.
type graph struct {
	pairs map[pairKey]*pair
}

type pairKey struct{ from, to *toolSums }

type pair struct{ n, issued, used int64 }

// addCall counts a call.
func (g *graph) addCall(s *session, turn int, tool *toolSums) {
	o := s.open
	if o == nil || turn > 0 && turn < o.turn {
		return
	}
	if turn <= 0 || turn != o.turn {
		o.current, o.previous = o.previous[:0], o.current
	}
	o.turn = max(turn, 0)
	if len(o.current) == 0 {
		for _, from := range o.previous {
			from.followed++
		}
	}
	if len(o.current) >= maxToolsPerTurn || slices.Contains(o.current, tool) {
		return
	}
	o.current = append(o.current, tool)
	for _, from := range o.previous {
		if p := g.pair(from, tool); p != nil {
			p.n++
		}
	}
}

// pair returns the counts of a pair of tools, or nil if the pair or one of its tools is beyond
// the bound.
func (g *graph) pair(from, to *toolSums) *pair {
	key := pairKey{from, to}
	if p, ok := g.pairs[key]; ok {
		return p
	}
	if len(g.pairs) >= maxPairs || from.name == other || to.name == other {
		return nil
	}
	p := new(pair)
	g.pairs[key] = p
	return p
}

// addPrefetch counts a prefetch of a tool after a call of another, which is nil if not known.
func (g *graph) addPrefetch(from, to *toolSums, used bool) {
	if from == nil {
		return
	}
	if p := g.pair(from, to); p != nil {
		p.issued++
		p.used += boolToInt(used)
	}
}

// mostFrequent returns the most frequent pairs, at most maxFollowUps.
func (g *graph) mostFrequent() []FollowUp {
	all := make([]FollowUp, 0, len(g.pairs))
	for key, p := range g.pairs {
		all = append(all, FollowUp{
			From: key.from.name, To: key.to.name, N: p.n, P: ratio(p.n, key.from.followed),
			Issued: p.issued, Used: p.used, Accuracy: ratio(p.used, p.issued),
		})
	}
	slices.SortFunc(all, func(a, b FollowUp) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(b.Issued, a.Issued), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return all[:min(len(all), maxFollowUps)]
}
