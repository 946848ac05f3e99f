package record_test

import (
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
	t := record.NewTally()
	for i := range all {
		e := lively(all[i], i)
		record.Clamp(&e)
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

// Sessions and processes are counted, and the process has its configuration.
func TestSessionsAndProcesses(t *testing.T) {
	s := tallied(
		record.Event{Kind: record.Begin, Config: "/etc/pipeline.toml"},
		record.Event{Kind: record.Session, Session: "a", Client: "claude-code 2.1"},
		record.Event{Kind: record.Call, Session: "b", Disposition: record.Fetched},
		record.Event{Kind: record.End, Session: "a"},
		record.Event{Kind: record.End, Session: "unknown"},
	).Stats(start.Add(time.Minute))
	if s.Sessions != 2 || s.Processes != 1 || s.UptimeS != 60 || s.Config.Path != "/etc/pipeline.toml" || !s.Config.LoadedAt.Equal(start) {
		t.Errorf("got %d sessions, %d processes, up %d s, config %+v", s.Sessions, s.Processes, s.UptimeS, s.Config)
	}
}

// The uptime starts with the first event, and ends now if now is given, otherwise with the last
// event.
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

// The sessions and lost lines of the running processes are added up. A host has the lowest of its
// levels.
func TestStand(t *testing.T) {
	s := tallied().Stats(time.Time{})
	s.SetRunning([]record.Status{
		{Lost: 3, Clients: []record.ClientStatus{{Sessions: 2}, {Sessions: 1}}, Hosts: map[string]record.Host{"api.github.com": {Level: 3, InFlight: 4, Limited: 2, HarmMS: 30, Rate: 5, Tokens: 2}}},
		{Lost: 4, Hosts: map[string]record.Host{"api.github.com": {Level: 1, InFlight: 1, Limited: 4, HarmMS: 5, Rate: 5, Tokens: 1}, "new.example": {Level: 3}}},
	})
	want := map[string]record.Host{
		"api.github.com": {Level: 1, InFlight: 1, Limited: 4, HarmMS: 5, Rate: 5, Tokens: 1}, "new.example": {Level: 3},
	}
	if diff := cmp.Diff(want, s.Hosts); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	if wrong := s.Warnings(); s.Open != 3 || s.Totals.EventsLost != 7 || len(wrong) != 1 || !strings.HasPrefix(wrong[0].Message, "7 lines of the event log") {
		t.Errorf("got %d lost, %+v", s.Totals.EventsLost, wrong)
	}
}

// The configuration is that of the process that started last, in any order of the files.
func TestConfigOfTheLast(t *testing.T) {
	s := tallied(
		record.Event{Kind: record.Begin, Process: "a", At: start.Add(time.Hour), Config: "new"}, record.Event{Kind: record.Begin, Process: "b", At: start, Config: "old"},
	).Stats(time.Time{})
	if s.Config.Path != "new" {
		t.Errorf("got %+v", s.Config)
	}
}

func TestProblems(t *testing.T) {
	tally := record.NewTally()
	for range 30 {
		tally.Problem(record.Problem{Text: strings.Repeat("x", 10_000)})
	}
	tally.Problem(record.Problem{File: "a.jsonl", Line: 7, Text: "not JSON"})
	v := tally.View(start)
	if n := len(v.Problems); n != 20 || len(v.Problems[0]) != 500 || v.Problems[19] != "a.jsonl:7: not JSON" {
		t.Errorf("got %d problems, the last %q", n, v.Problems[max(0, n-3):])
	}
}

func TestManyAtOnce(t *testing.T) {
	tally := record.NewTally()
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
					tally.Problem(record.Problem{Text: "p"})
				}
			}
		})
	}
	all.Wait()
	f := tally.Stats(time.Time{}).Totals
	if got := f.Hit + f.Joined + f.Fetched + f.Failed; got != f.Calls || f.Calls != 8*625 {
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
