package enrich

import (
	"cmp"
	"slices"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/schedule"
	"mcpschedd/internal/valuemodel"
)

// Pick chooses the candidates to start.
func Pick(candidates []Candidate, o Options) Selection {
	if o.Think <= 0 {
		o.Think = 3 * time.Second
	}
	o.Dollars = max(o.Dollars, 0)
	p := &picking{o: &o, bets: distinct(candidates)}
	p.gate()
	p.ration()
	return p.choose()
}

// picking is one run of [Pick]. Each step declines some of the candidates and leaves
// the rest to the next.
type picking struct {
	o    *Options
	bets []bet // in the order of the candidates
}

// bet is a candidate and what making the call is expected to bring.
type bet struct {
	c      *Candidate
	index  int
	reason Reason  // "" while it may be chosen
	value  float64 // ms of waiting that it is expected to hide, times what they are worth
	tokens int
}

// distinct are the candidates, one for each call: a call that one edge only watches
// may be made for the sake of another.
func distinct(candidates []Candidate) []bet {
	kept := make(map[call.Key]int, len(candidates))
	for i := range candidates {
		c := &candidates[i]
		if k, seen := kept[c.Key]; !seen || c.better(&candidates[k]) {
			kept[c.Key] = i
		}
	}
	bets := make([]bet, 0, len(kept))
	for i := range candidates {
		if c := &candidates[i]; kept[c.Key] == i {
			bets = append(bets, bet{c: c, index: i})
		}
	}
	return bets
}

// better reports whether a candidate should stand for a call rather than the one
// before it.
func (c *Candidate) better(other *Candidate) bool {
	if (c.Reason == "") != (other.Reason == "") {
		return c.Reason == ""
	}
	return c.P > other.P
}

// gate declines what may not be chosen or does not pay, and weighs the rest.
func (p *picking) gate() {
	intent := valuemodel.IntentOf(p.o.Keywords)
	boosts := make(map[*valuemodel.Model]float64)
	for i := range p.bets {
		b := &p.bets[i]
		if b.reason = b.c.unfit(p.o); b.reason != "" {
			continue
		}
		times, known := boosts[b.c.Model]
		if !known {
			times = boost(b.c.Model, intent)
			boosts[b.c.Model] = times
		}
		likely, hides := min(b.c.P, 1), b.c.hides(p.o)
		net := likely*hides - (1-likely)*b.c.wastes(p.o)
		switch {
		case !(net > 0):
			b.reason = Gate
		case b.c.Reason == Shadow:
			b.reason = Shadow
		}
		b.value = net
		if !p.o.Silent {
			b.value = likely * hides * b.c.worth(times)
		}
		b.tokens = b.c.tokens(p.o)
	}
}

// unfit is why a candidate cannot be chosen, whatever it is worth.
func (c *Candidate) unfit(o *Options) Reason {
	switch {
	case c.Reason != "" && c.Reason != Shadow:
		return c.Reason
	case !Speculatable(c.Model):
		return NotSpeculatable
	case !(c.P > 0 && c.P >= o.MinProbability):
		return LowProbability
	case c.Model.Cost.Dollars > o.Dollars:
		return Dollars
	}
	return ""
}

// Speculatable reports whether a model allows prefetches; a nil one does not. What
// depends on the arguments of a call (classify) is not looked at.
func Speculatable(m *valuemodel.Model) bool {
	return m != nil &&
		m.Speculate != nil && *m.Speculate &&
		(m.Volatile == nil || !*m.Volatile) &&
		(m.Class.Reads() || m.Classify != "")
}

// open are the bets that are not declined, in the order of the candidates.
func (p *picking) open() []*bet {
	var open []*bet
	for i := range p.bets {
		if p.bets[i].reason == "" {
			open = append(open, &p.bets[i])
		}
	}
	return open
}

func byValue(a, b *bet) int { return cmp.Compare(b.value, a.value) }

// ration holds the best of what is left to the dollars there are.
func (p *picking) ration() {
	left, open := p.o.Dollars, p.open()
	slices.SortStableFunc(open, byValue)
	for _, b := range open {
		dollars := max(b.c.Model.Cost.Dollars, 0)
		if dollars > left {
			b.reason = Dollars
			continue
		}
		left -= dollars
	}
}

// choose spends the budget on what is left.
func (p *picking) choose() Selection {
	open := p.open()
	items := make([]schedule.Item, len(open))
	for i, b := range open {
		items[i] = schedule.Item{Value: b.value, Cost: b.tokens}
	}
	var chosen schedule.Choice
	if p.o.Slots > 0 {
		chosen = schedule.Select(items, schedule.Limits{Budget: p.o.Budget, Count: p.o.Slots})
	}
	for _, b := range open {
		b.reason = Cap
		if b.tokens > p.o.Budget-chosen.Cost {
			b.reason = Budget
		}
	}
	s := Selection{Tokens: chosen.Cost}
	best := make([]*bet, len(chosen.Items))
	for n, i := range chosen.Items {
		best[n] = open[i]
		open[i].reason = ""
	}
	slices.SortStableFunc(best, byValue)
	for _, b := range best {
		s.Choices = append(s.Choices, Choice{Candidate: b.index, Value: b.value, Tokens: b.tokens})
	}
	for i := range p.bets {
		if b := &p.bets[i]; b.reason != "" {
			s.Declined = append(s.Declined, Decline{b.index, b.reason})
		}
	}
	return s
}
