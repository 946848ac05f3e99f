package speculate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/call"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
)

func TestHarm(t *testing.T) {
	d := newScheduler(speculate.Slots{})
	s := d.NewClaims("")
	d.Harm(host, nil, speculate.ForegroundWait, 999*time.Microsecond)
	wantRoom(t, s, host, "3 1 false") // too short to count
	d.Harm(host, nil, speculate.RateLimited, 0)
	wantRoom(t, s, host, "1 2 false")
	wantRoom(t, s, "elsewhere", "3 1 false")
	d.Harm(host, s, speculate.ForegroundWait, 1500*time.Microsecond)
	wantRoom(t, s, host, "1 2 false") // only the session loses a level, as the host has lost one already
	wantRoom(t, s, "elsewhere", "1 2 false")
	begin(t, s, newBet(1)).claim.Done()
	d.Harm(host, s, speculate.Eviction, 0)
	wantRoom(t, s, host, "1 4 false")
	begin(t, s, newBet(2)).claim.Done()
	d.Harm(host, s, speculate.Question, 0) // does not count against the host
	wantRoom(t, s, host, "1 4 true")
	wantRefused(t, s, newBet(3), "throttled")
	wantRoom(t, d.NewClaims(""), host, "1 4 false")
	var why []string
	for _, e := range d.Events() {
		if e.Kind == record.Harm {
			why = append(why, fmt.Sprintf("%s %d %.3f", e.Why, e.Count, e.LatencyMS))
		} else {
			why = append(why, fmt.Sprintf("%s level %d", e.Why, e.To))
		}
	}
	whys := []string{
		"foreground_wait 2 2.499", "rate_limited 1 0.000", "rate_limited level 2", "foreground_wait level 2",
		"eviction 1 0.000", "eviction level 1", "eviction level 1", "question 1 0.000", "question level 0",
	}
	if diff := cmp.Diff(whys, why); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// TestLimited: if a host answers a call with 429 within a minute after a prefetch, it loses a
// level, once per prefetch. A 429 that another replica got counts at that replica only.
func TestLimited(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		d := newScheduler(speculate.Slots{})
		s, now := d.NewClaims(""), time.Now()
		d.Limited(host, elsewhere, now)
		b := begin(t, s, newBet(1))
		began(d, 1, "t", b.claim, now)
		d.Limited(host, elsewhere, now.Add(2*time.Minute))
		wantRoom(t, d.NewClaims(""), host, "3 1 false")
		began(d, 1, "t", b.claim, now)
		for range 2 {
			d.Limited(host, elsewhere, now.Add(time.Second))
		}
		wantRoom(t, d.NewClaims(""), host, "1 2 false")
		if got, _ := d.Harmed(speculate.RateLimited); (got == 1) == elsewhere {
			t.Errorf("elsewhere: %v: counted %d", elsewhere, got)
		}
		s.End()
	}
}

// TestHarmOfWaiting: if a call at a serial upstream has to wait for a prefetch, that is harm.
func TestHarmOfWaiting(t *testing.T) {
	d := speculate.NewScheduler(speculate.Slots{})
	teach(d, speculate.Serial)
	a, b := d.NewClaims(""), d.NewClaims("")
	g := begin(t, a, newBet(1))
	began(d, 1, "t", g.claim, at(0))
	began(d, 2, "t", nil, at(40))
	ended(d, 1, at(100))
	ended(d, 2, at(200))
	if _, got := d.Harmed(speculate.ForegroundWait); got != 60 {
		t.Errorf("got %v ms, want 60", got)
	}
	wantRoom(t, a, "elsewhere", "0 2 false")
	g.claim.Done()
	wantRoom(t, a, "elsewhere", "1 2 false")
	wantRoom(t, b, "elsewhere", "1 1 false")
	wantRoom(t, b, host, "1 2 false")
}

// TestHarmOfGivenUp: a serial upstream may still run an abandoned prefetch, so the time that the
// next call takes beyond its usual latency is harm.
func TestHarmOfGivenUp(t *testing.T) {
	for _, sent := range []bool{false, true} {
		for _, over := range []bool{false, true} {
			givenUp(t, sent, over)
		}
	}
}

// givenUp makes such a call before the prefetch is abandoned or, if sent is false, after it. over
// says that the prefetch's fate is known by then.
func givenUp(t *testing.T, sent, over bool) {
	d := speculate.NewScheduler(speculate.Slots{})
	alone(d, "t", 100)
	teach(d, speculate.Serial)
	s := d.NewClaims("")
	g := begin(t, s, newBet(1))
	began(d, 1, "t", g.claim, at(0))
	if sent {
		began(d, 2, "t", nil, at(12))
	}
	s.DropUnless(start, func(call.Key) bool { return false })
	if g.ended() == nil {
		t.Fatal("the prefetch is not cancelled")
	}
	if over {
		cut(d, 1, at(13)) // abandoned; the server may still run it
	}
	if !sent {
		began(d, 2, "t", nil, at(12))
	}
	ended(d, 2, at(200))
	if _, got := d.Harmed(speculate.ForegroundWait); got != 88 {
		t.Errorf("sent before: %v, ended before: %v: got %v ms, want 88", sent, over, got)
	}
	if got := d.Stats().Hosts[host]; got != 2 {
		t.Errorf("got level %d", got)
	}
}

