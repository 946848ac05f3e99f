package record_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"mcpschedd/internal/record"
)

func TestTimeline(t *testing.T) {
	all := use("a", 3, 2)
	all[0].At, all[0].LatencyMS, all[0].HiddenMS, all[0].Turn = start.Add(2*time.Second), 1.5, 200, 2
	all[1].At, all[1].LatencyMS, all[1].PredictedP = start.Add(time.Second), 201.5, 0.7
	all = append(all,
		record.Event{Kind: record.Prefetch, Session: "a", Seq: 4, At: start.Add(3 * time.Second), Fate: record.Wasted, Cause: "expired"},
		record.Event{Kind: record.Call, Session: "a", Seq: 5, At: start.Add(4 * time.Second), Tool: "nonsense", Disposition: record.Failed, Plan: 1})
	call := record.Event{Kind: record.Call, Session: "a", Upstream: "github", Tool: "get_issue"}
	prefetch := call
	prefetch.Kind = record.Prefetch
	want := []record.Event{prefetch, call, prefetch, {Kind: record.Call, At: start.Add(4 * time.Second), Session: "a", Seq: 5, Tool: "nonsense", Disposition: record.Failed, Plan: 1}}
	want[0].At, want[0].LatencyMS, want[0].Seq, want[0].Fate, want[0].PredictedP = start.Add(time.Second), 201.5, 2, record.Used, 0.7
	want[1].At, want[1].LatencyMS, want[1].Seq, want[1].Disposition, want[1].Prefetched, want[1].UseOf, want[1].HiddenMS, want[1].Turn = start.Add(2*time.Second), 1.5, 3, record.Hit, true, 2, 200, 2
	want[2].At, want[2].Seq, want[2].Fate, want[2].Cause = start.Add(3*time.Second), 4, record.Wasted, "expired"
	if diff := gocmp.Diff(want, tallied(all...).View(start).Timeline); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestOnlyTheLastAreKept(t *testing.T) {
	tally := record.NewTally()
	for i := range 500 {
		at := start.Add(time.Duration(i) * time.Second)
		tally.Add(&record.Event{Kind: record.Call, Session: "s", Seq: int64(i + 1), Upstream: "u", Tool: "t", At: at, Disposition: record.Fetched})
		tally.Add(&record.Event{Kind: record.Decision, Session: "s", Upstream: "u", Tool: "t", At: at, After: int64(i + 1), Candidates: i, Declined: map[string]int{fmt.Sprint("r", i): 1}, Top: []record.Candidate{{Tool: fmt.Sprint("t", i), P: 0.5}}})
		tally.Add(&record.Event{Kind: record.Level, Host: "h", At: at, From: 2, To: i % 4, Why: fmt.Sprint("w", i)})
	}
	v := tally.View(start)
	if n := len(v.Timeline); n != 400 || v.Timeline[0].Seq != 101 || v.Timeline[399].Seq != 500 {
		t.Errorf("got %d bars: %+v", n, v.Timeline)
	}
	want := record.Event{
		Kind: record.Decision, At: start.Add(499 * time.Second), Session: "s", Upstream: "u", Tool: "t", After: 500, Candidates: 499, Declined: map[string]int{"r499": 1}, Top: []record.Candidate{{Tool: "t499", P: 0.5}},
	}
	if diff := gocmp.Diff(want, v.Decisions[0]); diff != "" || len(v.Decisions) != 50 || v.Decisions[49].Candidates != 450 {
		t.Errorf("got %d decisions, the newest: want (-), got (+):\n%s", len(v.Decisions), diff)
	}
	if n := len(v.Levels); n != 50 || v.Levels[0].Why != "w499" || v.Levels[49].Why != "w450" {
		t.Errorf("got %d levels, %+v", n, v.Levels[0])
	}
}

// The caller may reuse an event after adding it.
func TestAddKeepsNothing(t *testing.T) {
	tally := record.NewTally()
	e := record.Event{Kind: record.Decision, Session: "s", At: start, Declined: map[string]int{"gate": 1}, Top: []record.Candidate{{Tool: "a"}}}
	tally.Add(&e)
	e.Declined["gate"], e.Top[0].Tool = 7, "b"
	v := tally.View(start)
	if d := v.Decisions[0]; d.Declined["gate"] != 1 || d.Top[0].Tool != "a" || v.Stats.Totals.Declined["gate"] != 1 {
		t.Errorf("got %+v", d)
	}
}

// Wrong times in events affect no other figure.
func TestWrongClocks(t *testing.T) {
	tally := record.NewTally()
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.UnixMicro(-5), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), start} {
		tally.Add(&record.Event{Kind: record.Call, Process: "p", Session: "s", Upstream: "u", Tool: "t", At: at, Disposition: record.Hit, LatencyMS: 1e12, HiddenMS: 1e12})
		tally.Add(&record.Event{Kind: record.Prefetch, Process: "q", Session: "s", Upstream: "u", Tool: "t", At: at, Fate: record.Used})
	}
	v := tally.View(start)
	if s := v.Stats; s.Totals.Calls != 5 || s.UptimeS < 0 {
		t.Errorf("got %d calls, up %d s", s.Totals.Calls, s.UptimeS)
	}
	for _, now := range []time.Time{{}, time.Unix(0, 1), time.UnixMicro(1<<63 - 1)} {
		asJSON(t, tally.View(now))
	}
}

