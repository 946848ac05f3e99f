package schedule_test

import (
	"strings"
	"testing"

	"mcpschedd/internal/mutant"
)

// mutants each remove one rule of the search or the queue.
var mutants = []mutant.Mutant{
	{Name: "what is needed", Test: "TestSelectAgainstEveryChoice", Says: "no choice", Cuts: []mutant.Cut{
		{In: "schedule", Read: "Item.Needs", Under: []string{"search.include"}, Becomes: "($&)[:0]"},
	}},
	{Name: "what needs it", Test: "TestSelectAgainstEveryChoice", Says: "want", Cuts: []mutant.Cut{
		{In: "schedule", Read: "search.dependents", Under: []string{"search.excludeWorse"}, Becomes: "make([][]int, len($&))"},
	}},
	{Name: "number", Test: "TestSelectAgainstEveryChoice", Says: "no choice", Cuts: []mutant.Cut{
		{In: "schedule", Compare: "node.countLeft", Under: []string{"search.include"}, Becomes: mutant.False},
	}},
	{Name: "best single", Test: "TestSelectAgainstEveryChoice", Says: "want at least", Cuts: []mutant.Cut{
		{In: "schedule", Call: "search.greedy", Under: []string{"search.seed"}, Becomes: mutant.Nothing},
	}},
	{Name: "slots", Test: "TestQueueAgainstModel", Says: "next", Cuts: []mutant.Cut{
		{In: "schedule", Compare: "Queue.free", Under: []string{"Queue.hasSlot"}, Becomes: mutant.True},
	}},
	{Name: "ready goes first", Test: "TestQueueAgainstModel", Says: "more of", Cuts: []mutant.Cut{
		{In: "schedule", Call: "Queue.first", Under: []string{"Queue.AcquireExtra"}, Becomes: "-1"},
	}},
}

// TestMutants shows that the tests against models fail without each of the rules. Every run checks
// that the code of the rules is found.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.Name, " ", "_"), func(t *testing.T) {
			m.Args = []string{"-rapid.shrinktime", "1s", "-rapid.nofailfile"}
			m.Env = []string{"MCPSCHEDD_SOAK=0"}
			m.Check(t)
		})
	}
}
