package dedup_test

import (
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/dedup"
)

// TestJoined checks until when a call may join a flight.
func TestJoined(t *testing.T) {
	for _, tt := range []struct {
		name       string
		use        dedup.Reuse
		prefetched bool
		after      time.Duration
		want       bool
	}{
		{"at once", never, false, 0, true},
		{"within 100 ms", never, false, 100*time.Millisecond - 1, true},
		{"after 100 ms", never, false, 100 * time.Millisecond, false},
		{"within its freshness", fresh, false, 5*time.Second - 1, true},
		{"after its freshness", fresh, false, 5 * time.Second, false},
		{"pure", pure, false, time.Hour, true},
		{"prefetch within max_age", never, true, 10 * time.Second, true},
		{"prefetch after max_age", never, true, 10*time.Second + 1, false},
		{"prefetch within its freshness", fresh, true, 5 * time.Second, true},
		{"prefetch after its freshness", fresh, true, 5*time.Second + 1, false},
		{"volatile", volatile, false, time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := newStore(t)
				q := query(tt.use, host)
				if tt.prefetched {
					begin(t, s, q)
				} else {
					wait(t, s, q)
				}
				time.Sleep(tt.after)
				if got := wait(t, s, q).flight == nil; got != tt.want {
					t.Errorf("joined: %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// TestOlderAnswerLater: an answer does not replace one of a later flight.
func TestOlderAnswerLater(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newStore(t)
		use := dedup.Reuse{Freshness: time.Hour}
		q := query(use, host)
		first := wait(t, s, q)
		short := q
		short.Reuse.Freshness = time.Second // after a reload
		time.Sleep(2 * time.Second)
		second := wait(t, s, short)
		second.flight.Settle([]byte("second"), false, true)
		first.flight.Settle([]byte("first"), false, true)
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
			x, y := wait(t, s, query(pure)), wait(t, s, query(pure))
			taint(s, x.flight)
			if got := y.outcome(t); !got.Refetch {
				t.Errorf("the joiner got %+v, want to fetch alone", got)
			}
			x.flight.Settle([]byte("mine"), false, true)
			x.flight.Taint() // too late
			if got := x.outcome(t); got.How != dedup.Fetched {
				t.Errorf("the fetcher got %+v", got)
			}
			if got := s.Stats(); got.Entries != 0 {
				t.Error("the answer to a question's asker is stored")
			}
		})
	}
}

// TestGivenUp: a flight that was cancelled is neither joined nor stored.
func TestGivenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newStore(t)
		x := wait(t, s, query(pure))
		x.leave(errLeft)
		synctest.Wait()
		y := wait(t, s, query(pure))
		if y.flight == nil {
			t.Fatal("joined a flight that was cancelled")
		}
		x.flight.Settle([]byte("late"), false, true)
		if got := s.Stats(); got.Entries != 0 || got.Flights != 1 {
			t.Errorf("got %+v, want nothing stored and one flight", got)
		}
		y.flight.Settle(nil, false, true)
	})
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
		x.flight.Settle(nil, false, true)
		x.flight.Notify("third", nil)
		if len(x.heard) != 2 || len(y.heard) != 1 {
			t.Errorf("the fetcher heard %d, the one that left %d, want 2 and 1", len(x.heard), len(y.heard))
		}
	})
}

// TestPrefetch: a prefetch lives while its context does or a call is waiting.
func TestPrefetch(t *testing.T) {
	type step = string
	for _, tt := range []struct {
		name     string
		steps    []step
		alive    bool
		promoted bool
	}{
		{"begun", nil, true, false},
		{"its time is over", []step{"over"}, false, false},
		{"joined", []step{"join"}, true, true},
		{"joined, its time over", []step{"join", "over"}, true, true},
		{"joined and left", []step{"join", "leave"}, true, true},
		{"joined and left, its time over", []step{"join", "leave", "over"}, false, true},
		{"joined, its time over, and left", []step{"join", "over", "leave"}, false, true},
		{"settled, its time over", []step{"settle", "over"}, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := newStore(t)
				g := begin(t, s, query(fresh))
				if _, ok := g.ctx.Deadline(); ok {
					t.Error("the fetch has the prefetch's deadline, whichever call waits")
				}
				var x *waiting
				for _, step := range tt.steps {
					switch step {
					case "join":
						x = wait(t, s, query(fresh))
					case "leave":
						x.leave(errLeft)
					case "over":
						g.over()
					case "settle":
						g.settle()
					}
					synctest.Wait()
				}
				if got := g.ctx.Err() == nil; got != tt.alive {
					t.Errorf("alive: %v, want %v", got, tt.alive)
				}
				select {
				case <-g.flight.Promoted():
					if !tt.promoted {
						t.Error("promoted")
					}
				default:
					if tt.promoted {
						t.Error("not promoted")
					}
				}
				g.settle()
			})
		})
	}
}

// TestClose: after Close, calls fetch for themselves and flights have ended.
func TestClose(t *testing.T) {
	s := newStore(t)
	x, y := wait(t, s, query(pure)), wait(t, s, query(pure))
	s.Close()
	if x.ctx.Err() == nil {
		t.Error("the flight goes on")
	}
	x.flight.Settle(nil, false, false)
	if got := y.outcome(t); !got.Refetch {
		t.Errorf("the joiner got %+v, want to fetch alone", got)
	}
	src := &source{store: s}
	for range 2 {
		if got := src.ask(t, query(pure)); got.How != dedup.Fetched {
			t.Errorf("got %s, want fetched", got.How)
		}
	}
}
