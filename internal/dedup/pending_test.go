package dedup_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

func slot(n uint64) call.Place { return call.Place{Slot: n} }

func changes(places ...call.Place) call.Effect { return call.Effect{Places: places} }

func remote(places ...call.Place) call.Effect { return call.Effect{Places: places, Remote: true} }

func other(q dedup.Query) dedup.Query {
	q.Key.Arguments = `{"path":"other"}`
	return q
}

// keeps reports whether an answer fetched now is served to the next call.
func keeps(t *testing.T, s *dedup.Store, places ...call.Place) bool {
	t.Helper()
	src := &source{store: s}
	src.ask(t, query(pure, places...))
	return src.ask(t, query(pure, places...)).How == dedup.Hit
}

// TestPending checks when a registered write is no longer pending.
func TestPending(t *testing.T) {
	for _, tt := range []struct {
		name    string
		effect  call.Effect
		act     func(p *dedup.PendingWrite)
		pending bool
	}{
		{"arrived", changes(local), func(*dedup.PendingWrite) {}, true},
		{"ended", changes(local), (*dedup.PendingWrite).End, false},
		{"ended twice", changes(local), func(p *dedup.PendingWrite) { p.End(); p.End() }, false},
		{"one place named twice", changes(local, local), (*dedup.PendingWrite).End, false},
		{"in doubt", changes(local), (*dedup.PendingWrite).Doubt, true},
		{"in doubt for too long", changes(local), func(p *dedup.PendingWrite) { p.Doubt(); time.Sleep(writeSettle + 1) }, false},
		{"in doubt, then ended", changes(local), func(p *dedup.PendingWrite) { p.Doubt(); p.End() }, false},
		{"ended, then in doubt", changes(local), func(p *dedup.PendingWrite) { p.End(); p.Doubt() }, false},
		{"in doubt again", changes(local), func(p *dedup.PendingWrite) {
			for range 3 {
				p.Doubt()
				time.Sleep(writeSettle - 1)
			}
		}, true},
		{"edge", changes(edge), func(*dedup.PendingWrite) {}, true},
		{"read", changes(), func(*dedup.PendingWrite) {}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := newStore(t)
				tt.act(s.RegisterWrite(tt.effect))
				if got := !keeps(t, s, local, edge); got != tt.pending {
					t.Errorf("pending: %v, want %v", got, tt.pending)
				}
			})
		})
	}
}

// TestExpiredUnderOtherRules: a call that is answered after WriteSettle may have changed anything if the rules are
// others than those that it was registered under.
func TestExpiredUnderOtherRules(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newStore(t)
		src, write := &source{store: s}, s.RegisterWrite(changes())
		write.Doubt()
		s.Reclassify()
		time.Sleep(writeSettle + time.Minute) // in which it expires and settles
		if !keeps(t, s, local) {
			t.Fatal("it has not expired")
		}
		again := write.Unexpired()
		for _, when := range []string{"while it goes on", "once it has ended"} {
			if how := src.ask(t, query(pure, local)).How; how != dedup.Fetched {
				t.Errorf("%s: got %s, want the answer from before fetched again", when, how)
			}
			again.End()
		}
	})
}

// TestRegisterWriteAllocates: every call that goes upstream is registered, so it must be cheap.
func TestRegisterWriteAllocates(t *testing.T) {
	s := newStore(t)
	if got := testing.AllocsPerRun(100, func() { s.RegisterWrite(call.Effect{}).End() }); got > 1 {
		t.Errorf("%v allocations, want at most 1", got)
	}
}

// TestReclassify: after Reclassify, any call in progress may change anything.
func TestReclassify(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newStore(t)
		read, write, gone := s.RegisterWrite(changes()), s.RegisterWrite(changes(local)), s.RegisterWrite(changes(local))
		gone.End()
		s.Reclassify()
		later := s.RegisterWrite(changes(host))
		for _, step := range []struct {
			name string
			act  func()
			want bool // whether an answer that depends on none of the calls' places is served
		}{
			{"reformed", func() {}, false},
			{"one that had ended ends again", gone.End, false},
			{"the read has ended", read.End, false},
			{"reformed again", s.Reclassify, false},
			{"the write is in doubt", write.Doubt, false},
			{"the later one has ended", later.End, false},
			{"the time of the write is over", func() { time.Sleep(writeSettle + 1) }, false},
			{"and whatever it did has settled", func() { time.Sleep(settle) }, true},
		} {
			step.act()
			if got := keeps(t, s, edge); got != step.want {
				t.Errorf("%s: kept %v, want %v", step.name, got, step.want)
			}
		}
		if got := s.Stats().UnderWay; got != 0 || s.Pending() != 0 {
			t.Errorf("%d calls under way and %d pending writes, want none", got, s.Pending())
		}
	})
}

