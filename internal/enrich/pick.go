package enrich

import (
	"cmp"
	"slices"

	"mcpschedd/internal/schedule"
	"mcpschedd/internal/valuemodel"
)

// Pick chooses the candidates to start, and returns their indexes, the best first. It sets the
// Reason of all others, and the Value and Tokens of those that reach the gate.
func Pick(all []Candidate, o Options) (chosen []int) {
	o.Dollars = max(o.Dollars, 0)
	intent := valuemodel.NewIntent(o.Keywords)
	var open []int
	for i := range all {
		if c := &all[i]; c.evaluate(&o, intent) {
			open = append(open, i)
		}
	}
	best := func(a, b int) int { return cmp.Compare(all[b].Value, all[a].Value) }
	left := o.Dollars
	for _, i := range slices.SortedStableFunc(slices.Values(open), best) {
		if all[i].Tokens > o.Budget { // it cannot be chosen
			continue
		}
		if dollars := max(all[i].Model.Cost.Dollars, 0); dollars > left {
			all[i].Reason = Dollars
		} else {
			left -= dollars
		}
	}
	chosen = choose(all, slices.DeleteFunc(open, func(i int) bool { return all[i].Reason != "" }), &o)
	slices.SortStableFunc(chosen, best)
	return chosen
}

// evaluate computes the candidate's value and cost, and reports whether it may be chosen and pays.
func (c *Candidate) evaluate(o *Options, intent valuemodel.Intent) bool {
	known := c.Reason
	if c.Reason = c.refusal(o); c.Reason != "" {
		return false
	}
	likely, hides := min(c.P, 1), c.hiddenMS(o)
	waste := (1 - likely) * c.wasteMS(o)
	c.Value = likely*hides - waste
	if c.Reason = known; !(likely*(1-c.CanWait)*hides > waste) {
		c.Reason = Gate
	}
	if !o.Silent {
		c.Value = likely * hides * ClassWeight(c.Model.ValueClass) * intentBoost(c.Model, intent)
	}
	c.Tokens = c.tokens(o)
	return c.Reason == ""
}

// afterGate reports whether a reason that the caller knows applies only to a candidate that passes
// the gate: it is only observed, or it may only not begin yet.
func (r Reason) afterGate() bool {
	return r == Shadow || r == Cap || r == Throttled || r == Settling
}

// refusal returns why a candidate must not be chosen, whatever its gain; "" if it may be.
func (c *Candidate) refusal(o *Options) Reason {
	switch {
	case c.Reason != "" && !c.Reason.afterGate():
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
		m.MayRead()
}

// choose selects among the open candidates within the budget and the slots, and declines the others.
func choose(all []Candidate, open []int, o *Options) (chosen []int) {
	items := make([]schedule.Item, len(open))
	for n, i := range open {
		items[n] = schedule.Item{Value: all[i].Value, Cost: all[i].Tokens}
	}
	left := o.Budget
	if o.Slots > 0 {
		for _, n := range schedule.Select(items, schedule.Limits{Budget: o.Budget, Count: o.Slots}) {
			chosen = append(chosen, open[n])
			left -= items[n].Cost
		}
	}
	for _, i := range open {
		switch {
		case slices.Contains(chosen, i):
		case all[i].Tokens > left:
			all[i].Reason = Budget
		default:
			all[i].Reason = Cap
		}
	}
	return chosen
}
