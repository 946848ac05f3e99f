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
	why, runs, dear := make([]string, len(p.Steps)), make([]bool, len(p.Steps)), make([]bool, len(p.Steps))
	dearWhy, fitting := "left out: budget_tokens", []*Step(nil)
	if l.NoOptional {
		dearWhy = "left out: the tokens of [budgets] are used up"
	} else {
		fitting = p.fitting(l)
	}
	for _, s := range p.Steps {
		if !s.Optional || slices.Contains(fitting, s) {
			runs[s.Index] = true
			p.reach(s, runs)
		}
	}
	for _, s := range p.Steps {
		if !runs[s.Index] && p.returns(s) {
			dear[s.Index] = true
			p.reach(s, dear)
		}
	}
	for i := range why {
		switch {
		case runs[i]:
		case dear[i]:
			why[i] = dearWhy
		default:
			why[i] = "left out: nothing that comes back needs it"
		}
	}
	return why
}

// fitting are the optional steps to run of those whose results come back: all of them, if
// they fit beside those that run anyway.
func (p *Plan) fitting(l *Limits) (chosen []*Step) {
	place := make(map[int]int) // step → item
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
			room -= s.expected()
		default:
			it.Value, it.Cost = max(s.Worth.Value*s.Worth.Probability, leastValue), s.expected()
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

// reach marks the steps that a step refers to, directly or not; behind one that is marked
// already no further.
func (p *Plan) reach(s *Step, marked []bool) {
	for _, i := range s.Needs {
		if !marked[i] {
			marked[i] = true
			p.reach(p.Steps[i], marked)
		}
	}
}
