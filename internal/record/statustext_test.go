package record_test

import (
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"mcpschedd/internal/record"
)

func TestSaved(t *testing.T) {
	for want, f := range map[string]record.Totals{
		"No calls today.":                                {},
		"Saved nothing of 500 ms waiting today.":         {Part: record.Part{Calls: 1, WaitedMS: 500}},
		"Saved 12 s of 40 s waiting and 3 turns today.":  {Part: record.Part{Calls: 9, HiddenMS: 12_000, WaitedMS: 28_000}, TurnsSaved: record.Turns{Plan: 3}},
		"Saved 1.5 s of 6 min waiting and 1 turn today.": {Part: record.Part{Calls: 9, HiddenMS: 1500, WaitedMS: 360_000}, TurnsSaved: record.Turns{Plan: 1}},
	} {
		s := record.Stats{Totals: f}
		if got := s.Saved("today"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Upstreams of several processes share a line if they are in the same state; those that only
// pass through are grouped by reason; and control characters do not reach the terminal.
func TestStanding(t *testing.T) {
	unknown := "its tools are unclassified, so each call counts as a write"
	github := record.UpstreamStatus{Name: "github", State: "ready", Tools: 41, Cacheable: 38, Prefetchable: 35, MemoryKB: 50 << 10, Restarts: 1}
	down := record.UpstreamStatus{Name: "pg", State: "down", Error: "no \x1b[2Jsuch file", Why: "its tools are not known yet: no session has used it"}
	s := record.Stats{Running: []record.Status{
		{PID: 1, Transport: "stdio", Dir: "/a", MemoryKB: 20 << 10, Clients: []record.ClientStatus{{Client: "claude 2", Sessions: 1}}, Upstreams: []record.UpstreamStatus{
			github, down, {Name: "b", State: "ready", Tools: 2, Why: unknown, Change: "trust = true in [upstreams.b], if you believe it"}, {Name: "a", State: "idle", Tools: 3, Why: unknown}}},
		{PID: 2, Transport: "http", Config: "/c.toml", ConfigError: "line 3", Clients: []record.ClientStatus{{Sessions: 2}, {Client: "x"}}, Upstreams: []record.UpstreamStatus{github}},
		{PID: 3, Transport: record.Daemon, Dir: "/b", MemoryKB: 30 << 10, Clients: []record.ClientStatus{{Client: "y", Sessions: 1}}},
		{PID: 3, Transport: record.Daemon, Dir: "/c"},
	}}
	want := `The current configuration file is not in force: line 3
1 of 4 servers cannot be used now: pg.
2 of 4 servers pass through: their tools are unclassified: a, b.

a       idle   3 tools, 0 cacheable, 0 prefetchable
    ` + unknown + `
b       ready  2 tools, 0 cacheable, 0 prefetchable
    ` + unknown + `; to change that: trust = true in [upstreams.b], if you believe it
github  ready  41 tools, 38 cacheable, 35 prefetchable  100 MB, 2 restarts, in 2 places
pg      down   no ?[2Jsuch file

process 1, stdio in /a, configuration built in, 20 MB: claude 2
process 2, http, configuration /c.toml: a client (2 sessions), x
process 3, daemon, configuration built in, 30 MB
    in /b: y
    in /c: no client
`
	if got := s.StatusText(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// If many reads had no prefetch, one line gives the reason and the setting.
func TestWhyNone(t *testing.T) {
	calls := func(class string, n int, more ...record.Event) string {
		for i := range n {
			more = append(more, record.Event{Kind: record.Call, Session: "a", Seq: int64(i + 1), Upstream: "files", Tool: "read", Disposition: record.Fetched, Class: class})
		}
		s := tallied(more...).Stats(time.Time{})
		return s.StatusText()
	}
	reads := func(n int, more ...record.Event) string { return calls("read_only", n, more...) }
	declined := record.Event{Kind: record.Choice, Session: "a", Candidates: 9, Reasons: map[string]int{"unsteady": 6, "gate": 2, "cap": 1}}
	for _, tt := range []struct {
		name, text, want string
	}{
		{"reasons", reads(21, declined), "Nothing was prefetched: of 9 candidates 6 may change unnoticed (the data that they read may change without the proxy noticing: set remote = true for the server if it asks a remote service, exclusive = true if nothing else changes it, or validate for tools that read a file); 2 not worth it (the expected waste outweighs the expected saving: waste_ms and second_worth_usd set the weight).\n"},
		{"an unknown reason", reads(21, record.Event{Kind: record.Choice, Session: "a", Reasons: map[string]int{"mood\x1b": 1}}), "Nothing was prefetched: of 1 candidates 1 mood?.\n"},
		{"nothing thought of", reads(21), "Nothing was prefetched: no call was predicted; no follow-up has been seen, or [enrichment] mode is \"off\".\n"},
		{"an upstream without a model", calls("indeterminate", 48), "Nothing was prefetched: 48 calls were to tools that are not known to be read-only, so they are neither cached nor prefetched: mcpschedd check --connect -v prints the lines to paste.\n"},
		{"too few reads to say", reads(20, declined), ""},
	} {
		if tt.text != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, tt.text, tt.want)
		}
	}
}

// Prefetches are shown before their fate is known.
func TestUnderWay(t *testing.T) {
	sent := record.Event{Kind: record.Sent, Session: "a", Seq: 2, Upstream: "files", Tool: "read", Sent: 1, Prefetched: true}
	call := record.Event{Kind: record.Call, Session: "a", Seq: 1, Upstream: "files", Tool: "read", Disposition: record.Fetched, Class: "read_only"}
	for _, tt := range []struct {
		all  []record.Event
		want string
	}{
		{[]record.Event{call, sent}, "prefetches  1, 1 still open\n"},
		{[]record.Event{sent}, "prefetches  1, 1 still open\n"},
		{[]record.Event{call, sent, {Kind: record.Prefetch, Session: "a", Seq: 3, Fate: record.Wasted, Cause: "expired"}}, "prefetches  2, wasted 1 (1 too old when a call came), 1 still open\n"},
		{[]record.Event{call, sent, {Kind: record.End, Session: "a"}}, "prefetches  1, 1 still open\n"},
	} {
		s := tallied(tt.all...).Stats(time.Time{})
		if got := s.Figures(); !strings.Contains(got, tt.want) {
			t.Errorf("want %q in\n%s", tt.want, got)
		}
	}
}

// Each warning is given once, the most severe first, with its fix.
func TestWrong(t *testing.T) {
	s := record.Stats{Running: []record.Status{
		{ConfigError: "line 3", Upstreams: []record.UpstreamStatus{{Name: "pg", State: "down", Error: "no such file"}, {Name: "a", State: "ready", Tools: 3, Why: "nothing is known", Change: "trust = true"}}},
		{Upstreams: []record.UpstreamStatus{{Name: "pg", State: "down", Error: "exit status 1"}, {Name: "git", State: "ready", Tools: 3, Cacheable: 2}}},
	}}
	want := []record.Warning{
		{Message: "The current configuration file is not in force: line 3", Fix: "mcpschedd check"},
		{Message: "1 of 3 servers cannot be used now: pg.", Fix: "mcpschedd logs pg"},
		{Message: "1 of 3 servers passes through: nothing is known: a.", Fix: "trust = true"},
	}
	if diff := gocmp.Diff(want, s.Warnings()); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	if got := (&record.Stats{}).Warnings(); len(got) > 0 {
		t.Errorf("nothing is wrong: got %v", got)
	}
}
