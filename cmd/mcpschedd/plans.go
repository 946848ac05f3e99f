package main

import (
	"encoding/json"
	"time"

	"mcpschedd/internal/config"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/proxy"
)

// plans converts the [plan] block and the [plans.*] blocks.
func plans(c *config.Config) proxy.Plans {
	p := &c.Plan
	out := proxy.Plans{
		Enabled: p.Enabled, Mutations: p.Mutations, KeepFor: time.Duration(p.HandleTTL),
		Limits: plan.Limits{
			Steps: p.MaxSteps, Parallel: p.MaxParallel, Depth: p.MaxDepth, Bytes: int(p.MaxResultBytes),
			Budget: p.BudgetTokens, Reserve: p.Reserve, Timeout: time.Duration(p.Timeout),
		},
	}
	if p.HandleTTL == 0 {
		out.KeepFor = -1
	}
	for _, n := range c.Plans {
		out.Named = append(out.Named, named(n))
	}
	return out
}

func named(n config.NamedPlan) plan.Named {
	out := plan.Named{Name: n.Name, Description: n.Description, Steps: encoded(n.Steps), Outputs: n.OutputSteps, Budget: n.Budget}
	if n.Parameters != nil {
		out.Parameters = encoded(n.Parameters)
	}
	return out
}

// encoded returns a value of the configuration as JSON.
func encoded(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // config accepts only values that JSON can represent
	}
	return data
}

// planProblems finds the mistakes in [plans.*] that can be found without the servers whose tools
// the plans name.
func planProblems(c *config.Config) []config.Problem {
	var problems []config.Problem
	limits := plans(c).Limits
	for _, n := range c.Plans {
		p := named(n)
		for _, d := range p.Check(limits) {
			problems = append(problems, c.Problem(config.Key("plans", n.Name)+d.Key, "%s", d.Text))
		}
	}
	return problems
}