// TestNoHarmOfCut: a call that waits for another call that was abandoned is not harmed by a
// prefetch.
func TestNoHarmOfCut(t *testing.T) {
	d := speculate.NewScheduler(speculate.Slots{})
	alone(d, "t", 100)
	teach(d, speculate.Serial)
	s := d.NewClaims("")
	g := begin(t, s, newBet(1))
	s.Called(at(0), key(1)) // the client's call joins the prefetch
	for id, claim := range []*speculate.Claim{nil, g.claim} {
		began(d, uint64(id), "t", claim, at(0))
		began(d, 2, "t", nil, at(10))
		cut(d, uint64(id), at(20))
		ended(d, uint64(id), at(20))
		ended(d, 2, at(200))
		if _, got := d.Harmed(speculate.ForegroundWait); got != 0 {
			t.Errorf("a prefetch: %v: got %v ms", claim != nil, got)
		}
	}
}

// TestHarmOfGivenUpUnclear: after an abandoned prefetch, a latency that is only slightly longer is
// not harm. Neither is the wait of another prefetch.
func TestHarmOfGivenUpUnclear(t *testing.T) {
	for _, prefetch := range []bool{false, true} {
		d := speculate.NewScheduler(speculate.Slots{})
		for i, ms := range []int{70, 100, 140, 70, 100, 140} { // latencies that vary
			began(d, 1, "t", nil, at(1000*i-10_000))
			ended(d, 1, at(1000*i-10_000+ms))
		}
		teach(d, speculate.Serial)
		s := d.NewClaims("")
		g := begin(t, s, newBet(1))
		began(d, 1, "t", g.claim, at(0))
		s.DropUnless(start, func(call.Key) bool { return false })
		ended(d, 1, at(13))
		var of *speculate.Claim
		if prefetch {
			of = g.claim
		}
		began(d, 2, "t", of, at(14))
		if prefetch {
			ended(d, 2, at(300))
		} else {
			ended(d, 2, at(150))
		}
		if _, got := d.Harmed(speculate.ForegroundWait); got != 0 {
			t.Errorf("a prefetch: %v: got %v ms", prefetch, got)
		}
	}
}

// TestNoHarmOfJoined: a call that waits for a prefetch which another call has joined is not
// harmed, as it would have waited for that call.
func TestNoHarmOfJoined(t *testing.T) {
	d := speculate.NewScheduler(speculate.Slots{})
	teach(d, speculate.Serial)
	s := d.NewClaims("")
	g := begin(t, s, newBet(1))
	began(d, 1, "t", g.claim, at(0))
	s.Called(at(10), key(1))
	began(d, 2, "t", nil, at(40))
	ended(d, 1, at(100))
	ended(d, 2, at(200))
	if _, got := d.Harmed(speculate.ForegroundWait); got != 0 {
		t.Errorf("got %v ms", got)
	}
}

// TestWaitedBefore: waits for prefetches before a scheduler's first report of a host do not lower its
// level, and those that were reported to another scheduler are not recorded again.
func TestWaitedBefore(t *testing.T) {
	d := newScheduler(speculate.Slots{})
	d.Limited(host, false, time.Now()) // the host is known before the report
	for _, test := range []struct {
		total, unread time.Duration
		level         int
		waitedMS      float64
	}{
		{time.Second, 500 * time.Millisecond, speculate.Normal, 500},
		{time.Second, 0, speculate.Normal, 500},
		{3 * time.Second, 0, speculate.Normal - 1, 500},
		{time.Second, time.Second, speculate.Normal - 1, 1500}, // the host's limits were forgotten
	} {
		d.Waited(host, test.total, test.unread)
		if _, got := d.Harmed(speculate.ForegroundWait); got != test.waitedMS || d.Stats().Hosts[host] != test.level {
			t.Errorf("after a report of %v: got %v ms and level %d, want %v and %d", test.total, got, d.Stats().Hosts[host], test.waitedMS, test.level)
		}
	}
}

// TestContextOfForgotten: the context of a prefetch that is not tracked any more, as too many are open, is
// released.
func TestContextOfForgotten(t *testing.T) {
	s := newScheduler(speculate.Slots{}).NewClaims("")
	first := begin(t, s, newBet(0))
	first.claim.Done()
	for i := range 256 {
		begin(t, s, newBet(1+i)).claim.Done()
	}
	if s.Open() != 256 || first.ended() == nil {
		t.Errorf("%d prefetches are tracked, and the context of the first has ended: %v", s.Open(), first.ended() != nil)
	}
}
