package proxy_test

import (
	"cmp"
	"strings"
	"testing"

	"mcpschedd/internal/mutant"
)

// mutants are the rules of the path of a call that are taken out one by one, wherever
// they stand. Without each of them TestInvariant says that an answer is stale, or the
// test that is named says what the mutant says.
var mutants = []mutant.Mutant{
	// The bump alone would not be missed at arrival, for what a pending write may change
	// is not served; nor would that be without the bump at the end. Without both, a write
	// does not show before its end.
	{Name: "bump at arrival", Cuts: []mutant.Cut{
		{In: "dedup", Call: "epochs.bump", Under: []string{"Store.RegisterWrite"}, Becomes: mutant.Nothing},
		{In: "dedup", Compare: "mark.pending", Under: []string{"mark.unchangedSince"}, Becomes: mutant.False},
	}},
	{Name: "bump at the end", Cuts: []mutant.Cut{
		{In: "dedup", Call: "epochs.bump", Under: []string{"PendingWrite.End"}, Becomes: mutant.Nothing},
	}},
	{Name: "pending mark", Cuts: []mutant.Cut{
		{In: "dedup", Compare: "mark.pending", Under: []string{"mark.unchangedSince"}, Becomes: mutant.False},
	}},
	{Name: "pending until its outcome", Cuts: []mutant.Cut{
		{In: "proxy", Call: "dedup.Store.RegisterWrite", Becomes: "func() *dedup.PendingWrite { w := $&; w.End(); return w }()"},
	}},
	{Name: "check when served", Cuts: []mutant.Cut{
		{In: "dedup", Call: "epochs.current", With: "entry.epoch", Under: []string{"Store.Do"}, Becomes: mutant.True},
	}},
	{Name: "check when joined", Cuts: []mutant.Cut{
		{In: "dedup", Call: "epochs.current", With: "Flight.epoch", Under: []string{"Store.joinableLocked"}, Becomes: mutant.True},
	}},
	{Name: "scope", Says: "answer of another principal", Cuts: []mutant.Cut{
		{In: "proxy", Value: "call.Key.Scope", Becomes: `func() string { _ = $&; return "*" }()`},
	}},
	{Name: "unknown outcome", Cuts: []mutant.Cut{
		{In: "proxy", Call: "dedup.PendingWrite.Doubt", Except: []string{"tasks"}, Becomes: "$x.End()"},
	}},
	{Name: "second look at the policy", Test: "TestReloadWhileACallArrives", Cuts: []mutant.Cut{
		{In: "proxy", Compare: "upstreamCall.policy", Under: []string{"upstreamCall.register"}, Becomes: mutant.True},
	}},
	{Name: "model of the policy in force", Test: "TestReloadUnderLoad", Says: "when the reloads are over", Cuts: []mutant.Cut{
		{In: "proxy", Compare: "catalog.policy", Under: []string{"catalog.model"}, Becomes: mutant.True},
	}},
	{Name: "task under way", Cuts: []mutant.Cut{
		{In: "proxy", Call: "dedup.PendingWrite.Doubt", Under: []string{"tasks"}, Becomes: "$x.End()"},
	}},
	{Name: "order of sending", Test: "TestOrderHolds", Says: " passed ", Cuts: []mutant.Cut{
		{In: "upstream", Call: "Turn.ready", Becomes: "func() <-chan struct{} { _ = $&; return nil }()"},
	}},
	{Name: "id freed before the answer", Test: "TestIDUsedAgainOverHTTP", Says: "the id is not free", Cuts: []mutant.Cut{
		{In: "proxy", Call: "requests.forget", Except: []string{"requests"}, Becomes: mutant.Nothing},
	}},
}

// TestMutants shows that the tests of the path of a call can fail: without any one of
// its rules one does, and says why. That the rules are there is looked at in every run.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.Name, " ", "_"), func(t *testing.T) {
			m.Says = cmp.Or(m.Says, "stale answer")
			if m.Test == "" {
				m.Test, m.Args = "TestInvariant", []string{"-rapid.shrinktime", "1s", "-rapid.nofailfile"}
				m.Env = []string{"MCPSCHEDD_SOAK=1"} // it ends at the first fault
			}
			m.Check(t)
		})
	}
}
