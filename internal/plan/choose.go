package plan

import (
	"cmp"
	"math"
	"slices"

	"mcpschedd/internal/schedule"
)

// defaultTokens is the assumed size of a result whose size is unknown, so that it is not treated
// as free.
const defaultTokens = 500

// minValue is the minimum value of a result, so that one of unknown value is used if there is
// room.
const minValue = 1e-6

// expectedTokens returns the expected size of a step's result.
func (s *Step) expectedTokens() int {
	n := cmp.Or(max(s.Tool.Tokens, 0), defaultTokens)
	if s.MaxTokens > 0 {
		return min(n, s.MaxTokens)
	}
	return n
}

func (p *Plan) returns(s *Step) bool { return slices.Contains(p.Outputs, s.ID) }

// leftOut returns, for each step, the reason why the budget excludes it, or "". Of the optional
// steps with an output it selects the most valuable set that fits. Optional steps without an
// output cost no tokens and run if a selected step refers to them.
//
// The selection is made once, before the first call. If it depended on the sizes of results,
// third parties could learn from a call, or its absence, how much another step had read.
func (p *Plan) leftOut(l *Limits) []string {
	why, runs, overBudget := make([]string, len(p.Steps)), make([]bool, len(p.Steps)), make([]bool, len(p.Steps))
	budgetReason, fitting := "left out: budget_tokens", []*Step(nil)
	if l.NoOptional {
		budgetReason = "left out: the tokens of [budgets] are used up"
	} else {
		fitting = p.selectOptional(l)
	}
	for _, s := range p.Steps {
		if !s.Optional || slices.Contains(fitting, s) {
			runs[s.Index] = true
			p.markNeeded(s, runs)
		}
	}
	for _, s := range p.Steps {
		if !runs[s.Index] && p.returns(s) {
			overBudget[s.Index] = true
			p.markNeeded(s, overBudget)
		}
	}
	for i := range why {
		switch {
		case runs[i]:
		case overBudget[i]:
			why[i] = budgetReason
		default:
			why[i] = "left out: no output needs it"
		}
	}
	return why
}

// selectOptional returns the optional steps with an output that run: all of them if they fit
// beside the required steps.
func (p *Plan) selectOptional(l *Limits) (chosen []*Step) {
	place := make(map[int]int) // step → index in items
	var optional []*Step
	var items []schedule.Item
	room, cost := math.MaxInt/2, 0
	if p.Budget > 0 {
		room = l.ResultTokens(p.Budget)
	}
	for _, s := range p.Steps {
		var it schedule.Item
		switch {
		case !p.returns(s):
		case !s.Optional:
			room -= s.expectedTokens()
		default:
			it.Value, it.Cost = max(s.Worth.Value*s.Worth.Probability, minValue), s.expectedTokens()
			cost += it.Cost
		}
		if s.Optional {
			place[s.Index] = len(items)
			optional, items = append(optional, s), append(items, it)
		}
	}
	for k, s := range optional {
		for _, i := range s.Needs {
			if n, ok := place[i]; ok {
				items[k].Needs = append(items[k].Needs, n)
			}
		}
	}
	if cost > room {
		for _, k := range schedule.Select(items, schedule.Limits{Budget: room}).Items {
			chosen = append(chosen, optional[k])
		}
	} else {
		chosen = optional
	}
	return slices.DeleteFunc(chosen, func(s *Step) bool { return !p.returns(s) })
}

// markNeeded marks the steps that a step refers to, directly or indirectly.
func (p *Plan) markNeeded(s *Step, marked []bool) {
	for _, i := range s.Needs {
		if !marked[i] {
			marked[i] = true
			p.markNeeded(p.Steps[i], marked)
		}
	}
}
