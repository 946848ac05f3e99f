package proxy_test

import (
	"cmp"
	"strings"
	"testing"

	"mcpschedd/internal/mutant"
)

// mutants each remove one rule of the path of a call, wherever it occurs in the code.
// TestInvariant must then report a stale answer, or the named test the message in Says.
var mutants = []mutant.Mutant{
	// Without the bump at arrival alone no test would fail, as answers that depend on a pending
	// write are never served anyway. So this mutant also removes the check for pending writes: the write has
	// no effect on the store before its end.
	{Name: "bump at arrival", Cuts: []mutant.Cut{
		{In: "dedup", Call: "epochs.bump", Under: []string{"Store.RegisterWrite"}, Becomes: mutant.Nothing},
		{In: "dedup", Compare: "placeState.pending", Under: []string{"epochs.current"}, Becomes: mutant.False},
	}},
	{Name: "bump at the end", Cuts: []mutant.Cut{
		{In: "dedup", Call: "epochs.bump", Under: []string{"PendingWrite.End"}, Becomes: mutant.Nothing},
	}},
	{Name: "pending write", Cuts: []mutant.Cut{
		{In: "dedup", Compare: "placeState.pending", Under: []string{"epochs.current"}, Becomes: mutant.False},
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
		{In: "proxy", Call: "scopeOf", Becomes: `map[bool]string{false: "*"}[$& == ""]`},
	}},
	{Name: "unknown outcome", Cuts: []mutant.Cut{
		{In: "proxy", Call: "dedup.PendingWrite.Doubt", Except: []string{"tasks"}, Becomes: "$x.End()"},
	}},
	{Name: "second look at the policy", Test: "TestReloadWhileACallArrives", Cuts: []mutant.Cut{
		{In: "proxy", Compare: "upstreamCall.policy", Under: []string{"upstreamCall.registerWrite"}, Becomes: mutant.True},
	}},
	{Name: "model of the policy in force", Test: "TestReloadUnderLoad", Says: "when the reloads are over", Cuts: []mutant.Cut{
		{In: "catalog", Compare: "Catalog.policy", Under: []string{"Catalog.Tool"}, Becomes: mutant.True},
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

// TestMutants shows that the tests fail without each of the rules. Every run checks that the code
// of the rules is found.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.Name, " ", "_"), func(t *testing.T) {
			m.Says = cmp.Or(m.Says, "stale answer")
			if m.Test == "" {
				m.Test, m.Args = "TestInvariant", []string{"-rapid.shrinktime", "1s", "-rapid.nofailfile"}
				m.Env = []string{"MCPSCHEDD_SOAK=1"} // the first fault ends the test
			}
			m.Check(t)
		})
	}
}
