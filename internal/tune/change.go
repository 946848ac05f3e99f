package tune

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcpschedd/internal/valuemodel"
)

// ladder are the times (s) for which an answer may be found to stay the same.
var ladder = []int64{5, 15, 60, 300, 900, 3600}

const (
	mostRuns   = 5    // equal answers in a row
	surelySame = 0.99 // share of answers that stay the same, to be kept
	surelyIdle = 0.95 // share of further calls that bring nothing new, to be given up
	leastEdge  = 5    // changes behind which a write was, to be taken for their cause
)

// changes are what pairs of answers say of a tool.
type changes struct {
	same  [6]int // by rung of the ladder: pairs that were no further apart
	other [6]int
	still tally             // pairs with no write in between
	after map[uint32]*tally // the only tool in between that writes, and is not known to concern this one → pairs
	runs  [mostRuns + 1]tally
}

// tally counts answers that were the same as the one before, and those that were not.
type tally struct{ same, other int }

func (t *tally) add(same bool) {
	if same {
		t.same++
	} else {
		t.other++
	}
}

func (t *tally) n() int { return t.same + t.other }

// change works out what the pairs of answers say.
func (m *Miner) change() map[uint32]*changes {
	all := make(map[uint32]*changes)
	of := func(tool uint32) *changes {
		c := all[tool]
		if c == nil {
			c = &changes{after: make(map[uint32]*tally)}
			all[tool] = c
		}
		return c
	}
	concerns := make(map[[2]uint32]bool)
	m.pairs(func(p pair) {
		of(p.tool).pair(&p, func(w uint32) bool {
			key := [2]uint32{w, p.tool}
			known, ok := concerns[key]
			if !ok {
				known = m.concerns(w, p.tool)
				concerns[key] = known
			}
			return known
		})
	}, func(tool uint32, before int, same bool) {
		of(tool).runs[min(before, mostRuns)].add(same)
	})
	return all
}

// pair counts a pair. With a write in between that is known to concern the tool,
// nothing can be said; with one that is not, it may be the reason of a change.
func (c *changes) pair(p *pair, concerns func(uint32) bool) {
	if p.unknown || slices.ContainsFunc(p.between, concerns) {
		return
	}
	switch len(p.between) {
	case 0:
		c.still.add(p.same)
	case 1:
		t := c.after[p.between[0]]
		if t == nil {
			t = &tally{}
			c.after[p.between[0]] = t
		}
		t.add(p.same)
	}
	for i, s := range ladder {
		if p.apart > s*1000 {
			continue
		}
		if p.same {
			c.same[i]++
		} else {
			c.other[i]++
		}
	}
}

// concerns reports whether a write by one tool is known to make answers of the other
// stale: they are of one upstream or have a domain in common, or it says so.
func (m *Miner) concerns(writer, reader uint32) bool {
	w, r := m.byNumber[writer].name, m.byNumber[reader].name
	wm, rm := m.model(w), m.model(r)
	if upstreamOf(w) == upstreamOf(r) {
		return true
	}
	for _, d := range wm.Domains {
		if slices.Contains(rm.Domains, d) {
			return true
		}
	}
	return slices.ContainsFunc(wm.Invalidates, func(e valuemodel.Edge) bool {
		return e.Tool == r || e.Tool == bare(r) || e.Tool == "*" || e.Tool == upstreamOf(r)+"/*"
	})
}

func upstreamOf(tool string) string {
	upstream, _, split := strings.Cut(tool, "/")
	if !split {
		return ""
	}
	return upstream
}

// proposeChanges proposes what follows from how answers changed.
func (m *Miner) proposeChanges(blocks map[string][]Line) {
	for tool, c := range m.change() {
		t := m.byNumber[tool]
		if m.groundless(t.name) {
			continue
		}
		m.add(blocks, t.name, m.proposeFreshness(t, c)...)
		m.add(blocks, t.name, m.proposeGivingUp(t, c)...)
		for w, n := range c.after {
			m.add(blocks, m.byNumber[w].name, m.proposeEdge(t, c, n)...)
		}
	}
}

// proposeFreshness advises for how long an answer may stand in for a new one: the
// longest time on the ladder such that of the pairs of answers that were at most so
// far apart, with no write in between that is known to concern them, 99 % were the
// same, by the lower bound at 95 %, and that at least as many pairs as are needed for
// any proposal were further apart than the time before it. It is never a setting: that
// an answer was the same is no promise that it will be, and only the operator knows
// what a stale one costs.
func (m *Miner) proposeFreshness(t *tool, c *changes) []Line {
	known := m.model(t.name)
	best := -1
	for i := range ladder {
		n, before := c.same[i]+c.other[i], 0
		if i > 0 {
			before = c.same[i-1] + c.other[i-1]
		}
		if n-before >= m.o.MinN && lower(c.same[i], n, twice) >= surelySame {
			best = i
		}
	}
	if best < 0 || known.Cost.Freshness.Seconds() >= float64(ladder[best]) || !known.Class.Reads() {
		return nil
	}
	return []Line{{Key: "cost_model.freshness_ttl_s", Value: fmt.Sprint(ladder[best]), Advice: true, Evidence: fmt.Sprintf(
		"%d of %d answers were still the same%s", c.same[best], c.same[best]+c.other[best], t.period())}}
}

// proposeGivingUp advises after how many equal answers in a row another call brings
// nothing new. It is no setting, for then the next answer may be an old one: to ask
// again may be the point.
func (m *Miner) proposeGivingUp(t *tool, c *changes) []Line {
	known := m.model(t.name)
	if known.BackOff {
		return nil
	}
	for n := 2; n <= mostRuns; n++ {
		r := c.runs[n]
		if r.n() >= m.o.MinN && lower(r.same, r.n(), twice) >= surelyIdle {
			return []Line{{Key: "fail_fast_after_n", Value: fmt.Sprint(n), Advice: true, Evidence: fmt.Sprintf(
				"after %d equal answers in a row the next was equal too in %d of %d cases%s", n, r.same, r.n(), t.period())}}
		}
	}
	return nil
}

// proposeEdge proposes that calls of a tool make answers of another one stale, where
// these changed with such a call in between, and without one hardly ever.
func (m *Miner) proposeEdge(reader *tool, c *changes, after *tally) []Line {
	quiet := upper(c.still.other, c.still.n(), twice)
	if after.other < leastEdge || c.still.n() < m.o.MinN || lower(after.other, after.n(), twice) < max(0.5, 4*quiet) {
		return nil
	}
	return []Line{{Key: "invalidates", Value: quoted(reader.name), Evidence: fmt.Sprintf(
		"%d of %d answers had changed after it, %d of %d without any write%s",
		after.other, after.n(), c.still.other, c.still.n(), reader.period())}}
}

// add adds lines to a block.
func (m *Miner) add(blocks map[string][]Line, tool string, lines ...Line) {
	blocks[tool] = append(blocks[tool], lines...)
}

// tidy puts the lines of each block into an order that does not depend on chance. The
// follow-ups keep theirs, which counts.
func tidy(blocks map[string][]Line) {
	for _, tool := range slices.Sorted(maps.Keys(blocks)) {
		slices.SortStableFunc(blocks[tool], func(a, b Line) int {
			if n := strings.Compare(a.Key, b.Key); n != 0 || a.Key == "follow_up" {
				return n
			}
			return strings.Compare(a.Value, b.Value)
		})
	}
}
