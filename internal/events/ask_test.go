package events_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/events"
)

func TestAddWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		l := events.Open(events.Options{Each: func(e *events.Event) {
			told = append(told, fmt.Sprint(e.Kind, " ", e.Seq, " ", e.Fate, " ", e.Cause))
		}})
		used := false
		l.AddWhen(events.Event{Kind: events.Prefetch, Seq: 1}, func(e *events.Event) bool { e.Fate = events.Used; return used })
		l.AddWhen(events.Event{Kind: events.Prefetch, Seq: 2}, func(e *events.Event) bool { return false })
		l.Add(events.Event{Kind: events.Call, Seq: 3})
		time.Sleep(time.Second)
		synctest.Wait()
		used = true
		l.Add(events.Event{Kind: events.Call, Seq: 4})
		l.Flush()
		added := false
		l.AddWhen(events.Event{Kind: events.Prefetch, Seq: 7}, func(e *events.Event) bool {
			if !added {
				added = true
				l.AddWhen(events.Event{Kind: events.Prefetch, Seq: 8}, func(e *events.Event) bool { return true })
				return false
			}
			return true
		})
		l.Flush()
		l.Flush()
		l.AddWhen(events.Event{Kind: events.Prefetch, Seq: 5}, func(e *events.Event) bool {
			e.Fate, e.Cause = events.Wasted, "expired"
			l.Add(events.Event{Kind: events.Harm}) // the log is not locked
			return true
		})
		l.Close()
		l.AddWhen(events.Event{Kind: events.Prefetch, Seq: 6}, func(e *events.Event) bool { return false })
		want := []string{
			"begin 0  ", "call 3  ", "call 4  ", "prefetch 1 used ", "prefetch 7  ", "prefetch 8  ",
			"prefetch 2 wasted never_asked", "harm 0  ", "prefetch 5 wasted expired", "end 0  ", "prefetch 6 wasted never_asked",
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// What has ended comes before what is added behind Ask, for Each and in the file; what
// has not stays open.
func TestAsk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "events")
	var told, written []string
	line := func(e *events.Event) string { return fmt.Sprint(e.Kind, " ", e.Seq, " ", e.Fate) }
	l := events.Open(events.Options{Dir: dir, Every: time.Hour, Each: func(e *events.Event) { told = append(told, line(e)) }})
	ended := false
	l.AddWhen(events.Event{Kind: events.Prefetch, Seq: 1}, func(*events.Event) bool { return false })
	l.AddWhen(events.Event{Kind: events.Prefetch, Seq: 2}, func(e *events.Event) bool { e.Fate = events.Used; return ended })
	l.Ask()
	l.Add(events.Event{Kind: events.Call, Seq: 3})
	ended = true
	l.AddWhen(events.Event{Kind: events.Prefetch, Seq: 4}, func(e *events.Event) bool { e.Fate = events.Late; return true })
	l.Ask()
	l.Ask()
	l.Add(events.Event{Kind: events.End, Session: "s", Seq: 5})
	l.Close()
	l.Ask()
	for _, e := range read(t, dir) {
		written = append(written, line(&e))
	}
	want := []string{"begin 0 ", "call 3 ", "prefetch 2 used", "prefetch 4 late", "end 5 ", "prefetch 1 wasted", "end 0 "}
	for who, got := range map[string][]string{"Each": told, "file": written} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", who, diff)
		}
	}
}

