package record

import (
	"cmp"
	"slices"
)

// The bounds of the graph.
const (
	mostPairs    = 4096
	mostTogether = 16 // tools called in one turn that are told apart
	mostFollows  = 60 // shown
)

// graph says which tool is called after which. Each tool called in a turn follows
// each tool called in the turn before, in the same session, once however often either
// was called; where turns are not known each call is a turn. Steps of plans follow
// nothing: their order was the model's before the first of them was answered. A call
// that is answered after one of a later turn is left out.
type graph struct {
	pairs map[pairKey]*pair
}

type pairKey struct{ from, to *tool }

type pair struct{ n, issued, used int64 }

// follow takes note of a call.
func (g *graph) follow(s *session, turn int, of *tool) {
	o := s.open
	if o == nil || turn > 0 && turn < o.turn {
		return
	}
	if turn <= 0 || turn != o.turn {
		o.now, o.then = o.then[:0], o.now
	}
	o.turn = max(turn, 0)
	if len(o.now) == 0 {
		for _, from := range o.then {
			from.followed++
		}
	}
	if len(o.now) >= mostTogether || slices.Contains(o.now, of) {
		return
	}
	o.now = append(o.now, of)
	for _, from := range o.then {
		if p := g.pair(from, of); p != nil {
			p.n++
		}
	}
}

// pair is one; nil: there is no room for it.
func (g *graph) pair(from, to *tool) *pair {
	key := pairKey{from, to}
	if p, ok := g.pairs[key]; ok {
		return p
	}
	if len(g.pairs) >= mostPairs || from.name == other || to.name == other {
		return nil
	}
	p := new(pair)
	g.pairs[key] = p
	return p
}

// prefetched takes note of a prefetch of one tool after a call of another; nil: not known.
func (g *graph) prefetched(from, to *tool, used bool) {
	if from == nil {
		return
	}
	if p := g.pair(from, to); p != nil {
		p.issued++
		p.used += one(used)
	}
}

// strongest are the most frequent follow-ups.
func (g *graph) strongest() []FollowUp {
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
	return all[:min(len(all), mostFollows)]
}
