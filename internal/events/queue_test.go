package events_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/events"
)

// Each is never told of two events at once, of each once, and of a session's in their
// order, whoever adds more than fits, flushes or closes meanwhile.
func TestOverfilled(t *testing.T) {
	const adders, calls = 4, events.MaxQueued * 3 / 8
	var inside atomic.Int32
	var added atomic.Int64
	full := make(chan struct{}) // closed when more wait than fit
	told := map[string][]int64{}
	l := events.Open(events.Options{Each: func(e *events.Event) {
		<-full
		if inside.Add(1) != 1 {
			t.Error("told of two at once")
		}
		if e.Kind == events.Call {
			told[e.Session] = append(told[e.Session], e.Seq)
		}
		inside.Add(-1)
	}})
	var all sync.WaitGroup
	for n := range adders {
		all.Go(func() {
			for i := range calls {
				l.Add(events.Event{Kind: events.Call, Session: string(rune('a' + n)), Seq: int64(i + 1)})
				if n := l.Queued(); n > events.MaxQueued+adders {
					t.Errorf("%d events wait", n)
				}
				if added.Add(1) == events.MaxQueued {
					close(full)
				}
			}
		})
	}
	all.Go(l.Flush)
	all.Wait()
	l.Close()
	for session, seqs := range told {
		inSequence(t, session, seqs, calls)
	}
	if len(told) != adders {
		t.Errorf("got %d sessions, want %d", len(told), adders)
	}
}

// Fixed: the number of events that wait was bounded, but not what they hold.
func TestOverfilledWithArguments(t *testing.T) {
	const calls, size = 100, 1 << 20
	told := 0
	l := events.Open(events.Options{Every: time.Hour, Each: func(*events.Event) { told++ }})
	arguments := []byte(`{"a":"` + strings.Repeat("x", size) + `"}`)
	for range 500 { // before which they are told of
		l.Add(events.Event{Kind: events.Harm})
	}
	for n := range calls {
		l.Add(events.Event{Kind: events.Call, Seq: int64(n + 1), RawArguments: arguments})
		if got := l.Waiting(); got > events.MaxWaiting {
			t.Fatalf("%d bytes wait after call %d", got, n+1)
		}
	}
	if l.Queued() == 0 || told < calls/2 {
		t.Errorf("%d events wait, %d were told of; want some to wait", l.Queued(), told)
	}
	l.Close()
	if told != 500+calls+2 || l.Waiting() != 0 {
		t.Errorf("told of %d, %d bytes wait at the end", told, l.Waiting())
	}
}

// Fixed: a burst left megabytes behind in a process that then did nothing for days.
func TestBurstLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l := events.Open(events.Options{Dir: dir})
		defer l.Close()
		for round := range 3 {
			over := false
			for seq := range 5000 {
				l.AddWhen(events.Event{Kind: events.Prefetch}, func(*events.Event) bool { return over })
				l.Add(events.Event{Kind: events.Call, Session: "s", Seq: int64(5000*round + seq + 1), RawArguments: []byte(`{"a": 1}`)})
			}
			over = true
			l.Flush()
			if kept := l.Kept(); kept < 1<<20 {
				t.Errorf("%d bytes kept after a burst: so few show nothing", kept)
			}
			l.Add(events.Event{Kind: events.Harm}) // at the latest from here on it looks after itself
			time.Sleep(events.QuietAfter + time.Second)
			synctest.Wait()
			if kept := l.Kept(); kept != 0 {
				t.Errorf("%d bytes kept while nothing happens", kept)
			}
		}
		inSequence(t, "s", numbers(read(t, dir))["s"], 15_000)
	})
}

// Fixed: while events kept coming there was no end to the telling, so that nothing
// was written, and Flush did not return.
func TestFlushWhileEventsKeepComing(t *testing.T) {
	dir := t.TempDir()
	var l *events.Log
	one, added := make(chan bool), make(chan bool)
	go func() {
		for range one {
			l.Add(events.Event{Kind: events.Harm})
			added <- true
		}
	}()
	var stop atomic.Bool
	l = events.Open(events.Options{Dir: dir, Every: time.Hour, Each: func(*events.Event) {
		if !stop.Load() { // so that the queue is never empty
			one <- true
			<-added
		}
	}})
	l.Add(events.Event{Kind: events.Call, Session: "s", Seq: 1})
	l.Flush()
	inSequence(t, "s", numbers(read(t, dir))["s"], 1)
	stop.Store(true)
	l.Close()
	close(one)
}

// Add costs a copy, and no memory that was not there before.
func TestAddAllocatesNothing(t *testing.T) {
	l := events.Open(events.Options{Every: time.Hour})
	defer l.Close()
	e := events.Event{Kind: events.Call, RawArguments: []byte("{}")}
	for range 900 {
		l.Add(e)
	}
	l.Flush()
	if n := testing.AllocsPerRun(800, func() { l.Add(e) }); n != 0 {
		t.Errorf("got %v allocations for each", n)
	}
}
