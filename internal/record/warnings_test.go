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
		"No calls today.":                     {},
		"Saved 0 ms of 500 ms waiting today.": {Figures: record.Figures{Calls: 1, WaitedMS: 500}},
		"Saved 12.0 s of 6 min 12 s waiting today. Turns of the model saved by plans: 3.": {Figures: record.Figures{Calls: 9, HiddenMS: 12_000, WaitedMS: 360_000}, TurnsSaved: record.Turns{Plan: 3}},
	} {
		s := record.Stats{Totals: f}
		if got := s.Saved("today"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for ms, want := range map[float64]string{
		0: "0 ms", .5: "<1 ms", 113: "113 ms", 999.6: "1.00 s", 9_949: "9.95 s", 9_960: "10.0 s", 59_960: "1 min", 176_000: "2 min 56 s",
		3_600_000: "1 h", 40 * 3_600_000: "40 h", 49*3_600_000 + 59_000: "2 d 1 h",
	} {
		s := record.Stats{Totals: record.Totals{Figures: record.Figures{Calls: 1, WaitedMS: ms}}}
		if got := s.Saved(""); got != "Saved 0 ms of "+want+" waiting." {
			t.Errorf("%v ms: got %q, want %q", ms, got, want)
		}
	}
}

// An upstream of several processes is on one line, unless its errors differ. Each warning appears
// once. Control characters do not reach the terminal.
func TestStatusText(t *testing.T) {
	const unknown = "each call of an unclassified tool counts as a write"
	github := record.UpstreamStatus{Name: "github", State: "ready", Tools: 41, Cacheable: 38, Prefetchable: 35, MemoryKB: 50 << 10}
	down := record.UpstreamStatus{Name: "pg", State: "down", Error: "no \x1b[2Jsuch file", Why: "its tools are not known yet: no session has used it"}
	wrong := record.UpstreamStatus{Name: "pg", State: "down", Error: "refused"}
	since, left := start, int64(7)
	reported := map[string]record.Figures{"f": {Prefetch: record.PrefetchFigures{Issued: 1}}} // while a client's hooks reported its changes
	s := record.Stats{Upstreams: reported, Running: []record.Status{
		{PID: 1, Since: since, Transport: "stdio", Dir: "/a", MemoryKB: 20 << 10, Clients: []record.ClientStatus{{Client: "claude 2", Sessions: 1}}, Upstreams: []record.UpstreamStatus{
			github, down, {Name: "b", State: "ready", Tools: 2, Why: unknown, Change: "trust = true in [upstreams.b]"}, {Name: "a", State: "idle", Tools: 1, Why: unknown + " (1 of its 1 tools)"}, {Name: "c", State: "ready", Tools: 4, Prefetchable: 3, Why: unknown + " (1 of its 4 tools)"},
			{Name: "d", State: "ready", Error: "tools/list: more than 1000 pages"}, {Name: "e", State: "idle", Error: "not found in PATH"}, {Name: "f", State: "idle", Tools: 1, Why: unknown}}},
		{PID: 3, Since: since, Transport: "daemon", Dir: "/a", Clients: []record.ClientStatus{{Client: "x", Sessions: 1}}},
		{PID: 2, Since: since, Transport: "http", Dir: "/", Config: "/c.toml", ConfigError: "line 3\nline 4", StoreError: "EOF", Clients: []record.ClientStatus{{Sessions: 2, Used: 3, Left: &left}}, Upstreams: []record.UpstreamStatus{github, wrong, {Name: "a", State: "idle", Tools: 1}, {Name: "b", State: "idle", Error: "exit status 1"}, {Name: "e", State: "idle", Tools: 1}},
			Pinned: map[string]string{"github/get": "called often"}, Pool: &record.PoolBudget{Tokens: 10, Used: 4, LeftS: 90}},
		{PID: 3, Since: since, Transport: "daemon", Dir: "/b"},
	}}
	begin := start.Local().Format(time.DateTime)
	want := `No calls.
The current configuration file is not in force: line 3; line 4
The replicas' store cannot be used, so no answer is served from the cache and no write is sent: EOF
Not available now: d, pg in /, pg in /a.
Not available when last used: e.
Nothing is cached or prefetched of: a, b.

a         idle   1 tool, 0 cacheable, 0 prefetchable
b         ready  2 tools, 0 cacheable, 0 prefetchable
c         ready  4 tools, 0 cacheable, 3 prefetchable
d         ready  tools/list: more than 1000 pages
e         idle   not found in PATH
f         idle   1 tool, 0 cacheable, 0 prefetchable
github    ready  41 tools, 38 cacheable, 35 prefetchable, 100 MB
pg in /   down   refused
pg in /a  down   no ?[2Jsuch file
a, c, f: ` + unknown + `
b: ` + unknown + `; to change that: trust = true in [upstreams.b]

process 1 since ` + begin + `, stdio in /a, configuration built in, 20 MB
    claude 2: 1 open
process 2 since ` + begin + `, http in /, configuration /c.toml
    a client: 2 open, about 3 tokens used, at least 7 left
    lists github/get: called often
    the pool of 10 tokens has 6 left for 1 min 30 s
process 3 since ` + begin + `, daemon in /a, configuration built in
    x: 1 open
  and in /b
`
	v := record.View{Stats: s}
	if diff := gocmp.Diff(want, v.Text(false)); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	fixes := []string{"mcpschedd check", "", "mcpschedd check --connect", "mcpschedd check --connect", "mcpschedd check --connect"}
	for i, w := range s.Warnings() {
		if w.Fix != fixes[i] {
			t.Errorf("%s: got the fix %q, want %q", w.Message, w.Fix, fixes[i])
		}
	}
	if got := (&record.Stats{}).Warnings(); len(got) > 0 {
		t.Errorf("nothing is wrong: got %v", got)
	}
	off := record.Stats{Running: []record.Status{{Upstreams: []record.UpstreamStatus{{Name: "a", State: "ready", Tools: 2, Why: record.PrefetchOff + "a setting"}}}}}
	off.Totals.Reads = 1000
	if got := off.Warnings(); len(got) > 0 {
		t.Errorf("prefetching is off: got %v", got)
	}
}

// If many reads had no prefetch, one line gives the most frequent reason and the setting.
func TestWhyNone(t *testing.T) {
	calls := func(class string, n int, more ...record.Event) string {
		for i := range n {
			more = append(more, record.Event{Kind: record.Call, Session: "a", Seq: int64(i + 1), Upstream: "files", Tool: "read", Disposition: record.Fetched, Class: class})
		}
		v := tallied(more...).View(time.Time{})
		_, text, _ := strings.Cut(v.Text(false), "\n")
		return text
	}
	declined := record.Event{Kind: record.Decision, Session: "a", Candidates: 9, Declined: map[string]int{"unsteady": 6, "gate": 2, "cap": 1}}
	unlikely := record.Event{Kind: record.Decision, Session: "a", Candidates: 70, Declined: map[string]int{"low_probability": 70}}
	compared := record.Event{Kind: record.Prefetch, Session: "a", Seq: 90, Fate: record.Compared, Sent: 1}
	wasted := record.Event{Kind: record.Prefetch, Session: "a", Seq: 91, Fate: record.Wasted, Cause: "never_asked", Sent: 1}
	used := record.Event{Kind: record.Prefetch, Session: "a", Seq: 92, Fate: record.Used, Sent: 1}
	unknown := make([]record.Event, 48)
	for i := range unknown {
		unknown[i] = record.Event{Kind: record.Call, Session: "a", Seq: int64(100 + i), Tool: "removed__read", Disposition: record.Failed, Error: "refused"}
	}
	for _, tt := range []struct{ name, text, want string }{
		{"reasons", calls("read_only", 21, declined), "Nothing was prefetched: 9 of 9 candidates were likely enough, and most of those were left out because the data that they read may change"},
		{"likely ones", calls("read_only", 21, declined, unlikely), "Nothing was prefetched: 9 of 79 candidates were likely enough, and most of those were left out because the data that they read may change"},
		{"no likely ones", calls("read_only", 21, unlikely), "Nothing was prefetched: none of 70 candidates was likely enough (min_probability).\n"},
		{"only compared", calls("read_only", 21, declined, compared), "Nothing that was prefetched has been served yet: results of tools that only their server declares read-only are compared with those of calls first, 1 so far.\n"},
		{"compared and wasted", calls("read_only", 21, compared, wasted), "Nothing that was prefetched has been served yet: results of tools that only their server declares read-only are compared with those of calls first, 1 so far. Prefetches that no call used: 1, most because the session or the process ended first.\n"},
		{"only wasted", calls("read_only", 21, declined, wasted), "Prefetches that no call used: 1, most because the session or the process ended first.\n"},
		{"used", calls("read_only", 21, declined, wasted, used), ""},
		{"inlined", calls("read_only", 21, wasted, record.Event{Kind: record.Call, Session: "a", Seq: 93, Inlined: 1}), ""},
		{"an unknown reason", calls("read_only", 21, record.Event{Kind: record.Decision, Session: "a", Declined: map[string]int{"mood\x1b": 1}}), "Nothing was prefetched: 1 of 1 candidates were likely enough, and most of those were left out because mood?.\n"},
		{"no candidates", calls("read_only", 21), "Nothing was prefetched: no call was predicted; no follow-up has been seen, or [enrichment] has mode = \"off\" or learn = false.\n"},
		{"an upstream without a model", calls("indeterminate", 48), "Nothing was prefetched: 48 calls were to tools that are not known to be read-only; mcpschedd check --connect -v prints the lines to paste.\n"},
		{"an upstream whose calls may write", calls("may_write", 48), "Nothing was prefetched: 48 calls may write, by their tools' classes or their arguments; mcpschedd explain NAME/TOOL says why.\n"},
		{"too few reads to say", calls("read_only", 20, declined), ""},
		{"calls of tools that no server has", calls("read_only", 20, unknown...), ""},
	} {
		if !strings.HasPrefix(tt.text, tt.want) || tt.want == "" && tt.text != "" {
			t.Errorf("%s: got %q, want %q", tt.name, tt.text, tt.want)
		}
	}
}

// Prefetches that were left out because of the hourly limit of their host are a warning, which names the host
// and the key.
func TestWarnsOfQuota(t *testing.T) {
	var s record.Stats
	s.SetRunning([]record.Status{{Hosts: map[string]record.Host{"api.github.com": {OverQuota: 3}, "x.example": {Prefetches: 9}}}})
	s.Totals.Prefetch.Issued = 200
	if got := s.Warnings(); len(got) > 0 {
		t.Errorf("not today: got %v", got)
	}
	s.Totals.Declined = map[string]int64{"quota": 3}
	want := []record.Warning{{Message: `Prefetches were left out because their host has an hourly limit of them: speculative_per_hour in [limits."api.github.com"] sets it.`}}
	if diff := gocmp.Diff(want, s.Warnings()); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

// While a host cools down after a rate limit response, a warning says for how long nothing is prefetched from it.
func TestWarnsOfCoolDown(t *testing.T) {
	var s record.Stats
	s.SetRunning([]record.Status{{Hosts: map[string]record.Host{"api.github.com": {CoolingMS: 90_000}, "x.example": {Limited: 1}}}})
	want := []record.Warning{{Message: "Nothing is prefetched from api.github.com for 1 min 30 s, as it reported a rate limit."}}
	if diff := gocmp.Diff(want, s.Warnings()); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

// Prefetches are counted before their fate is known, in the totals as for their tools.
func TestOpenPrefetches(t *testing.T) {
	s := tallied(record.Event{Kind: record.Prefetch, Session: "a", Seq: 3, Fate: record.Used, UsedBy: 2, Sent: 1}).Stats(time.Time{})
	s.AddOpen(record.Event{Upstream: "github", Tool: "get_issue", Sent: 1}, record.Event{Upstream: "wiki", Tool: "search"}) // the second waits for a slot
	if f := s.Totals; f.Prefetch.Open != 2 || f.Prefetch.Issued != 3 || f.Prefetch.Dispatched != 2 || f.Prefetch.Accuracy != 1 || f.UpstreamCalls != 2 || !strings.Contains(s.Report, "prefetch_hit=100.0%") {
		t.Errorf("got %+v, %s", f, s.Report)
	}
	for name, want := range map[string]int64{"github/get_issue": 2, "wiki/search": 1} {
		upstream, _, _ := strings.Cut(name, "/")
		if f, of := s.Tools[name].Prefetch, s.Upstreams[upstream].Prefetch; f.Issued != want || f.Open != 1 || of.Issued != want || of.Open != 1 {
			t.Errorf("%s: got %+v, of its server %+v", name, f, of)
		}
	}
}

// The page reads the warnings as an array, also if there are none.
func TestNoWarnings(t *testing.T) {
	if got := (&record.View{}).Warnings(); got == nil || len(got) > 0 {
		t.Errorf("got %#v, want an empty slice that is not nil", got)
	}
}
