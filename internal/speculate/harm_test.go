package speculate_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/call"
	"mcpschedd/internal/speculate"
)

func TestHarm(t *testing.T) {
	d := newScheduler(speculate.Options{})
	s := d.Session("")
	d.Harm(host, nil, speculate.ForegroundWait, 999*time.Microsecond)
	wantRoom(t, s, host, "3 1 false") // too short to matter
	d.Harm(host, nil, speculate.RateLimited, 0)
	wantRoom(t, s, host, "1 2 false")
	wantRoom(t, s, "elsewhere", "3 1 false")
	d.Harm(host, s, speculate.ForegroundWait, 1500*time.Microsecond)
	wantRoom(t, s, host, "1 2 false") // the host has lost a level already, the session not
	wantRoom(t, s, "elsewhere", "1 2 false")
	s.Done(begin(t, s, newBet(1)).key)
	d.Harm(host, s, speculate.Eviction, 0)
	wantRoom(t, s, host, "1 4 false")
	s.Done(begin(t, s, newBet(2)).key)
	d.Harm(host, s, speculate.Question, 0) // the session's level alone
	wantRoom(t, s, host, "1 4 true")
	wantRefused(t, s, newBet(3), "throttled")
	wantRoom(t, d.Session(""), host, "1 4 false")
	want := speculate.HarmStats{ForegroundWaitMS: 2.499, RateLimited: 1, Evictions: 1, Questions: 1}
	if got := d.Stats().Harm; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	var why []string
	for _, c := range d.Changes() {
		why = append(why, c.Why)
	}
	whys := []string{"rate_limited", "foreground_wait", "eviction", "eviction", "question"}
	if diff := cmp.Diff(whys, why); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	s.End()
	d.Harm(host, s, speculate.RateLimited, 0) // of a session that has ended
	if got := d.Stats().Sessions; got != [5]int{3: 1} {
		t.Errorf("got %v", got)
	}
}

// TestLimitedElsewhere: a host that answered 429 to another replica loses a level here if a prefetch
// was sent there within the last minute. Only the other replica counts the 429.
func TestLimitedElsewhere(t *testing.T) {
	d := newScheduler(speculate.Options{})
	now := time.Now()
	d.LimitedElsewhere(host, now)
	wantRoom(t, d.Session(""), host, "3 1 false")
	d.Prefetching(host, now)
	d.LimitedElsewhere(host, now.Add(2*time.Minute))
	wantRoom(t, d.Session(""), host, "3 1 false")
	d.Prefetching(host, now)
	d.LimitedElsewhere(host, now.Add(time.Second))
	d.LimitedElsewhere(host, now.Add(time.Second)) // there was no other prefetch
	wantRoom(t, d.Session(""), host, "1 2 false")
	if got := d.Stats().Harm; got != (speculate.HarmStats{}) {
		t.Errorf("counted %+v, want nothing", got)
	}
}

// TestQuestionsSpareTheHost: questions by tools of a host do not lower its level, as those tools are
// barred.
func TestQuestionsSpareTheHost(t *testing.T) {
	d := newScheduler(speculate.Options{})
	for range 20 {
		s := d.Session("")
		for i := range 5 {
			if b := newBet(i); s.Start(t.Context(), b.prefetch()) == "" {
				settle(s, call.Ready, b)
			}
			d.Harm(host, s, speculate.Question, 0)
		}
		wantRoom(t, s, host, "1 4 true")
		s.End()
	}
	wantRoom(t, d.Session(""), host, "3 1 false")
	if got := d.Stats().Harm.Questions; got != 100 {
		t.Errorf("got %d questions", got)
	}
}

// TestHarmOfWaiting: at a serial upstream, the wait of a call for a prefetch is harm.
func TestHarmOfWaiting(t *testing.T) {
	d := speculate.New(speculate.Options{})
	teach(d, upstream, speculate.Serial)
	a, b := d.Session(""), d.Session("")
	g := begin(t, a, newBet(1))
	began(d, upstream, 1, "t", true, at(0))
	began(d, upstream, 2, "t", false, at(40))
	ended(d, upstream, 1, at(100))
	ended(d, upstream, 2, at(200))
	if got := d.Stats().Harm.ForegroundWaitMS; got != 60 {
		t.Errorf("got %v ms, want 60", got)
	}
	wantRoom(t, a, "elsewhere", "0 2 false")
	a.Done(g.key)
	wantRoom(t, a, "elsewhere", "1 2 false")
	wantRoom(t, b, "elsewhere", "1 1 false")
	wantRoom(t, b, host, "1 2 false")
}

// TestHarmOfGivenUp: a serial upstream may still run an abandoned prefetch, so what the next call takes
// beyond its usual latency is harm.
func TestHarmOfGivenUp(t *testing.T) {
	for _, sent := range []bool{false, true} {
		for _, over := range []bool{false, true} {
			givenUp(t, sent, over)
		}
	}
}

