package tune

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"mcpschedd/internal/valuemodel"
)

// rule is an edge, held to lists of at most so many elements, and to the first of
// them; or to one place in a list.
type rule struct {
	*edge
	most int // elements; 0: any number
	max  int // calls for one answer
	only int // the place in the list, counted from 1; 0: not held to one
}

// covers reports whether a trial is one of the rule's.
func (r *rule) covers(t *trial) bool {
	if r.only > 0 {
		return int(t.rank) == r.only-1
	}
	return int(t.rank) < r.max && (r.most == 0 || int(t.of) <= r.most)
}

// same reports whether two rules have the same arguments, as the configuration sees
// them: there is one of those.
func (r *rule) same(o *rule) bool { return r.edge == o.edge && r.most == o.most && r.only == o.only }

// The lists, and the parts of them, to which an edge is held.
var (
	lengths = []int{1, 2, 3, 5, 10, 0}
	firsts  = []int{1, 2, 3, 5, mostRank}
)

// rules are the ways to hold an edge to lists.
func (e *edge) rules() []rule {
	if !e.fans() {
		return []rule{{edge: e, max: 1}}
	}
	var all []rule
	for _, most := range lengths {
		for _, first := range firsts {
			if most == 0 || first <= most {
				all = append(all, rule{edge: e, most: most, max: first})
			}
		}
	}
	if e.plain() {
		for only := range 3 {
			all = append(all, rule{edge: e, max: 1, only: only + 1})
		}
	}
	return all
}

// plain reports whether one list decides all: one argument has one value for each of
// its elements, and no other argument has several.
func (e *edge) plain() bool {
	n := 0
	for _, b := range e.args {
		for _, s := range b.Path {
			if s.Deep {
				return false
			}
			if s.All {
				n++
			}
		}
	}
	return n == 1
}

// fans reports whether an argument may have several values.
func (e *edge) fans() bool {
	for _, b := range e.args {
		if slices.ContainsFunc(b.Path, func(s valuemodel.Step) bool { return s.All || s.Deep }) {
			return true
		}
	}
	return false
}

// score is what came of trials.
type score struct {
	issues, right int
	hidden        float64 // ms
}

func (s *score) add(t *trial) {
	s.issues += int(t.issues)
	if t.right {
		s.right++
		s.hidden += float64(t.hidden)
	}
}

// picked is a rule that was found good.
type picked struct {
	rule
	taken       map[uint64]bool // calls that others make
	learn, held score
	hides       float64 // ms, if it is right
	probability float64 // that it is right at least: the lower bound at 80 %
}

const mostPicked = 6 // follow-ups of one tool

// pick chooses the follow-ups of a tool: of those that are good enough the surest,
// then of the others, tried on what the first leave over, and so on. A call that two
// follow-ups make counts for the first one alone, as it does live.
func (m *Miner) pick(edges []*edge) []picked {
	var open []rule
	for _, e := range edges {
		open = append(open, e.rules()...)
	}
	taken := make(map[uint64]bool)
	var out []picked
	for len(out) < mostPicked {
		var best picked
		bestAt, bestSure := -1, 0.0
		for i := range open {
			p := m.score(open[i], taken)
			if sure := lower(p.learn.right, p.learn.issues, once); sure > bestSure && m.against(&p) == "" {
				best, bestAt, bestSure = p, i, sure
			}
		}
		if bestAt < 0 {
			break
		}
		best.hides = m.hides(&best)
		out = append(out, best)
		for i := range best.cases {
			if t := &best.cases[i]; best.covers(t) {
				taken[t.call] = true
			}
		}
		open = slices.DeleteFunc(open, func(r rule) bool { return r.same(&best.rule) })
	}
	return out
}

func (m *Miner) score(r rule, taken map[uint64]bool) picked {
	p := picked{rule: r, taken: taken}
	for t := range p.trials {
		if t.held {
			p.held.add(t)
		} else {
			p.learn.add(t)
		}
	}
	p.probability = lower(p.right(), p.issues(), once)
	return p
}

// trials are those of the rule's calls that no other makes.
func (p *picked) trials(yield func(*trial) bool) {
	for i := range p.cases {
		if t := &p.cases[i]; p.covers(t) && !p.taken[t.call] && !yield(t) {
			return
		}
	}
}

func (p *picked) right() int  { return p.learn.right + p.held.right }
func (p *picked) issues() int { return p.learn.issues + p.held.issues }

// proposeFollowUps proposes what is not configured yet. Of the pairs of tools of which
// nothing is, it tells why not.
func (m *Miner) proposeFollowUps(blocks map[string][]Line) (why map[[2]string]string) {
	why = make(map[[2]string]string)
	by := make(map[string][]*edge)
	for _, words := range slices.Sorted(maps.Keys(m.edges)) {
		e := m.edges[words]
		if m.groundless(e.trigger) || m.groundless(e.tool) {
			continue
		}
		if t := m.tools[e.tool]; t != nil && m.hopeless(t) {
			why[[2]string{e.trigger, e.tool}] = "guesses at it have been wrong too often"
			continue
		}
		by[e.trigger] = append(by[e.trigger], e)
	}
	for trigger, edges := range by {
		found := make(map[string]bool)
		for _, p := range m.pick(edges) {
			found[p.tool] = true
			if f := p.followUp(); !m.configured(trigger, &f) {
				blocks[trigger] = append(blocks[trigger], Line{Key: "follow_up", Value: followUpTOML(&f), Evidence: p.evidence()})
			}
		}
		m.failings(edges, found, why)
	}
	return why
}

// followUp is a rule as the configuration has it.
func (p *picked) followUp() valuemodel.FollowUp {
	f := valuemodel.FollowUp{
		Tool: bare(p.tool), Probability: min(rounded(p.probability), 0.99), Max: p.max, Args: maps.Clone(p.args),
	}
	if p.most == 0 && p.only == 0 {
		return f
	}
	for name, b := range f.Args {
		if i := slices.IndexFunc(b.Path, func(s valuemodel.Step) bool { return s.All }); i >= 0 {
			b.Path = slices.Clone(b.Path)
			if b.Path[i].Most = p.most; p.only > 0 {
				b.Path[i] = valuemodel.Step{Index: p.only - 1}
			}
			f.Args[name] = b
		}
	}
	return f
}

// configured reports whether a follow-up is known, and nearly as likely.
func (m *Miner) configured(trigger string, f *valuemodel.FollowUp) bool {
	return slices.ContainsFunc(m.model(trigger).FollowUps, func(have valuemodel.FollowUp) bool {
		off := have.Probability - f.Probability
		return bare(have.Tool) == f.Tool && off > -0.1 && off < 0.1 && cmp.Or(have.Max, 3) == cmp.Or(f.Max, 3) &&
			maps.EqualFunc(have.Args, f.Args, func(a, b valuemodel.Binding) bool { return a.String() == b.String() })
	})
}

func (p *picked) evidence() string {
	text := fmt.Sprintf("%d of %d guesses right", p.right(), p.issues())
	if p.held.issues > 0 {
		text += fmt.Sprintf(", %d of %d in sessions that it was not read off", p.held.right, p.held.issues)
	}
	return text + fmt.Sprintf("; each hides about %.0f ms", p.hides)
}
