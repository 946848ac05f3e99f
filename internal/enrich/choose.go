package enrich

import (
	"cmp"
	"slices"

	"mcpschedd/internal/call"
	"mcpschedd/internal/schedule"
)

// choose spends the budget on what is left.
func (p *picking) choose() Selection {
	items, open := p.items()
	var c schedule.Choice
	if p.o.Slots > 0 {
		c = schedule.Select(items, schedule.Limits{Budget: p.o.Budget, Count: p.o.Slots, Nodes: p.o.Nodes})
	}
	chosen := make([]bool, len(p.all))
	for _, at := range c.Items {
		chosen[open[at]] = true
	}
	s := Selection{Choices: p.start(chosen), Tokens: c.Cost, Exact: c.Exact || p.o.Slots <= 0}
	for _, i := range open {
		if !chosen[i] {
			p.stands[i].reason = p.missed(s.Choices, chosen, p.o.Budget-c.Cost, i)
		}
	}
	for i := range p.all {
		if p.stands[i].same == i && !chosen[i] {
			s.Declined = append(s.Declined, Decline{i, p.stands[i].reason})
		}
	}
	return s
}

// items makes an item of every candidate that is left. The forms of one call are
// a row.
func (p *picking) items() (items []schedule.Item, open []int) {
	open = slices.DeleteFunc(slices.Clone(p.sorted), func(i int) bool { return p.stands[i].reason != "" })
	rows := p.rows(open)
	items = make([]schedule.Item, len(open))
	place := make([]int, len(p.all)) // candidate → item
	for at, i := range open {
		place[i] = at
		s := &p.stands[i]
		items[at] = schedule.Item{Value: s.value, Cost: s.tokens, Row: rows[p.all[i].Key]}
		for _, k := range s.needs {
			items[at].Needs = append(items[at].Needs, place[k])
		}
	}
	return items, open
}

// rows numbers the calls of which there are several forms.
func (p *picking) rows(open []int) map[call.Key]int {
	if !slices.ContainsFunc(open, func(i int) bool { return p.all[i].Projection != "" }) {
		return nil
	}
	forms, rows := make(map[call.Key]int), make(map[call.Key]int)
	for _, i := range open {
		key := p.all[i].Key
		if forms[key]++; forms[key] == 2 {
			rows[key] = len(rows) + 1
		}
	}
	return rows
}

// start orders the chosen ones: first what most depends on, so that a cheap call
// that decides a dear one is not kept waiting behind it.
func (p *picking) start(chosen []bool) []Choice {
	weight := make([]float64, len(p.all)) // its value and that of all chosen ones that need it
	var choices []Choice
	for _, i := range p.sorted {
		if !chosen[i] {
			continue
		}
		s := &p.stands[i]
		choices = append(choices, Choice{Candidate: i, Value: s.value, Tokens: s.tokens})
		for _, k := range p.closure(i) {
			weight[k] += s.value
		}
	}
	// Stable: what is needed stands first already, and never weighs less.
	slices.SortStableFunc(choices, func(a, b Choice) int {
		return cmp.Compare(weight[b.Candidate], weight[a.Candidate])
	})
	return choices
}

// missed is why one that was left is not among the choices.
func (p *picking) missed(choices []Choice, chosen []bool, left, i int) Reason {
	if p.stands[i].value <= 0 {
		return Gate // it was there only for the sake of one that was not chosen either
	}
	for _, k := range p.closure(i) {
		if chosen[k] {
			continue
		}
		if slices.ContainsFunc(choices, func(c Choice) bool { return p.all[c.Candidate].Key == p.all[k].Key }) {
			return Cap // in another form
		}
		left -= p.stands[k].tokens
	}
	if left < 0 {
		return Budget
	}
	return Cap
}