// TestReclassifySettles: writes that were in progress or settling at Reclassify settle for all
// places.
func TestReclassifySettles(t *testing.T) {
	for name, reform := range map[string]func(s *dedup.Store){
		"a remote write": func(s *dedup.Store) {
			write := s.RegisterWrite(remote(host))
			s.Reclassify()
			write.End()
		},
		"what is one by the new rules": func(s *dedup.Store) {
			read := s.RegisterWrite(changes())
			s.Reclassify()
			read.End()
		},
		"a remote write that has ended": func(s *dedup.Store) {
			s.RegisterWrite(remote(host)).End()
			s.Reclassify()
		},
		"a remote write that has ended, before calls that need not settle": func(s *dedup.Store) {
			s.RegisterWrite(remote(host)).End()
			read := s.RegisterWrite(changes())
			s.Configure(dedup.Options{MaxBytes: 1 << 20, WriteSettle: writeSettle})
			s.Reclassify()
			read.End()
		},
	} {
		t.Run(name, func(t *testing.T) { reformSettles(t, reform) })
	}
}

func reformSettles(t *testing.T, reform func(s *dedup.Store)) {
	bubble.Test(t, func(t *testing.T) {
		s := newStore(t)
		reform(s)
		if keeps(t, s, edge) {
			t.Error("an answer that may be from before the write was served")
		}
		time.Sleep(settle)
		if !keeps(t, s, edge) {
			t.Error("no answer was served after the time to settle")
		}
	})
}

// TestDoubtAll: nothing is valid while writes of an earlier process may land. A call that runs longer, and that
// changes something else, is no reason to wait for it.
func TestDoubtAll(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newStore(t)
		src := &source{store: s}
		long := s.RegisterWrite(changes(host))
		defer long.End()
		src.ask(t, query(pure, edge))
		s.DoubtAll()
		if src.ask(t, query(pure, edge)).How == dedup.Hit || keeps(t, s, edge) {
			t.Error("an answer is served")
		}
		time.Sleep(writeSettle - 1)
		if keeps(t, s, edge) {
			t.Error("an answer is served before the time of a write is over")
		}
		time.Sleep(settle + 1)
		if !keeps(t, s, edge) {
			t.Error("no answer is served later")
		}
	})
}

// TestCloseWithDoubt: a timer that fires after Close changes nothing.
func TestCloseWithDoubt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newStore(t)
		p := s.RegisterWrite(changes(local))
		p.Doubt()
		s.Close()
		p.Doubt()
		time.Sleep(2 * writeSettle)
		if got := s.Stats().UnderWay; got != 1 {
			t.Errorf("got %d calls that have not ended, want the one in doubt", got)
		}
		p.End()
	})
}

// TestSettlingFlightIsNotJoined: a fetch that began while a remote write settled may have read what
// the write replaced, so a call that comes later does not join it.
func TestSettlingFlightIsNotJoined(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newStore(t)
		s.RegisterWrite(remote(host)).End()
		wait(t, s, query(pure, host))
		time.Sleep(settle)
		if wait(t, s, query(pure, host)).flight == nil {
			t.Error("the later call joined the fetch")
		}
	})
}

// TestOthersWaitUntilItSettles: the other replicas see a remote write until it has settled, and one
// that may be remote by new rules.
func TestOthersWaitUntilItSettles(t *testing.T) {
	for _, async := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			peers := &announced{}
			s := dedup.New(dedup.Options{Settle: settle, Peers: peers})
			defer s.Close()
			reclassified := s.RegisterWrite(changes(local))
			s.Reclassify()
			for _, p := range []*dedup.PendingWrite{s.RegisterWrite(changes(local)), s.RegisterWrite(remote(host)), reclassified} {
				if async {
					p.End()
					p.AnnounceAsync()
				} else if err := p.Announce(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				p.End()
			}
			synctest.Wait()
			for _, want := range []int64{1, 1, 3} {
				if got := peers.ended.Load(); got != want {
					t.Errorf("async: %v: %d writes have ended for the others, want %d", async, got, want)
				}
				time.Sleep(settle - 1)
			}
		})
	}
}

// announced are replicas that count the announced writes that have ended.
type announced struct {
	dedup.Peers
	ended atomic.Int64
}

func (a *announced) Announce(context.Context, []call.Place, func(error)) (dedup.Announcement, error) {
	return a, nil
}
func (*announced) Fence() error { return nil }
func (a *announced) End()       { a.ended.Add(1) }
