package valkey_test

import (
	"cmp"
	"strings"
	"testing"

	"mcpschedd/internal/mutant"
)

// mutants each remove one rule of replicas.
var mutants = []mutant.Mutant{
	{Name: "told before it is sent", Cuts: []mutant.Cut{
		{In: "valkey", Call: "Store.announce", Under: []string{"Store.Announce"}, Becomes: "*s.history.Load(), error(nil)"},
	}},
	{Name: "tokens are read from the primary", Cuts: []mutant.Cut{ // not from a tracked copy
		{In: "valkey", Call: "clientOption", Under: []string{"New"}, Becomes: `func() (client rueidis.ClientOption, n int, err error) { client, n, err = $&; client.DisableCache = false; return }()`},
		{In: "valkey", Call: "Store.roundTrip", Under: []string{"Store.Lookup"}, Except: []string{"Store.repair", "Store.deleteOldHistories"}, Becomes: `func() (out reply, err error) {
			if s.conn.Load() == nil {
				return out, errDown
			}
			c := *s.conn.Load()
			out.now = time.Now().UnixMilli()
			for _, p := range places {
				out.results = append(out.results, c.DoCache(ctx, c.B().Hgetall().Key(placeKey(*s.history.Load(), p)).Cache(), time.Hour))
				if err := out.results[len(out.results)-1].NonRedisError(); err != nil {
					return out, err
				}
			}
			return out, nil
		}()`},
	}},
	{Name: "what is absent is not known", Cuts: []mutant.Cut{
		{In: "valkey", Call: "Store.repair", Under: []string{"Store.Lookup"}, Becomes: `if len(members) == 0 { tokens[i] = "absent" } else { $& }`},
		{In: "dedup", Call: "epochs.bump", Under: []string{"Store.bumpChangedLocked"}, Becomes: `if token != "absent" { $& }`},
	}},
	{Name: "another token is a change", Cuts: []mutant.Cut{
		{In: "dedup", Call: "epochs.bump", Under: []string{"Store.bumpChangedLocked"}, Becomes: mutant.Nothing},
	}},
	{Name: "nothing is shared beside a pending write", Cuts: []mutant.Cut{
		{In: "dedup", Set: "peerView.valid", Under: []string{"Store.bumpChangedLocked"}, Becomes: mutant.Nothing},
	}},
	{Name: "the tokens of an answer", Cuts: []mutant.Cut{
		{In: "valkey", Call: "tokensDigest", Under: []string{"Store.Lead"}, Becomes: "tokensDigest(nil)"},
	}},
	{Name: "the history", Test: "TestInvariant/set_back_by_a_restart", Cuts: []mutant.Cut{
		{In: "valkey", Call: "infoField", Under: []string{"Store.historyOf"}, Becomes: `func(_, name string) string { return map[bool]string{true: "master", false: "same"}[name == "role"] }($1, $2)`},
	}},
	{Name: "a new history is not relied on", Cuts: []mutant.Cut{
		{In: "valkey", Call: "Store.grace", Becomes: "time.Duration(0)"},
	}},
	{Name: "a majority confirms the primary", Test: "TestInvariant/standbys_take_over", Cuts: []mutant.Cut{
		{In: "valkey", Call: "Store.confirmed", Becomes: mutant.True},
	}},
	{Name: "a majority has what was written", Test: "TestInvariant/standbys_take_over", Cuts: []mutant.Cut{
		{In: "valkey", Call: "confirmation.standbysNeeded", Becomes: "int64(0)"},
	}},
	{Name: "no write begins while another primary may answer", Test: "TestInvariant/standbys_take_over", Cuts: []mutant.Cut{
		{In: "valkey", Call: "Store.mayBegin", Becomes: mutant.True},
	}},
	{Name: "a history ends when a standby comes", Test: "TestInvariant/standbys_take_over", Cuts: []mutant.Cut{
		{In: "valkey", Call: "infoField", Under: []string{"Store.historyOf"}, Becomes: `func(text, name string) string { return map[bool]string{true: "same", false: infoField(text, name)}[name[0] == 's'] }($1, $2)`},
	}},
	{Name: "a part is left to a replica that is lost", Test: "TestPaceOfAll", Says: "too many have begun", Cuts: []mutant.Cut{
		{In: "valkey", Call: "Store.presenceTTL", Under: []string{"Store.Take"}, Becomes: `"1e15"`},
	}},
	{Name: "what replicas share is counted", Test: "TestQuotaOfAll", Says: "prefetches began", Cuts: []mutant.Cut{
		{In: "limit", Call: "Hosts.usesShared", Under: []string{"host.takeSpare", "host.refusal"}, Becomes: mutant.False},
	}},
	{Name: "a write that comes too late is not sent", Test: "TestProcesses", Cuts: []mutant.Cut{
		{In: "valkey", Read: "announcement.ended", Under: []string{"announcement.Fence"}, Becomes: mutant.False},
		{In: "valkey", Call: "Store.holdTime", Under: []string{"announcement.Fence"}, Becomes: "24 * time.Hour"},
	}},
	{Name: "the principal is in the key", Test: "TestProcesses", Says: "another principal", Cuts: []mutant.Cut{
		{In: "proxy", Set: "dedup.Query.SharedKey", Becomes: `out.query.SharedKey = strings.Join([]string{scope, c.tool, out.query.Key.Arguments}, "\x00")`},
	}},
	{Name: "a write is given up in time", Cuts: []mutant.Cut{
		{In: "valkey", Call: "Store.giveUp", Becomes: mutant.Nothing},
	}},
}

// TestMutants shows that TestInvariant, or the named test, fails without each of the rules. Every
// run checks that the code of the rules is found.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.Name, " ", "_"), func(t *testing.T) {
			m.Test, m.Says = cmp.Or(m.Test, "TestInvariant/emptied_by_a_restart"), cmp.Or(m.Says, "stale answer")
			m.Env = []string{"MCPSCHEDD_SOAK=1"} // the first fault ends the test
			m.Check(t)
		})
	}
}
