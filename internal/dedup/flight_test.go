package dedup_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/dedup"
)

// TestJoined says until when a call may join a flight.
func TestJoined(t *testing.T) {
	for _, tt := range []struct {
		name    string
		use     dedup.Use
		guessed bool
		after   time.Duration
		want    bool
	}{
		{"at once", never, false, 0, true},
		{"within 100 ms", never, false, 100*time.Millisecond - 1, true},
		{"after 100 ms", never, false, 100 * time.Millisecond, false},
		{"within its freshness", fresh, false, 5*time.Second - 1, true},
		{"after its freshness", fresh, false, 5 * time.Second, false},
		{"pure", pure, false, time.Hour, true},
		{"guess within max_age", never, true, 10 * time.Second, true},
		{"guess after max_age", never, true, 10*time.Second + 1, false},
		{"guess within its freshness", fresh, true, 5 * time.Second, true},
		{"guess after its freshness", fresh, true, 5*time.Second + 1, false},
		{"volatile", volatile, false, time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t)
				q := query(tt.use, host)
				if tt.guessed {
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

// TestGuessJoinedTwice: without freshness a guess answers those who ask together,
// and nobody who asks again.
func TestGuessJoinedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		q := query(never, host)
		begin(t, s, q)
		for _, step := range []struct {
			after time.Duration
			joins bool
		}{{time.Second, true}, {99 * time.Millisecond, true}, {time.Millisecond, false}} {
			time.Sleep(step.after)
			if joined := wait(t, s, q).flight == nil; joined != step.joins {
				t.Errorf("%v later: joined: %v, want %v", step.after, joined, step.joins)
			}
		}
	})
}

func TestJoinAfterChange(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(s *dedup.Store)
		want   bool
	}{
		{"nothing", func(*dedup.Store) {}, true},
		{"bump", func(s *dedup.Store) { s.Bump(host) }, false},
		{"reform", (*dedup.Store).Reform, false},
		{"everything forgotten", (*dedup.Store).Forget, false},
		{"pending write", func(s *dedup.Store) { s.Arrive(changes(host)) }, false},
		{"write ended", func(s *dedup.Store) { s.Arrive(changes(host)).End() }, false},
		{"question", func(s *dedup.Store) { s.Taint(1) }, false},
		{"question of another upstream", func(s *dedup.Store) { s.Taint(2) }, true},
		{"closed", (*dedup.Store).Close, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t)
			wait(t, s, query(pure, host))
			tt.change(s)
			if got := wait(t, s, query(pure, host)).flight == nil; got != tt.want {
				t.Errorf("joined: %v, want %v", got, tt.want)
			}
		})
	}
}

// A flight begun while a write is pending is nobody else's, during the write
// and after it.
func TestFlightInTheAir(t *testing.T) {
	s := newStore(t)
	p := s.Arrive(changes(host))
	wait(t, s, query(pure, host))
	if wait(t, s, query(pure, host)).flight == nil {
		t.Error("joined while the write was pending")
	}
	p.End()
	if wait(t, s, query(pure, host)).flight == nil {
		t.Error("joined a flight that had begun before the write's end")
	}
}

// A change after a call has joined is after the call: it gets the answer, which
// goes nowhere else. The newest flight is the one to join, whichever ends first.
func TestNewestFlight(t *testing.T) {
	s := newStore(t)
	old, joined := wait(t, s, query(pure, host)), wait(t, s, query(pure, host))
	s.Bump(host)
	newer := wait(t, s, query(pure, host))
	old.flight.Settle([]byte("old"), false, true)
	if got := joined.outcome(t); got.How != dedup.Joined || string(got.Body) != "old" {
		t.Errorf("got %+v, want the old flight's answer", got)
	}
	late := wait(t, s, query(pure, host))
	newer.flight.Settle([]byte("new"), true, true)
	if got := late.outcome(t); string(got.Body) != "new" || !got.Stateless {
		t.Errorf("got %q, want the newer flight's answer", got.Body)
	}
	if got := wait(t, s, query(pure, host)).outcome(t); got.How != dedup.Hit || string(got.Body) != "new" {
		t.Errorf("got %s %q, want a hit on the new answer", got.How, got.Body)
	}
}

// An answer never takes the place of one that was fetched later.
func TestOlderAnswerLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		use := dedup.Use{Freshness: time.Hour}
		q := query(use, host)
		first := wait(t, s, q)
		short := q
		short.Use.Freshness = time.Second // after a reload
		time.Sleep(2 * time.Second)
		second := wait(t, s, short)
		second.flight.Settle([]byte("second"), false, true)
		first.flight.Settle([]byte("first"), false, true)
		if got := wait(t, s, q).outcome(t); string(got.Body) != "second" {
			t.Errorf("got %q, want the answer fetched last", got.Body)
		}
	})
}

