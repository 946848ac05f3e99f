package speculate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/speculate"
)

// TestHang: a call that does not return is cancelled at the deadline, and its slot is free.
func TestHang(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newScheduler(speculate.Slots{PerSession: 1})
		s := d.NewClaims("")
		b := begin(t, s, newBet(1))
		time.Sleep(30*time.Second - time.Nanosecond)
		synctest.Wait()
		if b.ended() != nil || d.Stats().UnderWay != 1 {
			t.Errorf("before the deadline: %v, %+v", b.ended(), d.Stats())
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if st := d.Stats(); b.ended() == nil || st.UnderWay != 0 {
			t.Errorf("at the deadline: %v, %+v", b.ended(), st)
		}
		wantRefused(t, s, newBet(1), "in_flight") // until the call has returned
		other := begin(t, s, newBet(2))
		b.claim.Done()
		if got := d.Stats().UnderWay; got != 1 {
			t.Errorf("after its late return: got %d prefetches in progress, want the other one", got)
		}
		other.claim.Done()
		begin(t, s, newBet(1))
		s.End()
	})
}

// TestOneAtATime: an upstream that is serial or of unknown concurrency gets one prefetch at a time
// from all sessions together. A serial one gets none while a call is in progress.
func TestOneAtATime(t *testing.T) {
	for _, is := range []speculate.Concurrency{speculate.Unknown, speculate.Serial} {
		d := speculate.NewScheduler(speculate.Slots{})
		if is == speculate.Serial {
			teach(d, is)
		}
		a, b := d.NewClaims("a"), d.NewClaims("b")
		one := begin(t, a, newBet(1))
		wantRefused(t, b, newBet(2), "throttled")
		one.claim.Done()
		began(d, 1, "t", nil, at(0))
		want := enrich.Reason("")
		if is == speculate.Serial {
			want = enrich.Throttled
		}
		wantRefused(t, b, newBet(2), want)
	}
}

// TestDropUnless: a prefetch that is no longer worth its cost is cancelled, unless a call of any
// session has joined it.
func TestDropUnless(t *testing.T) {
	d := newScheduler(speculate.Slots{PerSession: 5})
	s := d.NewClaims("")
	poor, good, joined, shared := begin(t, s, newBet(1)), begin(t, s, newBet(2)), begin(t, s, newBet(3)), begin(t, s, newBet(4))
	s.Called(start, joined.key)
	d.NewClaims("another").Called(start, shared.key)
	s.DropUnless(start, func(k call.Key) bool { return k == good.key })
	if got := poor.ended(); got == nil {
		t.Errorf("not worth its cost any more: got %v", got)
	}
	if good.ended() != nil || joined.ended() != nil || shared.ended() != nil {
		t.Errorf("got %v, %v and %v", good.ended(), joined.ended(), shared.ended())
	}
	if st := d.Stats(); st.UnderWay != 4 {
		t.Errorf("got %+v", st) // the slot is released when the call returns
	}
}