// A view has these fields of an event and no other, so none with arguments or results.
func TestShownFields(t *testing.T) {
	const ofCalls = "after cause disposition fate hidden_ms is_error kind latency_ms plan predicted_p prefetched seq session tool ts turn upstream use_of use_of_session"
	for kind, want := range map[record.Kind][2]string{
		record.Call:     {"timeline", ofCalls},
		record.Prefetch: {"timeline", ofCalls},
		record.Decision: {"decisions", "after candidates declined issued kind session tool top ts upstream"},
		record.Level:    {"levels", "from host kind session to ts why"},
	} {
		var e record.Event
		fill(reflect.ValueOf(&e).Elem())
		e.Kind, e.At, e.Arguments, e.RawArguments = kind, start, []byte(`{"a":1}`), []byte(`{"a":1}`)
		tally := record.NewTally()
		tally.Add(&e)
		shown := asJSON(t, tally.View(start))[want[0]].([]any)[0].(map[string]any)
		if got := strings.Join(slices.Sorted(maps.Keys(shown)), " "); got != want[1] {
			t.Errorf("%s: got %s, want %s", kind, got, want[1])
		}
	}
}

// Events of another program may have no time. The savings then name no period.
func TestSavedWithoutTimes(t *testing.T) {
	v, err := record.ReadView(t.Context(), []string{write(t, filepath.Join(t.TempDir(), "other.jsonl"), call(1))})
	if want := "Saved 0 ms of 0 ms waiting."; err != nil || v.Saved() != want {
		t.Errorf("got %q, %v, want %q", v.Saved(), err, want)
	}
}

// A session has the name and the folder of its client. On stdio that is the folder of the process.
func TestNamedSessions(t *testing.T) {
	tally := record.NewTally()
	for _, e := range []record.Event{
		{Kind: record.Begin, Process: "p", At: start, Transport: "stdio", Dir: "/home/me/api"},
		{Kind: record.Begin, Process: "q", At: start, Transport: "http", Dir: "/"},
		{Kind: record.Session, Process: "p", Session: "a", At: start.Add(time.Second), Client: "claude 2"},
		{Kind: record.Session, Process: "q", Session: "b", At: start.Add(2 * time.Second), Client: "cursor 1"},
		{Kind: record.Session, Process: "q", Session: "silent", At: start},
		{Kind: record.Call, Process: "p", Session: "a", At: start, Disposition: record.Fetched, Upstream: "u", Tool: "t"},
		{Kind: record.Decision, Process: "q", Session: "b", At: start},
	} {
		tally.Add(&e)
	}
	want := []record.SessionInfo{
		{Session: "a", Client: "claude 2", Dir: "/home/me/api", Begin: start.Add(time.Second)},
		{Session: "b", Client: "cursor 1", Begin: start.Add(2 * time.Second)},
	}
	if diff := gocmp.Diff(want, tally.View(start).Sessions); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

// The figures of today cover no more than today, also those of a process that began earlier.
func TestTodayBeginsAtMidnight(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	l := record.Open(record.Options{Dir: dir, Begin: record.Event{At: now.Add(-50 * time.Hour)}, Status: func() record.Status { return record.Status{} }})
	defer l.Close()
	for _, session := range []string{"s", "over"} {
		l.Add(record.Event{Kind: record.Session, Session: session, At: now.Add(-49 * time.Hour), Client: "claude 2"})
	}
	l.Add(record.Event{Kind: record.Call, Session: "s", Seq: 1, Upstream: "u", Tool: "t", At: now.Add(-49 * time.Hour), Disposition: record.Fetched})
	l.Flush()
	f := record.NewFollower(dir)
	for _, calls := range []int64{0, 1} {
		v, err := f.View()
		if err != nil {
			t.Fatal(err)
		}
		if s := v.Stats; s.Totals.Calls != calls || s.Sessions != int(calls) || s.UptimeS < 0 || s.UptimeS > 24*3600+3600 {
			t.Errorf("got %d calls of %d sessions in %d s, want %d of as many in at most a day", s.Totals.Calls, s.Sessions, s.UptimeS, calls)
		}
		l.Add(record.Event{Kind: record.Call, Session: "s", Seq: 2, Upstream: "u", Tool: "t", At: now, Disposition: record.Fetched})
		l.Flush()
	}
}
