package plan

import (
	"cmp"
	"math"
	"slices"

	"mcpschedd/internal/schedule"
)

// usualTokens stands for the size of an answer of which nothing is known, so that
// what is unknown is not taken for free.
const usualTokens = 500

// leastValue is what a result is worth at least: one of no known value comes back
// if there is room for it.
const leastValue = 1e-6

// expected is how many tokens a step's result is expected to bring.
func (s *Step) expected() int {
	n := cmp.Or(max(s.Tool.Tokens, 0), usualTokens)
	if s.MaxTokens > 0 {
		return min(n, s.MaxTokens)
	}
	return n
}

func (p *Plan) returns(s *Step) bool { return slices.Contains(p.Outputs, s.ID) }

// leftOut is, for each step, why it is not run for the sake of the budget; "": it is. Of
// the optional steps whose results come back those are run that are worth most and fit,
// and others for the sake of the steps that refer to them: they bring nothing.
//
// It is decided once, before the first call. Later the sizes of results would have a say
// in it, and third parties could learn from a call, or from none, how much another step
// has read.
func (p *Plan) leftOut(l *Limits) []string {
	why, runs := make([]string, len(p.Steps)), make([]bool, len(p.Steps))
	place := make(map[int]int) // step → item
	var optional []*Step
	var items []schedule.Item
	room, cost := math.MaxInt/2, 0
	if p.Budget > 0 {
		room = l.Brings(p.Budget)
	}
	for _, s := range p.Steps {
		runs[s.Index] = !s.Optional
		switch {
		case s.Optional:
			place[s.Index] = len(items)
			optional = append(optional, s)
			items = append(items, schedule.Item{})
		case p.returns(s):
			room -= s.expected()
		}
	}
	for k, s := range optional {
		if p.returns(s) {
			items[k].Value, items[k].Cost = max(s.Value*s.Probability, leastValue), s.expected()
			cost += items[k].Cost
		}
		for _, i := range s.Needs {
			if n, ok := place[i]; ok {
				items[k].Needs = append(items[k].Needs, n)
			}
		}
	}
	fit := cost <= room
	chosen := schedule.Choice{}
	if !fit {
		chosen = schedule.Select(items, schedule.Limits{Budget: room})
	}
	for k, s := range optional {
		if p.returns(s) && (fit || slices.Contains(chosen.Items, k)) {
			runs[s.Index] = true
		}
	}
	for _, s := range p.Steps {
		if runs[s.Index] {
			p.reach(s, func(d *Step) bool {
				was := runs[d.Index]
				runs[d.Index] = true
				return !was
			})
		}
	}
	for _, s := range optional {
		if !runs[s.Index] && p.returns(s) {
			why[s.Index] = outOfBudget
			p.reach(s, func(d *Step) bool {
				news := !runs[d.Index] && why[d.Index] == ""
				if news {
					why[d.Index] = outOfBudget
				}
				return news
			})
		}
	}
	for _, s := range optional {
		if !runs[s.Index] && why[s.Index] == "" {
			why[s.Index] = "left out: nothing that comes back needs it"
		}
	}
	return why
}

const outOfBudget = "left out: budget_tokens"

// reach visits the steps that a step refers to, directly or not; behind one for which
// visit is false no further.
func (p *Plan) reach(s *Step, visit func(*Step) bool) {
	for _, i := range s.Needs {
		if d := p.Steps[i]; visit(d) {
			p.reach(d, visit)
		}
	}
}
