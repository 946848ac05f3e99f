package enrich

import (
	"cmp"
	"slices"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/valuemodel"
)

// Pick chooses the candidates to start.
func Pick(candidates []Candidate, o Options) Selection {
	if o.Think <= 0 {
		o.Think = 3 * time.Second
	}
	if !(o.BytesPerToken > 0) {
		o.BytesPerToken = 4
	}
	o.Dollars = max(o.Dollars, 0)
	p := &picking{all: candidates, o: &o, stands: make([]stand, len(candidates))}
	p.merge()
	p.judge()
	p.ground()
	p.gate()
	p.ration()
	return p.choose()
}

// picking is one run of [Pick]. Each step declines what it decides on and leaves
// the rest to the next.
type picking struct {
	all    []Candidate
	o      *Options
	stands []stand // by candidate
	sorted []int   // those not merged with another and not declined by themselves, each after what it needs
}

// stand is where a candidate stands.
type stand struct {
	same   int    // the candidate that stands for this call; itself, unless merged
	needs  []int  // candidates whose answers have to be brought about first
	reason Reason // "" while it may be chosen
	watch  bool   // it is only watched
	gain   float64
	value  float64
	tokens int
}

// merge finds the candidates that mean the same, and keeps one of them.
func (p *picking) merge() {
	type form struct {
		key        call.Key
		projection string
	}
	kept := make(map[form]int, len(p.all))
	for i := range p.all {
		c := &p.all[i]
		f := form{c.Key, c.Projection}
		if k, seen := kept[f]; !seen || c.better(&p.all[k]) {
			kept[f] = i
		}
	}
	for i := range p.all {
		p.stands[i].same = kept[form{p.all[i].Key, p.all[i].Projection}]
	}
}

// better reports whether a candidate should stand for a call rather than the one
// before it: a call that one edge only watches may be made for the sake of another.
func (c *Candidate) better(other *Candidate) bool {
	if (c.Reason == "") != (other.Reason == "") {
		return c.Reason == ""
	}
	return c.P > other.P
}

// judge decides what can be told of each candidate by itself.
func (p *picking) judge() {
	intent := valuemodel.IntentOf(p.o.Keywords)
	boosts := make(map[*valuemodel.Model]float64)
	for i := range p.all {
		c, s := &p.all[i], &p.stands[i]
		if s.same != i {
			continue
		}
		if s.reason = p.unfit(c); s.reason != "" {
			continue
		}
		times, known := boosts[c.Model]
		if !known {
			times = boost(c.Model, intent)
			boosts[c.Model] = times
		}
		b, likely := c.bet(p.o), min(c.P, 1)
		s.watch = c.Reason == Shadow
		s.gain = b.gain(likely)
		s.value = likely * b.hides * c.worth(times)
		s.tokens = c.tokens(p.o)
	}
}

// unfit is why a candidate cannot be chosen, whatever it is worth.
func (p *picking) unfit(c *Candidate) Reason {
	switch {
	case c.Reason != "" && c.Reason != Shadow:
		return c.Reason
	case !Speculatable(c.Model):
		return NotSpeculatable
	case !(c.P > 0 && c.P >= p.o.MinProbability):
		return LowProbability
	case c.Model.Cost.Dollars > p.o.Dollars:
		return Dollars
	}
	return ""
}

// Speculatable reports whether a model allows guesses; a nil one does not. What
// depends on the arguments of a call (classify) its maker has looked at.
func Speculatable(m *valuemodel.Model) bool {
	return m != nil &&
		m.Speculate != nil && *m.Speculate &&
		(m.Volatile == nil || !*m.Volatile) &&
		(m.Class.Reads() || m.Classify != "")
}

// gate declines the bets that do not pay. One that does not pay by itself is made
// for the sake of one that needs it, if they pay together; it is then worth
// nothing of its own.
func (p *picking) gate() {
	pays := make([]bool, len(p.all))
	for _, i := range p.sorted {
		s := &p.stands[i]
		if s.reason != "" || !(s.gain > 0) {
			continue
		}
		if len(s.needs) == 0 {
			pays[i] = true
			continue
		}
		closure, sum := p.closure(i), 0.0
		for _, k := range closure {
			sum += p.stands[k].gain
		}
		for _, k := range closure {
			pays[k] = pays[k] || sum > 0
		}
	}
	for _, i := range p.sorted {
		s := &p.stands[i]
		switch {
		case s.reason != "":
		case !pays[i]:
			s.reason = Gate
		case s.watch:
			s.reason = Shadow
		case !(s.gain > 0):
			s.value = 0
		}
	}
	p.inherit()
}

// ration holds the best of what is left to the dollars there are and to the
// number of calls that an edge may bring.
func (p *picking) ration() {
	best := slices.DeleteFunc(slices.Clone(p.sorted), func(i int) bool { return p.stands[i].reason != "" })
	slices.SortStableFunc(best, func(a, b int) int { return cmp.Compare(p.stands[b].value, p.stands[a].value) })
	left := p.o.Dollars
	var calls map[string][]call.Key // edge → its calls
	for _, i := range best {
		c, s := &p.all[i], &p.stands[i]
		if dollars := c.Model.Cost.Dollars; dollars > 0 {
			if dollars > left {
				s.reason = Dollars
				continue
			}
			left -= dollars
		}
		if c.Max <= 0 || slices.Contains(calls[c.Edge], c.Key) {
			continue
		}
		if len(calls[c.Edge]) >= c.Max {
			s.reason = Cap
			continue
		}
		if calls == nil {
			calls = make(map[string][]call.Key)
		}
		calls[c.Edge] = append(calls[c.Edge], c.Key)
	}
	p.inherit()
}
