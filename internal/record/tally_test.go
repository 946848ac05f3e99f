package record_test

import (
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/record"
)

var start = time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)

// tallied adds events, and sets missing processes, sessions, tools, times and numbers.
func tallied(all ...record.Event) *record.Tally {
	t := record.NewTally(0)
	for i := range all {
		e := lively(all[i], i)
		t.Add(&e)
	}
	return t
}

func lively(e record.Event, i int) record.Event {
	if e.At.IsZero() {
		e.At = start.Add(time.Duration(i) * time.Second)
	}
	if e.Process == "" {
		e.Process = "p"
	}
	if e.Kind == record.Call || e.Kind == record.Prefetch {
		if e.Session == "" {
			e.Session = "s"
		}
		if e.Tool == "" {
			e.Upstream, e.Tool = "github", "get_issue"
		}
		if e.Seq == 0 {
			e.Seq = int64(i + 1)
		}
	}
	return e
}

// TestRules checks each rule of counting with the totals of a few events.
func TestRules(t *testing.T) {
	hit := record.Event{Kind: record.Call, Disposition: record.Hit}
	fetched := record.Event{Kind: record.Call, Disposition: record.Fetched, Sent: 1}
	wasted := record.Event{Kind: record.Prefetch, Fate: record.Wasted, Cause: "expired", Sent: 1}
	with := func(e record.Event, change func(*record.Event)) record.Event {
		change(&e)
		return e
	}
	type totals = record.Totals
	tests := []struct {
		name string
		all  []record.Event
		want func(*totals)
	}{
		{"each disposition", []record.Event{hit, {Kind: record.Call, Disposition: record.Joined}, fetched, {Kind: record.Call, Disposition: record.Failed, Error: "timeout"}}, func(f *totals) {
			f.Calls, f.ServedStored, f.Joined, f.Fetched, f.Failed = 4, 1, 1, 1, 1
			f.Repeats, f.UpstreamCalls, f.Amplification = 2, 1, 0.25
		}},
		{"a step is a call", []record.Event{with(fetched, func(e *record.Event) { e.Plan, e.Step, e.Bytes, e.Tokens = 1, "a", 400, 100 })}, func(f *totals) {
			f.Calls, f.Fetched, f.UpstreamCalls, f.Amplification = 1, 1, 1, 1 // and its answer goes to the plan, not to the client
		}},
		{"an unknown tool", []record.Event{{Kind: record.Call, Disposition: record.Failed, Tool: "nonsense"}}, func(f *totals) { f.Calls, f.Failed = 1, 1 }},
		{"no disposition", []record.Event{{Kind: record.Call}, {Kind: record.Call, Disposition: "declined"}}, func(*totals) {}},
		{"no fate", []record.Event{{Kind: record.Prefetch}, {Kind: record.Prefetch, Fate: "lost"}}, func(*totals) {}},
		{"an unknown kind", []record.Event{{Kind: "weather", HiddenMS: 4}}, func(*totals) {}},
		{"hidden by a prefetch, then by a repeat of it", []record.Event{
			with(hit, func(e *record.Event) { e.Prefetched, e.UseOf, e.HiddenMS, e.LatencyMS = true, 9, 300, 1 }),
			with(hit, func(e *record.Event) { e.Prefetched, e.HiddenMS, e.LatencyMS = true, 100, 2 }),
		}, func(f *totals) {
			f.Calls, f.ServedStored, f.Repeats, f.HiddenMS, f.HiddenByPrefetch, f.WaitedMS = 2, 2, 1, 400, 300, 3
		}},
		{"only what was served has hidden", []record.Event{with(fetched, func(e *record.Event) { e.HiddenMS = 300 })}, func(f *totals) {
			f.Calls, f.Fetched, f.UpstreamCalls, f.Amplification = 1, 1, 1, 1
		}},
		{"hidden is a number", []record.Event{
			with(hit, func(e *record.Event) { e.HiddenMS, e.LatencyMS = math.NaN(), math.NaN() }),
			with(hit, func(e *record.Event) { e.HiddenMS, e.LatencyMS = -3, -3 }),
			with(hit, func(e *record.Event) { e.HiddenMS = math.Inf(1) }),
		}, func(f *totals) { f.Calls, f.ServedStored, f.Repeats, f.HiddenMS = 3, 3, 3, 1e12 }},
		{"fates and causes", []record.Event{
			wasted, wasted, with(wasted, func(e *record.Event) { e.Cause, e.Sent = "dropped", 0 }), with(wasted, func(e *record.Event) { e.Cause = "" }),
			{Kind: record.Prefetch, Fate: record.Used, UsedBy: 9, Sent: 1}, {Kind: record.Prefetch, Fate: record.Late, UsedBy: 10, Sent: 2},
			{Kind: record.Prefetch, Fate: record.Used, UsedBy: 11, Sent: 1}, {Kind: record.Prefetch, Fate: record.Compared, UsedBy: 12, Sent: 1},
		}, func(f *totals) {
			p := &f.Prefetch
			p.Issued, p.Dispatched, p.Used, p.Late, p.Compared, p.Accuracy, p.Timeliness = 8, 7, 3, 1, 1, 3.0/8, 2.0/3
			p.Wasted = map[string]int64{"expired": 2, "dropped": 1, "unknown": 1}
			f.UpstreamCalls = 8
		}},
		{"reads", []record.Event{
			with(fetched, func(e *record.Event) { e.Class = "pure" }), with(fetched, func(e *record.Event) { e.Class = "read_only" }),
			with(fetched, func(e *record.Event) { e.Class = "mutates_external" }), {Kind: record.Prefetch, Fate: record.Used, Class: "read_only", UsedBy: 2},
		}, func(f *totals) {
			f.Calls, f.Fetched, f.UpstreamCalls, f.Amplification, f.Reads, f.ServedShare = 3, 3, 3, 1, 2, 0.5
			f.Prefetch.Issued, f.Prefetch.Used, f.Prefetch.Accuracy, f.Prefetch.Timeliness = 1, 1, 1, 1
		}},
		{"what was not resent, by the event's own ratio", []record.Event{
			with(hit, func(e *record.Event) { e.Bytes, e.Tokens, e.NotResent, e.Reference = 1000, 500, 800, true }),
		}, func(f *totals) {
			f.Calls, f.ServedStored, f.Repeats, f.References, f.TokensSaved, f.TokensToClient = 1, 1, 1, 1, 400, 100
		}},
		{"and by four bytes a token where it says none", []record.Event{
			with(fetched, func(e *record.Event) { e.Bytes, e.Tokens = 600, 200 }),
			with(hit, func(e *record.Event) { e.NotResent, e.Reference = 300, true }),
		}, func(f *totals) {
			f.Calls, f.ServedStored, f.Fetched, f.UpstreamCalls, f.Amplification = 2, 1, 1, 1, 0.5
			f.Repeats, f.References, f.TokensSaved, f.TokensToClient = 1, 1, 75, 200
		}},
		{"plans", []record.Event{
			{Kind: record.Plan, Steps: 4, Depth: 3, BytesIn: 10_000, BytesOut: 2000}, {Kind: record.Plan, Steps: 1, Depth: 1, BytesIn: 10, BytesOut: 200},
			{Kind: record.Plan}, {Kind: record.Plan, Steps: 2, Depth: 5, BytesIn: 5000, Cancelled: true},
		}, func(f *totals) {
			f.Plans, f.PlanSteps, f.TurnsSaved.Plan, f.TokensSaved, f.TokensToClient = 4, 7, 2, 2000, 550
		}},
		{"overruns", []record.Event{
			with(wasted, func(e *record.Event) { e.Predicted, e.Tokens = 100, 130 }), with(wasted, func(e *record.Event) { e.Predicted, e.Tokens = 100, 129 }),
			with(wasted, func(e *record.Event) { e.Predicted = 100 }), with(wasted, func(e *record.Event) { e.Tokens = 100 }),
			with(hit, func(e *record.Event) { e.UseOf, e.Predicted, e.Tokens = 1, 100, 130 }),
		}, func(f *totals) {
			f.Calls, f.ServedStored, f.UpstreamCalls, f.Amplification = 1, 1, 4, 4
			f.Prefetch.Issued, f.Prefetch.Dispatched, f.Prefetch.Wasted = 4, 4, map[string]int64{"expired": 4}
			f.Predictions, f.CostOverruns = 2, 1
		}},
		{"choices and their regret", []record.Event{
			{Kind: record.Choice, Candidates: 5, Issued: 1, Reasons: map[string]int{"gate": 3, "budget": 1}, LateCalled: 1, BestMS: 100, AchievedMS: 40},
			{Kind: record.Choice, Candidates: 2, Issued: 1, Reasons: map[string]int{"gate": 1}, BestMS: 50, AchievedMS: 70},
		}, func(f *totals) {
			f.Candidates, f.LateInvoked, f.RegretMS, f.BestMS = 7, 1, 60, 150
			f.Declined = map[string]int64{"gate": 4, "budget": 1}
		}},
		{"harm", []record.Event{
			{Kind: record.Harm, Why: "foreground_wait", LatencyMS: 12.5}, {Kind: record.Harm, Why: "foreground_wait", LatencyMS: 2}, {Kind: record.Harm, Why: "rate_limited"},
			{Kind: record.Harm, Why: "eviction"}, {Kind: record.Harm, Why: "question"}, {Kind: record.Harm, Why: "hail", LatencyMS: 7},
		}, func(f *totals) {
			f.Harm = record.HarmPart{ForegroundWaitMS: 14.5, RateLimited: 1, Evictions: 1, Questions: 1}
		}},
		{"what else calls say", []record.Event{
			with(fetched, func(e *record.Event) { e.IsError = true }), with(hit, func(e *record.Event) { e.BackedOff, e.Inlined = true, 2 }),
		}, func(f *totals) {
			f.Calls, f.ServedStored, f.Fetched, f.UpstreamCalls, f.Amplification = 2, 1, 1, 1, 0.5
			f.Repeats, f.Errors, f.BackOffs, f.Inlined = 1, 1, 1, 2
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want totals
			want.Prefetch.Wasted, want.Declined = map[string]int64{}, map[string]int64{}
			tt.want(&want)
			got := tallied(tt.all...).Stats(time.Time{}).Totals
			got.LatencyMS, got.FetchMS, got.ResultKB = record.Quantiles{}, record.Quantiles{}, record.Quantiles{}
			got.HiddenByRepeat, got.Prefetch.InTime, got.RecallLoss, got.OverrunShare = 0, 0, 0, 0 // derived figures
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

func TestOfWhatAnEventCounts(t *testing.T) {
	tally := tallied(
		record.Event{Kind: record.Begin, Config: "/etc/pipeline.toml"},
		record.Event{Kind: record.Session, Session: "a", Client: "claude-code 2.1"},
		record.Event{Kind: record.Call, Session: "a", Disposition: record.Fetched, Sent: 1, LatencyMS: 100},
		record.Event{Kind: record.Call, Session: "b", Upstream: "files", Tool: "read", Disposition: record.Fetched, Sent: 1, LatencyMS: 10},
		record.Event{Kind: record.Prefetch, Session: "a", Upstream: "files", Tool: "read", Fate: record.Wasted, Cause: "expired", Sent: 1},
		record.Event{Kind: record.Call, Session: "a", Tool: "nonsense", Disposition: record.Failed},
		record.Event{Kind: record.Plan, Session: "b", Depth: 3},
		record.Event{Kind: record.Choice, Session: "b", Candidates: 3},
		record.Event{Kind: record.Harm, Session: "b", Why: "eviction"},
		record.Event{Kind: record.End, Session: "a"},
	)
	s := tally.Stats(start.Add(time.Minute))
	type sum struct{ calls, failed, prefetches int64 }
	got := make(map[string]sum)
	for name, p := range s.Tools {
		got[name] = sum{p.Calls, p.Failed, p.Prefetch.Issued}
	}
	for name, p := range s.Upstreams {
		got[name] = sum{p.Calls, p.Failed, p.Prefetch.Issued}
	}
	got["all"] = sum{s.Totals.Calls, s.Totals.Failed, s.Totals.Prefetch.Issued}
	for _, r := range tally.Rows() {
		got["session "+r.Session] = sum{r.Calls, r.Failed, r.Prefetch.Issued}
	}
	want := map[string]sum{
		"github/get_issue": {1, 0, 0}, "files/read": {1, 0, 1}, "github": {1, 0, 0}, "files": {1, 0, 1},
		"all": {3, 1, 1}, "session a": {2, 1, 1}, "session b": {1, 0, 0},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(sum{})); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	rows := tally.Rows()
	if a, b := rows[0], rows[1]; a.Client != "claude-code 2.1" || a.Process != "p" || a.BeginUS != start.Add(time.Second).UnixMicro() || a.EndUS != start.Add(9*time.Second).UnixMicro() ||
		b.BeginUS != start.Add(3*time.Second).UnixMicro() || b.EndUS != 0 || b.TurnsSaved.Plan != 2 || b.Candidates != 3 || b.Harm.Evictions != 1 {
		t.Errorf("got rows %+v", rows)
	}
	if s.Sessions != 2 || s.Open != 1 || s.Processes != 1 || s.UptimeS != 60 || s.Config.Path != "/etc/pipeline.toml" || s.Config.LoadedAt != "2026-05-01T08:00:00Z" {
		t.Errorf("got %d sessions, %d open, %d processes, up %d s, config %+v", s.Sessions, s.Open, s.Processes, s.UptimeS, s.Config)
	}
}

// The uptime starts with the first event. It ends now if a process runs and now is given,
// otherwise with the last event.
func TestUptime(t *testing.T) {
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	tally := tallied(
		record.Event{Kind: record.Begin, Process: "a", At: at(0)},
		record.Event{Kind: record.Begin, Process: "b", At: at(100)},
		record.Event{Kind: record.Call, Process: "a", Session: "1", At: at(10), Disposition: record.Fetched, LatencyMS: 5000},
		record.Event{Kind: record.End, Process: "b", At: at(130)},
	)
	for _, tt := range []struct {
		now  time.Time
		want int64
	}{{time.Time{}, 130}, {at(1000), 1000}, {at(-5), 130}} {
		if got := tally.Stats(tt.now).UptimeS; got != tt.want {
			t.Errorf("at %v: got %d s, want %d s", tt.now, got, tt.want)
		}
	}
}

func TestProcessEndsItsSessions(t *testing.T) {
	tally := tallied(
		record.Event{Kind: record.Session, Process: "a", Session: "1"}, record.Event{Kind: record.Session, Process: "b", Session: "2"},
		record.Event{Kind: record.End, Process: "a", At: start.Add(time.Hour)},
		record.Event{Kind: record.End, Session: "3"}, // of which nothing else is known
	)
	rows := tally.Rows()
	if len(rows) != 2 || rows[0].EndUS != start.Add(time.Hour).UnixMicro() || rows[1].EndUS != 0 {
		t.Errorf("got rows %+v", rows)
	}
	if s := tally.Stats(time.Time{}); s.Sessions != 2 || s.Open != 1 {
		t.Errorf("got %d sessions, %d open", s.Sessions, s.Open)
	}
}

// The hosts and lost lines of the running processes are combined.
func TestStand(t *testing.T) {
	s := tallied().Stats(time.Time{})
	s.SetRunning([]record.Status{
		{Lost: 3, Hosts: []record.Host{{Host: "api.github.com", Level: 3, InFlight: 4, Limited: 2, HarmMS: 30, Rate: 5, Tokens: 2}}},
		{Lost: 4, Hosts: []record.Host{{Host: "api.github.com", Level: 1, InFlight: 1, Limited: 4, HarmMS: 5, Rate: 5, Tokens: 1}, {Host: "new.example", Level: 3}}},
	})
	want := map[string]record.Host{
		"api.github.com": {Host: "api.github.com", Level: 1, InFlight: 5, Limited: 6, HarmMS: 35, Rate: 5, Tokens: 1}, "new.example": {Host: "new.example", Level: 3},
	}
	if diff := cmp.Diff(want, s.Hosts); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	if wrong := s.Warnings(); s.Totals.EventsLost != 7 || len(wrong) != 1 || !strings.HasPrefix(wrong[0].Message, "7 lines of the event log") {
		t.Errorf("got %d lost, %+v", s.Totals.EventsLost, wrong)
	}
}

// The configuration is that of the process that started last, in any order of files.
func TestConfigOfTheLast(t *testing.T) {
	s := tallied(
		record.Event{Kind: record.Begin, Process: "a", At: start.Add(time.Hour), Config: "new"}, record.Event{Kind: record.Begin, Process: "b", At: start, Config: "old"},
	).Stats(time.Time{})
	if s.Config.Path != "new" {
		t.Errorf("got %+v", s.Config)
	}
}

func TestProblems(t *testing.T) {
	tally := record.NewTally(0)
	for range 30 {
		tally.Problem(strings.Repeat("x", 10_000))
	}
	tally.Problem("a.jsonl:7: not JSON")
	tally.Add(&record.Event{Kind: record.Call, Session: "s", Upstream: "u", Tool: "t", Disposition: "magic"})
	v := tally.View(start)
	if n := len(v.Problems); n != 20 || len(v.Problems[0]) != 500 || v.Problems[18] != "a.jsonl:7: not JSON" || !strings.Contains(v.Problems[19], `"magic"`) {
		t.Errorf("got %d problems, the last %q", n, v.Problems[max(0, n-3):])
	}
}

func TestManyAtOnce(t *testing.T) {
	tally := record.NewTally(10)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			next := day(1000)
			for i := range 1000 {
				e := next(i)
				e.Session += string(rune('a' + g))
				tally.Add(e)
				if i%100 == 0 {
					tally.View(start)
					tally.Rows()
					tally.Problem("p")
				}
			}
		})
	}
	all.Wait()
	f := tally.Stats(time.Time{}).Totals
	if got := f.ServedStored + f.Joined + f.Fetched + f.Failed; got != f.Calls || f.Calls != 8*625 {
		t.Errorf("got %d calls, dispositions of %d, want %d", f.Calls, got, 8*625)
	}
}

// use returns the events of a call and of the prefetch that answers it.
func use(session string, call, prefetch int64) []record.Event {
	return []record.Event{
		{Kind: record.Call, Session: session, Seq: call, Disposition: record.Hit, Prefetched: true, UseOf: prefetch},
		{Kind: record.Prefetch, Session: session, Seq: prefetch, Fate: record.Used, UsedBy: call},
	}
}
