package record_test

import (
	"fmt"
	"testing"
	"time"

	"mcpschedd/internal/record"
)

// Names beyond the maximum number are counted together, and in the totals.
func TestBounds(t *testing.T) {
	tally := record.NewTally()
	const n = 10_000
	for i := range n {
		e := record.Event{
			Kind: record.Call, Process: fmt.Sprint("p", i), Session: fmt.Sprint("s", i), Seq: 1, Upstream: fmt.Sprint("u", i), Tool: "t",
			At: start, Disposition: record.Hit, UseOf: 5, LatencyMS: 1,
		}
		tally.Add(&e)
		e.Kind, e.Fate, e.Cause = record.Prefetch, record.Wasted, fmt.Sprint("c", i)
		tally.Add(&e)
		e.Kind, e.Declined = record.Decision, map[string]int{fmt.Sprint("r", i): 1}
		tally.Add(&e)
	}
	s := tally.Stats(time.Time{})
	for what, tt := range map[string][2]int{
		"tools": {len(s.Tools), 4097},
		"calls": {int(s.Totals.Calls), n}, "prefetches": {int(s.Totals.Prefetch.Issued), n}, "other tools": {int(s.Tools["(other)"].Calls), n - 4096},
		"reasons":  {len(s.Totals.Declined) / 60, 1},
		"sessions": {s.Sessions, n}, "processes": {s.Processes, n},
	} {
		if tt[0] != tt[1] {
			t.Errorf("%s: got %d, want %d", what, tt[0], tt[1])
		}
	}
}

// The memory of a tally does not grow with the number of events.
func TestMemoryDoesNotGrow(t *testing.T) {
	before := heap()
	tally := record.NewTally()
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
