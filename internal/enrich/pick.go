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
	if o.DefaultLead <= 0 {
		o.DefaultLead = 3 * time.Second
	}
	o.Dollars = max(o.Dollars, 0)
	p := &picker{o: &o, scored: deduplicate(candidates)}
	p.gate()
	p.spendDollars()
	return p.choose()
}

// picker is one run of [Pick]. Each step declines some of the candidates and passes
// the rest to the next step.
type picker struct {
	o      *Options
	scored []scored // by index
}

// scored is a candidate with its expected gain and cost.
type scored struct {
	c      *Candidate
	index  int
	reason Reason  // "" unless declined
	value  float64 // see Choice.Value
	tokens int
}

// deduplicate keeps one candidate per call. Several edges may predict the same call, and
// an edge that only observes must not keep another one from prefetching it.
func deduplicate(candidates []Candidate) []scored {
	kept := make(map[call.Key]int, len(candidates))
	for i := range candidates {
		c := &candidates[i]
		if k, seen := kept[c.Key]; !seen || c.preferredTo(&candidates[k]) {
			kept[c.Key] = i
		}
	}
	all := make([]scored, 0, len(kept))
	for i := range candidates {
		if c := &candidates[i]; kept[c.Key] == i {
			all = append(all, scored{c: c, index: i})
		}
	}
	return all
}

// preferredTo reports whether c, rather than other, should represent their common call.
func (c *Candidate) preferredTo(other *Candidate) bool {
	if (c.Reason == "") != (other.Reason == "") {
		return c.Reason == ""
	}
	return c.P > other.P
}

// gate declines the candidates that must not be chosen or that do not pay, and scores
// the rest.
func (p *picker) gate() {
	intent := valuemodel.NewIntent(p.o.Keywords)
	boosts := make(map[*valuemodel.Model]float64)
	for i := range p.scored {
		b := &p.scored[i]
		if b.reason = b.c.refusal(p.o); b.reason != "" {
			continue
		}
		times, known := boosts[b.c.Model]
		if !known {
			times = intentBoost(b.c.Model, intent)
			boosts[b.c.Model] = times
		}
		likely, hides := min(b.c.P, 1), b.c.hiddenMS(p.o)
		net := likely*hides - (1-likely)*b.c.wasteMS(p.o)
		switch {
		case !(net > 0):
			b.reason = Gate
		case b.c.Reason == Shadow:
			b.reason = Shadow
		}
		b.value = net
		if !p.o.Silent {
			b.value = likely * hides * b.c.weight(times)
		}
		b.tokens = b.c.tokens(p.o)
	}
}

// refusal returns why a candidate must not be chosen, whatever its gain; "" if it may be.
func (c *Candidate) refusal(o *Options) Reason {
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

// Speculatable reports whether a model allows prefetches; a nil model does not. If the
// class depends on a call's arguments (Model.Classify), the caller has to check those.
func Speculatable(m *valuemodel.Model) bool {
	return m != nil &&
		m.Speculate != nil && *m.Speculate &&
		(m.Volatile == nil || !*m.Volatile) &&
		(m.Class.Reads() || m.Classify != "")
}

// remaining returns the candidates that are not declined, by index.
func (p *picker) remaining() []*scored {
	var open []*scored
	for i := range p.scored {
		if p.scored[i].reason == "" {
			open = append(open, &p.scored[i])
		}
	}
	return open
}

func byValue(a, b *scored) int { return cmp.Compare(b.value, a.value) }

// spendDollars admits candidates in descending order of value, and declines each that
// costs more dollars than are left.
func (p *picker) spendDollars() {
	left, open := p.o.Dollars, p.remaining()
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

// choose selects among the remaining candidates within the budget and the slots.
func (p *picker) choose() Selection {
	open := p.remaining()
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
	best := make([]*scored, len(chosen.Items))
	for n, i := range chosen.Items {
		best[n] = open[i]
		open[i].reason = ""
	}
	slices.SortStableFunc(best, byValue)
	for _, b := range best {
		s.Choices = append(s.Choices, Choice{Candidate: b.index, Value: b.value, Tokens: b.tokens})
	}
	for i := range p.scored {
		if b := &p.scored[i]; b.reason != "" {
			s.Declined = append(s.Declined, Decline{b.index, b.reason})
		}
	}
	return s
}
