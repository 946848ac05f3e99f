package limit_test

import (
	"cmp"
	"strings"
	"testing"

	"mcpschedd/internal/mutant"
)

// mutants each remove one rule of a host.
var mutants = []mutant.Mutant{
	{Name: "slots", Says: "calls at once", Cuts: []mutant.Cut{
		{In: "limit", Call: "host.hasSlot", Under: []string{"host.take"}, Becomes: mutant.True},
	}},
	{Name: "the slot of a paused call", Says: "waits for nothing", Cuts: []mutant.Cut{
		{In: "limit", Call: "host.dispatch", Under: []string{"Slot.Pause"}, Becomes: mutant.Nothing},
	}},
	{Name: "tokens", Says: "want at most", Cuts: []mutant.Cut{
		{In: "limit", Compare: "host.bucket", Under: []string{"host.take"}, Becomes: mutant.True},
	}},
	{Name: "in the order they came", Test: "TestNoOvertaking", Says: "took the token", Cuts: []mutant.Cut{
		{In: "limit", Read: "host.calls", Under: []string{"Hosts.TryEnter"}, Becomes: "($&)[:0]"},
	}},
	{Name: "a slot that is left", Says: "waits for nothing", Cuts: []mutant.Cut{
		{In: "limit", Call: "host.dispatch", Under: []string{"Slot.Leave"}, Becomes: mutant.Nothing},
	}},
	{Name: "a token that comes", Says: "waits for nothing", Cuts: []mutant.Cut{
		{In: "limit", Call: "host.arm", Under: []string{"host.dispatch"}, Becomes: mutant.Nothing},
	}},
	{Name: "tokens that replicas share", Test: "TestReplicasKeepToRule", Says: "too many have begun", Cuts: []mutant.Cut{
		{In: "limit", Call: "grants.take", Under: []string{"host.take"}, Becomes: mutant.True},
	}},
	{Name: "a replica apart begins with none", Test: "TestReplicasKeepToRule", Says: "too many have begun", Cuts: []mutant.Cut{
		{In: "limit", Set: "host.bucket", Under: []string{"Hosts.SetReplicas"}, Except: []string{"host.apply"}, Becomes: mutant.Nothing},
	}},
	{Name: "a replica apart has its part", Test: "TestReplicasKeepToRule", Says: "too many have begun", Cuts: []mutant.Cut{
		{In: "limit", Read: "Hosts.partitioned", Under: []string{"host.apply"}, Becomes: mutant.False},
	}},
	{Name: "cool-down", Says: "a prefetch waits for a host that cools down", Cuts: []mutant.Cut{
		{In: "limit", Call: "host.refusal", Under: []string{"host.dispatch"}, Becomes: "error(nil)"},
	}},
}

// TestMutants shows that TestRandomLoad, or the named test, fails without each of the rules. Every
// run checks that the code of the rules is found.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.Name, " ", "_"), func(t *testing.T) {
			m.Test, m.Env = cmp.Or(m.Test, "TestRandomLoad"), []string{"MCPSCHEDD_SOAK=0"}
			m.Check(t)
		})
	}
}
