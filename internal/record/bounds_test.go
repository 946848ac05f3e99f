package record_test

import (
	"fmt"
	"testing"
	"time"

	"mcpschedd/internal/record"
)

// Names beyond the bounds are counted together, and in the totals.
func TestBounds(t *testing.T) {
	tally := record.NewTally(100)
	const n = 10_000
	for i := range n {
		e := record.Event{
			Kind: record.Call, Process: fmt.Sprint("p", i), Session: fmt.Sprint("s", i), Seq: 1, Upstream: fmt.Sprint("u", i), Tool: "t",
			At: start, Disposition: record.Hit, UseOf: 5, LatencyMS: 1,
		}
		tally.Add(&e)
		e.Kind, e.Fate, e.Cause = record.Prefetch, record.Wasted, fmt.Sprint("c", i)
		tally.Add(&e)
		e.Kind, e.Reasons = record.Choice, map[string]int{fmt.Sprint("r", i): 1}
		tally.Add(&e)
	}
	s := tally.Stats(time.Time{})
	for what, tt := range map[string][2]int{
		"tools": {len(s.Tools), 4097}, "upstreams": {len(s.Upstreams), 257},
		"causes": {len(s.Totals.Prefetch.Wasted), 65}, "reasons": {len(s.Totals.Declined), 65},
		"calls": {int(s.Totals.Calls), n}, "prefetches": {int(s.Totals.Prefetch.Issued), n}, "other tools": {int(s.Tools["(other)"].Calls), n - 4096},
		"other upstreams": {int(s.Upstreams["(other)"].Calls), n - 256}, "other reasons": {int(s.Totals.Declined["(other)"]), n - 64},
		"sessions": {s.Sessions, n}, "rows": {len(tally.Rows()), 100}, "processes": {s.Processes, n},
	} {
		if tt[0] != tt[1] {
			t.Errorf("%s: got %d, want %d", what, tt[0], tt[1])
		}
	}
}

// The oldest ended sessions are evicted first, and no open session while there is an ended one.
func TestSessionsThatGo(t *testing.T) {
	tally := record.NewTally(3)
	add := func(kind record.Kind, session string) {
		tally.Add(&record.Event{Kind: kind, Session: session, Process: "p", At: start, Disposition: record.Fetched, Upstream: "u", Tool: "t"})
	}
	want := func(what string, names ...string) {
		t.Helper()
		var got []string
		for _, r := range tally.Rows() {
			got = append(got, r.Session)
		}
		if fmt.Sprint(got) != fmt.Sprint(names) {
			t.Errorf("%s: got %v, want %v", what, got, names)
		}
	}
	add(record.Session, "a")
	add(record.Session, "b")
	add(record.Session, "c")
	add(record.End, "c")
	add(record.End, "b")
	want("none goes before there are too many", "a", "b", "c")
	add(record.Session, "d")
	want("the oldest that ended", "a", "c", "d")
	add(record.Session, "e")
	want("the next that ended", "a", "d", "e")
	add(record.End, "b")
	want("an end of one that went", "a", "d", "e")
	add(record.Session, "f")
	want("none has ended: the oldest", "d", "e", "f")
	if s := tally.Stats(start); s.Sessions != 6 || s.Open != 3 || s.Totals.Calls != 0 {
		t.Errorf("got %d sessions, %d open", s.Sessions, s.Open)
	}
}

// It does not grow with the number of events.
func TestMemoryDoesNotGrow(t *testing.T) {
	before := heap()
	tally := record.NewTally(50)
	next := day(120_000)
	var after [2]int64
	for i := range 120_000 {
		tally.Add(next(i))
		if i == 40_000 {
			after[0] = heap() - before
		}
	}
	after[1] = heap() - before
	if after[1] > after[0]+after[0]/4 {
		t.Errorf("got %d bytes after 40,000 events and %d after 120,000", after[0], after[1])
	}
	tally.Stats(start)
}