func TestJoinersOfFailure(t *testing.T) {
	s := newStore(t)
	x, y := wait(t, s, query(pure)), wait(t, s, query(pure))
	x.flight.Settle([]byte("error"), false, false)
	if got := x.outcome(t); got.How != dedup.Fetched || got.Alone {
		t.Errorf("the fetcher got %+v", got)
	}
	if got := y.outcome(t); !got.Alone || got.Body != nil {
		t.Errorf("the joiner got %+v, want to fetch alone", got)
	}
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
			if got := y.outcome(t); !got.Alone {
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

// A question that comes when only those who joined are left ends the fetch.
func TestTaintWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		x, y := wait(t, s, query(pure)), wait(t, s, query(pure))
		x.leave(errLeft)
		synctest.Wait()
		if x.ctx.Err() != nil {
			t.Fatal("cancelled while somebody waits")
		}
		x.flight.Taint()
		if got := y.outcome(t); !got.Alone {
			t.Errorf("the joiner got %+v, want to fetch alone", got)
		}
		if x.ctx.Err() == nil {
			t.Error("not cancelled though nobody waits")
		}
		x.flight.Settle(nil, false, false)
	})
}

// TestThousandWait: one fetch for 1,000 calls, and any 999 of them may leave.
func TestThousandWait(t *testing.T) {
	const n = 1000
	for _, tt := range []struct {
		name string
		stay int // who does not leave; -1: everybody leaves
	}{{"first stays", 0}, {"one in the middle", 500}, {"last stays", n - 1}, {"nobody", -1}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t)
				all := make([]*waiting, n)
				for i := range all {
					all[i] = wait(t, s, query(never, host))
				}
				lead := all[0]
				if i := slices.IndexFunc(all[1:], func(x *waiting) bool { return x.flight != nil }); i >= 0 {
					t.Fatalf("call %d fetches too", i+1)
				}
				for i, x := range all {
					if i != tt.stay {
						x.leave(errLeft)
					}
				}
				synctest.Wait()
				if got := lead.ctx.Err() != nil; got != (tt.stay < 0) {
					t.Fatalf("cancelled: %v", got)
				}
				if cause := context.Cause(lead.ctx); tt.stay < 0 && !errors.Is(cause, errLeft) {
					t.Errorf("cancelled because of %v, want what the last waiter said", cause)
				}
				lead.flight.Settle([]byte("answer"), false, true)
				for i, x := range all {
					got := x.outcome(t)
					if i != tt.stay && got.Err != errLeft {
						t.Errorf("call %d left and got %+v", i, got)
					}
					if i == tt.stay && (got.Err != nil || i > 0 && string(got.Body) != "answer") {
						t.Errorf("call %d stayed and got %+v", i, got)
					}
				}
			})
		})
	}
}

// Nobody joins, and nothing keeps, what has been given up.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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

// A waiter that has left, or has its answer, hears nothing more.
func TestNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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

// TestGuess: a guess lives while its own context does or somebody waits.
func TestGuess(t *testing.T) {
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
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t)
				g := begin(t, s, query(fresh))
				if _, ok := g.ctx.Deadline(); ok {
					t.Error("the fetch has the guess's deadline, whoever waits")
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

// What a guess without freshness brings is used up by those who waited for it;
// if they were told nothing, the next call fetches.
func TestGuessJoined(t *testing.T) {
	for _, tt := range []struct {
		name  string
		use   dedup.Use
		good  bool
		stays bool
		want  dedup.Disposition
	}{
		{"without freshness", never, true, true, dedup.Fetched},
		{"without freshness, and left", never, true, false, dedup.Hit},
		{"fresh", fresh, true, true, dedup.Hit},
		{"failed", fresh, false, true, dedup.Fetched},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t)
				g := begin(t, s, query(tt.use))
				x := wait(t, s, query(tt.use))
				if !tt.stays {
					x.leave(errLeft)
					synctest.Wait()
				}
				g.flight.Settle([]byte("guessed"), false, tt.good)
				got := x.outcome(t)
				if shared := tt.good && tt.stays; tt.stays && (got.Alone == shared || shared && !got.Prefetched) {
					t.Errorf("the joiner got %+v", got)
				}
				if got := (&source{store: s}).ask(t, query(tt.use)); got.How != tt.want {
					t.Errorf("the next got %s, want %s", got.How, tt.want)
				}
			})
		})
	}
}

// After Close a call is answered by its own fetch, and what was under way ends.
func TestClose(t *testing.T) {
	s := newStore(t)
	x, y := wait(t, s, query(pure)), wait(t, s, query(pure))
	s.Close()
	if x.ctx.Err() == nil {
		t.Error("the flight goes on")
	}
	x.flight.Settle(nil, false, false)
	if got := y.outcome(t); !got.Alone {
		t.Errorf("the joiner got %+v, want to fetch alone", got)
	}
	src := &source{store: s}
	for range 2 {
		if got := src.ask(t, query(pure)); got.How != dedup.Fetched {
			t.Errorf("got %s, want fetched", got.How)
		}
	}
}

// A flight of a scope that has ended leaves nothing behind, even if the scope
// ends while it settles.
func TestDropInFlight(t *testing.T) {
	s := newStore(t)
	x := wait(t, s, query(pure))
	s.Drop("session 1")
	x.flight.Settle([]byte("late"), false, true)
	x.outcome(t)
	if got := s.Stats(); got.Entries != 0 {
		t.Errorf("got %d entries, want none", got.Entries)
	}
}
