package speculate_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/speculate"
)

// TestHang: a call that never returns holds its slot until the deadline.
func TestHang(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newScheduler(speculate.Options{PerSession: 1})
		s := d.Session("")
		b := begin(t, s, newBet(1))
		time.Sleep(30*time.Second - time.Nanosecond)
		synctest.Wait()
		if b.ended() != nil || d.Stats().UnderWay != 1 {
			t.Errorf("before the deadline: %v, %+v", b.ended(), d.Stats())
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if st := d.Stats(); !errors.Is(b.ended(), speculate.ErrDeadline) || st.UnderWay != 0 {
			t.Errorf("at the deadline: %v, %+v", b.ended(), st)
		}

		// Until it returns Done could not tell it from another of its key.
		wantRefused(t, s, newBet(1), "in_flight")
		other := begin(t, s, newBet(2))
		s.Done(b.key)
		s.Done(b.key)
		if got := d.Stats().UnderWay; got != 1 {
			t.Errorf("its late return: got %d under way, want the other one", got)
		}
		s.Done(other.key)
		begin(t, s, newBet(1))
		s.End()
	})
}

// TestDeadlineAfterDone: a deadline after the call has returned does nothing.
func TestDeadlineAfterDone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newScheduler(speculate.Options{PerSession: 1, Deadline: time.Second})
		s := d.Session("")
		b := begin(t, s, newBet(1))
		time.Sleep(time.Second / 2)
		s.Done(b.key)
		begin(t, s, newBet(2))
		time.Sleep(time.Second / 2)
		synctest.Wait()
		if st := d.Stats(); st.UnderWay != 1 {
			t.Errorf("got %+v", st)
		}
		s.End()
	})
}

func TestDeadlineIsOfTheTimeItBegan(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newScheduler(speculate.Options{Deadline: time.Minute})
		s := d.Session("")
		b := begin(t, s, newBet(1))
		d.Configure(speculate.Options{Deadline: time.Second})
		time.Sleep(time.Second)
		synctest.Wait()
		if b.ended() != nil {
			t.Errorf("got %v", b.ended())
		}
		s.End()
	})
}

// TestBeginThatDoesNotReturn: a Begin that blocks or exits its goroutine holds its slot like a call
// that never returns.
func TestBeginThatDoesNotReturn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newScheduler(speculate.Options{})
		s := d.Session("")
		let := make(chan struct{})
		for i, hang := range []func(){func() { <-let }, runtime.Goexit} {
			g := newBet(i).prefetch()
			g.Begin = func(context.Context) (func() call.Fate, string) { hang(); return nil, "" }
			go s.Start(t.Context(), g)
		}
		synctest.Wait()
		if got := d.Stats().UnderWay; got != 2 {
			t.Errorf("got %d under way", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if st := d.Stats(); st.UnderWay != 0 {
			t.Errorf("got %+v", st)
		}
		close(let)
		synctest.Wait()
		s.End()
		if st := d.Stats(); st.UnderWay != 0 || st.Issued != 1 || st.Wasted != 1 {
			t.Errorf("after the end: got %+v", st)
		}
	})
}

// TestPanicEndsTheContext: if Begin panics, the context ends, for a call that it may have started.
func TestPanicEndsTheContext(t *testing.T) {
	d := newScheduler(speculate.Options{})
	var left context.Context
	g := newBet(1).prefetch()
	g.Begin = func(ctx context.Context) (func() call.Fate, string) { left = ctx; panic(1) }
	if got := d.Session("").Start(t.Context(), g); got != "panic" || left.Err() == nil {
		t.Errorf("got %q, its context: %v", got, left.Err())
	}
}

type contextKey struct{}

func TestContextIsDerived(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), contextKey{}, 1))
	s := newScheduler(speculate.Options{}).Session("")
	b := newBet(1)
	s.Start(ctx, b.prefetch())
	if b.ctx.Value(contextKey{}) != 1 || b.ended() != nil {
		t.Errorf("got %v, %v", b.ctx.Value(contextKey{}), b.ended())
	}
	why := errors.New("shutdown")
	if cancel(why); b.ended() != why {
		t.Errorf("got %v", b.ended())
	}
	s.End()
}

// TestEnd: End leaves no timer or goroutine, which would fail the bubble.
func TestEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newScheduler(speculate.Options{})
		s, other := d.Session(""), d.Session("")
		stored, flying, hung := begin(t, s, newBet(1)), begin(t, s, newBet(2)), begin(t, s, newBet(3))
		s.Done(stored.key)
		stays := begin(t, other, newBet(1))
		for range 2 {
			s.End()
		}
		for _, b := range []*bet{stored, flying, hung} {
			if !errors.Is(b.ended(), speculate.ErrEnded) {
				t.Errorf("%s: got %v", b.key.Arguments, b.ended())
			}
		}
		s.Done(flying.key)
		s.Review(start)
		s.Reprice(start, func(call.Key) bool { return false })
		s.Invalidate(func(call.Key) bool { return true })
		s.Called(start, flying.key)
		wantRoom(t, s, host, "0 1 false")
		time.Sleep(time.Hour)
		synctest.Wait()
		if st := d.Stats(); st.UnderWay != 0 || st.Wasted != 3 || !errors.Is(stays.ended(), speculate.ErrDeadline) {
			t.Errorf("got %+v", st) // the other session's is the one that hung
		}
		other.End()
	})
}

// TestEndWithinBegin: what Begin starts during End is cancelled and counted, and takes no slot.
func TestEndWithinBegin(t *testing.T) {
	d := newScheduler(speculate.Options{})
	s := d.Session("")
	b := newBet(1)
	g := b.prefetch()
	begin := g.Begin
	g.Begin = func(ctx context.Context) (func() call.Fate, string) {
		s.End()
		return begin(ctx)
	}
	if got := s.Start(t.Context(), g); got != "" {
		t.Errorf("got %q", got)
	}
	if st := d.Stats(); !errors.Is(b.ended(), speculate.ErrEnded) || st.UnderWay != 0 || st.Issued != 1 || st.Wasted != 1 {
		t.Errorf("got %v, %+v", b.ended(), st)
	}
}