// Each session's guess has an end, then Ask, then the end of the session: in that
// order, and each once, whoever flushes, asks or closes meanwhile.
func TestAskWhileOthersDo(t *testing.T) {
	const sessions, rounds = 6, 400
	for _, closing := range []bool{false, true} {
		dir := t.TempDir()
		var told []events.Event
		l := events.Open(events.Options{Dir: dir, Every: time.Millisecond, Each: func(e *events.Event) { told = append(told, *e) }})
		var all sync.WaitGroup
		for n := range sessions {
			all.Go(func() {
				for i := range rounds {
					var used atomic.Bool
					session := fmt.Sprint(n, ".", i)
					l.AddWhen(events.Event{Kind: events.Prefetch, Session: session}, func(*events.Event) bool { return used.Load() })
					used.Store(true)
					l.Ask()
					l.Add(events.Event{Kind: events.End, Session: session})
					if i%100 == 50 {
						l.Flush()
					}
					if closing && n == 0 && i == rounds/2 {
						l.Close()
					}
				}
			})
		}
		all.Wait()
		l.Close()
		inOrder(t, "Each", told, sessions*rounds)
		if l.Lost() == 0 {
			inOrder(t, "file", read(t, dir), sessions*rounds)
		} else if got := read(t, dir); int64(len(got))+l.Lost() != int64(len(told)) {
			t.Errorf("%d lines and %d lost, of %d", len(got), l.Lost(), len(told))
		}
	}
}

// inOrder fails the test unless each of so many sessions has a prefetch and then an end.
func inOrder(t *testing.T, who string, all []events.Event, sessions int) {
	t.Helper()
	kinds := map[string]string{}
	for _, e := range all {
		if e.Session != "" {
			kinds[e.Session] += string(e.Kind) + " "
		}
	}
	for session, got := range kinds {
		if got != "prefetch end " {
			t.Errorf("%s: session %s: got %s", who, session, got)
			return
		}
	}
	if len(kinds) != sessions {
		t.Errorf("%s: got %d sessions, want %d", who, len(kinds), sessions)
	}
}

// Fixed: any number of ends could be unknown at once. The oldest event is asked a last
// time, and has its end then.
func TestTooManyOpen(t *testing.T) {
	for _, c := range []struct {
		name        string
		size, bound int
	}{
		{"events", 0, events.MaxOpen},
		{"bytes", 1 << 20, events.MaxWaiting >> 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			var told []string
			l := events.Open(events.Options{Every: time.Hour, Each: func(e *events.Event) {
				if e.Kind == events.Prefetch {
					told = append(told, fmt.Sprint(e.Seq, " ", e.Fate, " ", e.Cause))
				}
			}})
			defer l.Close()
			arguments := make([]byte, c.size)
			add := func(seq int, known bool) {
				l.AddWhen(events.Event{Kind: events.Prefetch, Seq: int64(seq), RawArguments: arguments}, func(e *events.Event) bool {
					if known {
						e.Fate = events.Used
					}
					return known
				})
			}
			add(1, false)
			add(2, true)
			for seq := range c.bound {
				add(3+seq, false)
			}
			l.Flush()
			if want := []string{"1 wasted never_asked", "2 used "}; !cmp.Equal(told, want) {
				t.Errorf("got %q, want %q", told, want)
			}
			if add(0, false); c.bound > 8 {
				l.Flush()
			}
			l.Flush()
			if want := "3 wasted never_asked"; len(told) != 3 || told[2] != want {
				t.Errorf("after one more: got %q, want %q last", told, want)
			}
		})
	}
}

// An event that is asked may add others, of which there may be too many.
func TestTooManyOpenWhileAsked(t *testing.T) {
	told := 0
	l := events.Open(events.Options{Every: time.Hour, Each: func(e *events.Event) {
		if e.Kind == events.Prefetch {
			told++
		}
	}})
	never := func(*events.Event) bool { return false }
	for range events.MaxOpen {
		l.AddWhen(events.Event{Kind: events.Prefetch}, never)
	}
	l.AddWhen(events.Event{Kind: events.Call}, func(*events.Event) bool { // is the newest: one prefetch goes
		for range 10 {
			l.AddWhen(events.Event{Kind: events.Prefetch}, never)
		}
		return true
	})
	l.Flush()
	if told != 10 {
		t.Errorf("got %d events that had to end, want 10", told)
	}
	l.Close()
	if told != events.MaxOpen+10 {
		t.Errorf("got %d events at the end, want all %d", told, events.MaxOpen+10)
	}
}
