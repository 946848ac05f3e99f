package main

import "mcpschedd/internal/valuemodel"

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
