package dedup_test

import (
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/dedup"
)

// TestOlderAnswerLater: an answer does not replace one of a later flight.
func TestOlderAnswerLater(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newStore(t)
		use := dedup.Reuse{Freshness: time.Hour}
		q := query(use, host)
		first := wait(t, s, q)
		short := q
		short.Reuse.Freshness = time.Second // as after a reload of the configuration
		time.Sleep(2 * time.Second)
		second := wait(t, s, short)
		second.flight.Finish([]byte("second"), false, true)
		first.flight.Finish([]byte("first"), false, true)
		if got := wait(t, s, q).outcome(t); string(got.Body) != "second" {
			t.Errorf("got %q, want the answer fetched last", got.Body)
		}
	})
}

func TestTaint(t *testing.T) {
	for name, taint := range map[string]func(s *dedup.Store, f *dedup.Flight){
		"flight":   func(_ *dedup.Store, f *dedup.Flight) { f.Taint(); f.Taint() },
		"upstream": func(s *dedup.Store, _ *dedup.Flight) { s.Taint(1) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			elsewhere := query(pure)
			elsewhere.Key.Upstream = 2
			x, y, z := wait(t, s, query(pure)), wait(t, s, query(pure)), wait(t, s, elsewhere)
			taint(s, x.flight)
			z.flight.Finish([]byte("of another upstream"), false, true)
			if got := y.outcome(t); !got.Refetch {
				t.Errorf("the joined call got %+v, want Refetch", got)
			}
			x.flight.Finish([]byte("mine"), false, true)
			x.flight.Taint() // has no effect after Finish
			if got := x.outcome(t); got.How != dedup.Fetched {
				t.Errorf("the fetching call got %+v", got)
			}
			if got := s.Stats(); got.Entries != 1 {
				t.Errorf("%d answers are stored, want only that of another upstream", got.Entries)
			}
		})
	}
}

// TestNotify: a waiter that has left or been answered gets no more notifications.
func TestNotify(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newStore(t)
		x, y, deaf := wait(t, s, query(pure)), wait(t, s, query(pure)), &dedup.Waiter{Done: func(dedup.Outcome) {}}
		s.Do(t.Context(), query(pure), deaf, nil)
		x.flight.Notify("first", nil)
		y.leave(errLeft)
		synctest.Wait()
		x.flight.Notify("second", nil)
		x.flight.Finish(nil, false, true)
		x.flight.Notify("third", nil)
		if len(x.heard) != 2 || len(y.heard) != 1 {
			t.Errorf("the fetching call got %d notifications, the one that left %d, want 2 and 1", len(x.heard), len(y.heard))
		}
	})
}

// TestClose: after Close, calls fetch for themselves and flights have ended.
func TestClose(t *testing.T) {
	s := newStore(t)
	x, y := wait(t, s, query(pure)), wait(t, s, query(pure))
	s.Close()
	if x.ctx.Err() == nil {
		t.Error("the flight was not cancelled")
	}
	x.flight.Finish(nil, false, false)
	if got := y.outcome(t); !got.Refetch {
		t.Errorf("the joined call got %+v, want Refetch", got)
	}
	src := &source{store: s}
	for range 2 {
		if got := src.ask(t, query(pure)); got.How != dedup.Fetched {
			t.Errorf("got %s, want fetched", got.How)
		}
	}
}
