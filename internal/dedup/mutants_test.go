package dedup_test

import (
	"cmp"
	"strings"
	"testing"

	"mcpschedd/internal/mutant"
)

// mutants each remove one rule of the store. Without it, TestModel must report a stale answer, or
// the failure in Says.
var mutants = []mutant.Mutant{
	{Name: "change at arrival", Cuts: []mutant.Cut{
		{In: "dedup", Call: "epochs.bump", Under: []string{"Store.RegisterWrite"}, Becomes: mutant.Nothing},
		{In: "dedup", Compare: "placeState.pending", Under: []string{"epochs.current"}, Becomes: mutant.False},
	}},
	{Name: "change at the end", Cuts: []mutant.Cut{
		{In: "dedup", Call: "epochs.bump", Under: []string{"PendingWrite.End"}, Becomes: mutant.Nothing},
	}},
	{Name: "pending write", Cuts: []mutant.Cut{
		{In: "dedup", Compare: "placeState.pending", Under: []string{"epochs.current"}, Becomes: mutant.False},
	}},
	{Name: "check when served", Cuts: []mutant.Cut{
		{In: "dedup", Call: "epochs.current", With: "entry.epoch", Under: []string{"Store.Do"}, Becomes: mutant.True},
	}},
	{Name: "check when joined", Cuts: []mutant.Cut{
		{In: "dedup", Call: "epochs.current", With: "Flight.epoch", Under: []string{"Store.joinableLocked"}, Becomes: mutant.True},
	}},
	{Name: "settling when joined", Cuts: []mutant.Cut{
		{In: "dedup", Compare: "Flight.notKept", Under: []string{"Store.joinableLocked"}, Becomes: mutant.False},
	}},
	{Name: "settling when stored", Cuts: []mutant.Cut{
		{In: "dedup", Call: "epochs.settling", Under: []string{"Store.beginLocked"}, Becomes: mutant.False},
	}},
	{Name: "scope", Cuts: []mutant.Cut{
		{In: "dedup", Call: "Store.storedLocked", Under: []string{"Store.Do"}, Becomes: `func() (*entry, bool) { ($1).Key.Scope = "*"; return $& }()`},
	}},
	{Name: "reform", Cuts: []mutant.Cut{
		{In: "dedup", Set: "placeState.pending", Under: []string{"Store.Reclassify"}, Becomes: mutant.Nothing},
	}},
	{Name: "unknown outcome", Cuts: []mutant.Cut{
		{In: "dedup", Read: "Options.WriteSettle", Under: []string{"PendingWrite.Doubt"}, Becomes: "($& / 2)"},
	}},
	{Name: "trial not served", Says: "a trial is served", Cuts: []mutant.Cut{
		{In: "dedup", Read: "Reuse.CompareOnly", Becomes: mutant.False},
	}},
	{Name: "trial of what has not changed", Says: "a false accusation", Cuts: []mutant.Cut{
		{In: "dedup", Call: "epochs.current", Under: []string{"Flight.conclusiveLocked"}, Becomes: mutant.True},
	}},
	{Name: "invalidated is wasted", Says: "wrong fate", Cuts: []mutant.Cut{
		{In: "dedup", Call: "Store.wastedLocked", With: "entry.prefetch", Becomes: "if $2 == invalidated { $x.usedLocked(&Outcome{}, $1, call.Number{}, call.Ready) }; $&"},
	}},
	{Name: "wasted in flight", Says: "open ends", Cuts: []mutant.Cut{
		{In: "dedup", Call: "Store.wastedLocked", With: "Flight.prefetch", Under: []string{"Flight.abandonLocked"}, Becomes: mutant.Nothing},
	}},
	{Name: "ended scope", Says: "open ends", Cuts: []mutant.Cut{
		{In: "dedup", Set: "Flight.held", Under: []string{"Flight.scopeEndedLocked"}, Becomes: "{ held := $x.held; $&; $x.held = held }"},
	}},
}

// TestMutants shows that TestModel fails without each of the rules. Every run checks that the code
// of the rules is found.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.Name, " ", "_"), func(t *testing.T) {
			m.Test, m.Says = "TestModel", cmp.Or(m.Says, "stale answer")
			m.Args = []string{"-rapid.checks", "5000", "-rapid.shrinktime", "1s", "-rapid.nofailfile"}
			m.Env = []string{onlyBlame + "=" + m.Says}
			m.Check(t)
		})
	}
}
