package speculate_test

import (
	"testing"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/speculate"
)

// bottom returns a session and a host at level 0.
func bottom(t *testing.T) (*speculate.Scheduler, *speculate.Session) {
	t.Helper()
	d := newScheduler(speculate.Options{})
	s := d.Session("")
	for i := range 3 {
		s.Done(begin(t, s, newBet(-i)).key)
		d.Harm(host, s, speculate.RateLimited, 0)
	}
	wantRoom(t, s, host, "1 4 true")
	return d, s
}

func wantWatched(t *testing.T, d *speculate.Scheduler, watched, came int64) {
	t.Helper()
	if st := d.Stats(); st.Watched != watched || st.WatchedTrue != came {
		t.Errorf("got %d watched, %d of them true, want %d and %d", st.Watched, st.WatchedTrue, watched, came)
	}
}

func TestWatchLeadsBack(t *testing.T) {
	d, s := bottom(t)
	for i := range 32 {
		wantRoom(t, s, host, "1 4 true")
		s.Watch(start, key(i), host, time.Second)
		s.Called(start.Add(time.Second), key(i))
	}
	wantRoom(t, s, host, "1 4 false")
	begin(t, s, newBet(100))
	wantWatched(t, d, 32, 32)
	if st := d.Stats(); st.Issued != 4 || st.Used != 0 {
		t.Errorf("what was watched is counted as issued: %+v", st)
	}
}

func TestWatchedInVain(t *testing.T) {
	for _, tt := range []struct {
		name string
		lose func(*speculate.Session)
	}{
		{"asked for too late", func(s *speculate.Session) { s.Called(start.Add(time.Second+1), key(1)) }},
		{"not asked for", func(s *speculate.Session) { s.Review(start.Add(time.Minute)) }},
		{"another was", func(s *speculate.Session) { s.Called(start, key(2)); s.Review(start.Add(time.Minute)) }},
		{"something changed", func(s *speculate.Session) {
			s.Invalidate(func(k call.Key) bool { return k == key(1) })
			s.Called(start, key(1))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, s := bottom(t)
			for range 100 {
				s.Watch(start, key(1), host, time.Second)
				tt.lose(s)
			}
			wantWatched(t, d, 100, 0)
			wantRoom(t, s, host, "1 4 true")
		})
	}
}

// TestWatchedInPart: one right of three is not enough to leave level 0. One of two is, and then started
// prefetches raise the level further: otherwise early harm would permanently end useful prefetching.
func TestWatchedInPart(t *testing.T) {
	for of, want := range map[int]string{2: "3 1 false", 3: "1 4 true"} {
		_, s := bottom(t)
		for i := range 300 {
			if _, _, watch := s.Room(host, upstream); !watch {
				bets(t, s, host, 1, []call.Fate{call.Wasted, call.Ready}[i%2])
				continue
			}
			for k := range of {
				s.Watch(start, key(k), host, time.Second)
			}
			s.Called(start, key(0))
			s.Review(start.Add(time.Minute))
		}
		wantRoom(t, s, host, want)
	}
}

func TestWatchVoidSparesOthers(t *testing.T) {
	d, s := bottom(t)
	s.Watch(start, key(1), host, time.Second)
	s.Watch(start, key(2), host, time.Second)
	s.Invalidate(func(k call.Key) bool {
		d.Stats() // may be called: no lock is held
		return k == key(1)
	})
	s.Called(start, key(1))
	s.Called(start, key(2))
	wantWatched(t, d, 2, 1)
}

func TestWatchTwice(t *testing.T) {
	d, s := bottom(t)
	s.Watch(start, key(1), host, time.Second)
	s.Watch(start.Add(time.Second/2), key(1), host, time.Second)
	wantWatched(t, d, 1, 0)
	s.Watch(start.Add(2*time.Second), key(1), host, time.Second) // the first is lost
	s.Called(start.Add(2*time.Second), key(1))
	s.Called(start.Add(2*time.Second), key(1))
	wantWatched(t, d, 2, 1)
}

// TestWatchAboveTheBottom: above level 0 watched claims are counted, but are not labels.
func TestWatchAboveTheBottom(t *testing.T) {
	d := newScheduler(speculate.Options{})
	s := d.Session("")
	for i := range 100 {
		s.Watch(start, key(i), host, time.Second)
	}
	s.Review(start.Add(time.Minute))
	wantWatched(t, d, 100, 0)
	wantRoom(t, s, host, "3 1 false")
}

// TestWatchAtThatHost: a session above level 0 watches at a host at level 0, without effect on its own
// level.
func TestWatchAtThatHost(t *testing.T) {
	d, s := bottom(t)
	s.End()
	s = d.Session("")
	wantRoom(t, s, host, "1 4 true")
	for i := range 32 {
		s.Watch(start, key(i), host, time.Second)
	}
	s.Review(start.Add(time.Minute))
	wantRoom(t, s, "elsewhere", "3 1 false")
	for i := range 100 {
		s.Watch(start.Add(time.Hour), key(i), host, time.Second)
		s.Called(start.Add(time.Hour), key(i))
	}
	wantRoom(t, s, host, "1 4 false")
	wantRoom(t, s, "elsewhere", "3 1 false")
}

// TestWatchedBefore: claims watched at another level do not count at this one.
func TestWatchedBefore(t *testing.T) {
	d := newScheduler(speculate.Options{})
	s := d.Session("")
	for i := range 100 {
		s.Watch(start, key(i), host, time.Hour)
	}
	for i := range 3 {
		s.Done(begin(t, s, newBet(-i)).key)
		d.Harm(host, s, speculate.RateLimited, 0)
	}
	for i := range 100 {
		s.Called(start, key(i))
	}
	wantRoom(t, s, "elsewhere", "1 4 true")
	wantRoom(t, d.Session(""), host, "1 4 true")
	wantWatched(t, d, 100, 100)
}

func TestWatchUntilTheEnd(t *testing.T) {
	d, s := bottom(t)
	for range 40 { // sessions that end before anybody asks
		s.Watch(start, key(1), host, time.Hour)
		s.End()
		s.Watch(start, key(2), host, time.Hour)
		s = d.Session("")
	}
	wantWatched(t, d, 40, 0)
	for i := range 16 {
		s.Watch(start, key(i), host, time.Hour)
		s.Called(start, key(i))
	}
	wantRoom(t, s, host, "1 4 true") // 16 of 56, though the last
	for i := range 40 {
		s.Watch(start, key(i), host, time.Hour)
		s.Called(start, key(i))
	}
	wantRoom(t, s, host, "1 4 false")
}
