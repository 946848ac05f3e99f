package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"mcpschedd/internal/config"
	"mcpschedd/internal/valuemodel"
)

// upstreamOf is the one upstream that has all recorded tools.
func upstreamOf() valuemodel.Upstream {
	return valuemodel.Upstream{Name: "trace", Provider: "claude-code", Domain: "trace"}
}

// understood are the fields of a [tools.*] block that a file of classes may have.
// The program itself reads all of them; here anything else is an error rather than
// left out.
func understood() []string {
	return []string{"side_effect_class", "value_class", "speculate", "invalidates", "invalidates_only"}
}

// classes reads what a file says that the recorded tools do.
func classes(name string) (func(tool string) *valuemodel.Model, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	c, err := config.Parse(name, data)
	if err != nil {
		return nil, err
	}
	var rules []valuemodel.Rule
	for _, t := range c.Tools {
		block := config.Key("tools", t.Name)
		for key, line := range c.Positions {
			field, of := strings.CutPrefix(key, block+".")
			field, _, _ = strings.Cut(field, "[")
			if of && !slices.Contains(understood(), field) {
				return nil, fmt.Errorf("%s:%d: %s: not understood here", name, line, key)
			}
		}
		l := valuemodel.Layer{
			Class: valuemodel.Class(t.SideEffectClass), ValueClass: valuemodel.ValueClass(t.ValueClass),
			Speculate: t.Speculate, InvalidatesOnly: t.InvalidatesOnly,
		}
		for _, i := range t.Invalidates {
			l.Invalidates = append(l.Invalidates, valuemodel.Edge{Tool: i.Tool, Match: i.Match})
		}
		rules = append(rules, valuemodel.Rule{Pattern: t.Name, Source: c.Where(block), Layer: l})
	}
	models, problems := valuemodel.Compile(rules)
	if len(problems) > 0 {
		return nil, errors.New(name + ": " + problems[0].Text)
	}
	return func(tool string) *valuemodel.Model {
		return models.Resolve(upstreamOf(), tool, valuemodel.Hints{})
	}, nil
}

// asFloor makes of a tool what the floor takes it for. It judges a tool as a whole,
// so that any command of a shell is a write. And it takes for true that a call makes
// nothing stale where the value model is not so sure: invalidates_only with no edge
// to go by is not obeyed there, and does not take back what the built-in model says.
func asFloor(model func(string) *valuemodel.Model) func(string) *valuemodel.Model {
	return func(tool string) *valuemodel.Model {
		m := *model(tool)
		m.Classify = ""
		switch tool {
		case "Task", "Skill", "AskUserQuestion", "TaskOutput", "EnterPlanMode", "ExitPlanMode", "transfer_to_human_agents":
			m.Class, m.Speculate = valuemodel.Pure, new(false)
		}
		return &m
	}
}