// TestHarmOfGivenUpNotYetKnown: the same before the concurrency is known, if there is no evidence of
// parallel and the wait is clear.
func TestHarmOfGivenUpNotYetKnown(t *testing.T) {
	for _, tt := range []struct {
		name         string
		took, counts int
		parallel     bool
	}{
		{"clearly waited", 160, 60, false},
		{"may have taken longer by itself", 140, 0, false},
		{"something spoke for parallel", 160, 0, true},
	} {
		d := speculate.New(speculate.Options{})
		alone(d, "t", 100)
		if tt.parallel {
			overlap{10, 100, 110}.play(d, 0, "t")
		}
		s := d.Session("")
		begin(t, s, newBet(1))
		began(d, upstream, 1, "t", true, at(1000))
		cut(d, upstream, 1, at(1010))
		began(d, upstream, 2, "t", false, at(1011))
		ended(d, upstream, 2, at(1011+tt.took))
		if got := d.Stats().Harm.ForegroundWaitMS; math.Abs(got-float64(tt.counts)) > 0.01 {
			t.Errorf("%s: got %v ms, want %d", tt.name, got, tt.counts)
		}
	}
}

// givenUp makes such a call before or after the prefetch is abandoned, and ends the prefetch before or
// after that.
func givenUp(t *testing.T, sent, over bool) {
	d := speculate.New(speculate.Options{})
	alone(d, "t", 100)
	teach(d, upstream, speculate.Serial)
	s := d.Session("")
	g := begin(t, s, newBet(1))
	began(d, upstream, 1, "t", true, at(0))
	if sent {
		began(d, upstream, 2, "t", false, at(12))
	}
	s.Reprice(start, func(call.Key) bool { return false })
	if !errors.Is(g.ended(), speculate.ErrDropped) {
		t.Fatalf("got %v", g.ended())
	}
	if over {
		cut(d, upstream, 1, at(13)) // it has ended for us
	}
	if !sent {
		began(d, upstream, 2, "t", false, at(12))
	}
	ended(d, upstream, 2, at(200))
	if got := d.Stats().Harm.ForegroundWaitMS; got != 88 {
		t.Errorf("sent before: %v, ended before: %v: got %v ms, want 88", sent, over, got)
	}
	if got := d.Stats().Hosts[host]; got != 2 {
		t.Errorf("got level %d", got)
	}
}

// TestNoHarmOfCut: a wait for an abandoned call is not a prefetch's harm.
func TestNoHarmOfCut(t *testing.T) {
	d := speculate.New(speculate.Options{})
	alone(d, "t", 100)
	teach(d, upstream, speculate.Serial)
	s := d.Session("")
	begin(t, s, newBet(1))
	s.Called(at(0), key(1)) // as good as real
	for id, prefetch := range []bool{false, true} {
		began(d, upstream, uint64(id), "t", prefetch, at(0))
		began(d, upstream, 2, "t", false, at(10))
		cut(d, upstream, uint64(id), at(20))
		ended(d, upstream, uint64(id), at(20))
		ended(d, upstream, 2, at(200))
		if got := d.Stats().Harm.ForegroundWaitMS; got != 0 {
			t.Errorf("a prefetch: %v: got %v ms", prefetch, got)
		}
	}
}

// TestHarmBesideCut: a call that also waited for a prefetch counts only that wait.
func TestHarmBesideCut(t *testing.T) {
	d := speculate.New(speculate.Options{})
	alone(d, "t", 100)
	teach(d, upstream, speculate.Serial)
	begin(t, d.Session(""), newBet(1))
	began(d, upstream, 1, "t", true, at(0))
	began(d, upstream, 2, "t", false, at(10))
	began(d, upstream, 3, "t", false, at(20))
	cut(d, upstream, 2, at(30))
	ended(d, upstream, 2, at(30))
	ended(d, upstream, 1, at(100))
	ended(d, upstream, 3, at(300))
	if got := d.Stats().Harm.ForegroundWaitMS; got != 80 {
		t.Errorf("got %v ms, want 80", got)
	}
}

// TestHarmOfGivenUpUnclear: after an abandoned prefetch a slightly longer latency is not harm, nor is
// the wait of another prefetch.
func TestHarmOfGivenUpUnclear(t *testing.T) {
	for _, prefetch := range []bool{false, true} {
		d := speculate.New(speculate.Options{})
		for i, ms := range []int{70, 100, 140, 70, 100, 140} { // now a little less and now a little more
			began(d, upstream, 1, "t", false, at(1000*i-10_000))
			ended(d, upstream, 1, at(1000*i-10_000+ms))
		}
		teach(d, upstream, speculate.Serial)
		s := d.Session("")
		begin(t, s, newBet(1))
		began(d, upstream, 1, "t", true, at(0))
		s.Reprice(start, func(call.Key) bool { return false })
		ended(d, upstream, 1, at(13))
		began(d, upstream, 2, "t", prefetch, at(14))
		if prefetch {
			ended(d, upstream, 2, at(300))
		} else {
			ended(d, upstream, 2, at(150))
		}
		if got := d.Stats().Harm.ForegroundWaitMS; got != 0 {
			t.Errorf("a prefetch: %v: got %v ms", prefetch, got)
		}
	}
}

// TestNoHarmOfJoined: a call that waits for a joined prefetch waits for a call.
func TestNoHarmOfJoined(t *testing.T) {
	d := speculate.New(speculate.Options{})
	teach(d, upstream, speculate.Serial)
	s := d.Session("")
	begin(t, s, newBet(1))
	began(d, upstream, 1, "t", true, at(0))
	s.Called(at(10), key(1))
	began(d, upstream, 2, "t", false, at(40))
	ended(d, upstream, 1, at(100))
	ended(d, upstream, 2, at(200))
	if got := d.Stats().Harm.ForegroundWaitMS; got != 0 {
		t.Errorf("got %v ms", got)
	}
}
