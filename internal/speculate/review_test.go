package speculate_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mcpschedd/internal/call"
	"mcpschedd/internal/speculate"
)

func TestFates(t *testing.T) {
	d := newScheduler(speculate.Options{PerSession: 5})
	s := d.Session("")
	all := make([]*bet, 5)
	for i := range all {
		all[i] = begin(t, s, newBet(i))
	}
	all[0].fate.Store(int64(call.Ready))
	all[1].fate.Store(int64(call.Late))
	all[2].fate.Store(int64(call.Wasted))
	for range 3 { // each is counted once
		s.Review(start)
	}
	st := d.Stats()
	if st.Issued != 5 || st.Used != 2 || st.Wasted != 1 {
		t.Errorf("got %+v", st)
	}
	for i, b := range all {
		if over := b.ended() != nil; over != (i < 3) {
			t.Errorf("%d: its context has ended: %v", i, over)
		}
	}
	s.Called(start, all[3].key) // a real call waits for it
	s.End()
	st = d.Stats()
	if st.Used != 3 || st.Wasted != 2 {
		t.Errorf("after the end: got %+v", st)
	}
}

// TestCompared: a prefetch that was only compared is not a label, even if it was right: it moves no
// level and leaves no claim.
func TestCompared(t *testing.T) {
	d := newScheduler(speculate.Options{})
	s := d.Session("")
	bets(t, s, host, 15, call.Wasted) // one short of a judgement
	bets(t, s, host, 500, call.Compared)
	wantRoom(t, s, host, "3 1 false")
	bets(t, s, host, 1, call.Wasted)
	wantRoom(t, s, host, "1 2 false")
	b := begin(t, s, newBet(1))
	b.fate.Store(int64(call.Compared))
	s.Review(start)
	if b.ended() == nil {
		t.Error("its context has not ended")
	}
	s.Done(b.key)
	st := d.Stats()
	if st.Compared != 501 || st.Wasted != 16 || st.Issued != 517 || st.UnderWay != 0 {
		t.Errorf("got %+v", st)
	}
}

// TestComparedEarnsNothing: a compared prefetch neither raises the level nor shortens the time after
// harm.
func TestComparedEarnsNothing(t *testing.T) {
	d := newScheduler(speculate.Options{})
	s := d.Session("")
	d.Harm(host, s, speculate.RateLimited, 0)
	bets(t, s, host, 100, call.Compared)
	bets(t, s, host, 31, call.Ready)
	wantRoom(t, s, host, "1 2 false")
	bets(t, s, host, 1, call.Ready)
	wantRoom(t, s, host, "3 1 false")
	b := begin(t, s, newBet(1))
	b.fate.Store(int64(call.Compared))
	s.Called(start, b.key)
	s.End()
	if st := d.Stats(); st.Compared != 101 || st.Used != 32 || st.Issued != 133 {
		t.Errorf("after the end: got %+v", st)
	}
}

// TestReviewWithinReview: a fate counts once, even if a review runs within another one.
func TestReviewWithinReview(t *testing.T) {
	d := newScheduler(speculate.Options{})
	s := d.Session("")
	var depth int
	g := newBet(1).prefetch()
	g.Begin = func(context.Context) (func() call.Fate, string) {
		return func() call.Fate {
			if depth++; depth < 3 {
				s.Review(start)
			}
			return call.Ready
		}, ""
	}
	s.Start(t.Context(), g)
	s.Review(start)
	s.End()
	if st := d.Stats(); st.Used != 1 {
		t.Errorf("got %+v", st)
	}
}

func TestLevels(t *testing.T) {
	d := newScheduler(speculate.Options{PerSession: 4})
	a, b := d.Session("one"), d.Session("two")
	bets(t, a, host, 16, call.Wasted)
	wantRoom(t, a, host, "2 2 false")
	wantRoom(t, a, "elsewhere", "2 2 false") // the session's level
	wantRoom(t, b, host, "2 2 false")        // the host's
	wantRoom(t, b, "elsewhere", "4 1 false")
	bets(t, b, host, 16, call.Wasted)
	wantRoom(t, a, host, "1 4 false")
	wantRoom(t, b, "elsewhere", "2 2 false")
	begin(t, b, newBet(1))
	wantRoom(t, b, host, "0 4 false")        // one there
	wantRoom(t, b, "elsewhere", "1 2 false") // two in all
	begin(t, b, &bet{key: key(2), host: "elsewhere"})
	wantRefused(t, b, newBet(3), "cap")

	want := []speculate.Change{
		{Host: host, From: 3, To: 2, Why: "accuracy"},
		{Session: "one", From: 3, To: 2, Why: "accuracy"},
		{Host: host, From: 2, To: 1, Why: "accuracy"},
		{Session: "two", From: 3, To: 2, Why: "accuracy"},
	}
	if diff := cmp.Diff(want, d.Changes(), cmpopts.IgnoreFields(speculate.Change{}, "At")); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if got := d.Changes(); len(got) != 0 {
		t.Errorf("told twice: %v", got)
	}
	st := d.Stats()
	if st.Sessions != [5]int{2: 2} || !maps.Equal(st.Hosts, map[string]int{host: 1, "elsewhere": 3}) {
		t.Errorf("got %+v", st)
	}
	a.End()
	if got := d.Stats().Sessions; got != [5]int{2: 1} {
		t.Errorf("after an end: got %v", got)
	}
}

// TestLevelsOneStretch: prefetches that are open when a level is lost do not cost the next one: 40
// wasted together cost one level.
func TestLevelsOneStretch(t *testing.T) {
	d := newScheduler(speculate.Options{PerSession: 64, Total: 64})
	s := d.Session("")
	for i := range 40 {
		begin(t, s, newBet(i)).fate.Store(int64(call.Wasted))
	}
	s.Review(start)
	if st := d.Stats(); st.Hosts[host] != 2 || st.Sessions != [5]int{2: 1} {
		t.Errorf("got %+v", st)
	}
}

func TestEager(t *testing.T) {
	d := newScheduler(speculate.Options{})
	s := d.Session("")
	bets(t, s, host, 16, call.Late)
	wantRoom(t, s, host, "3 0.5 false")
	wantRoom(t, s, "elsewhere", "3 1 false")
}

func TestReprice(t *testing.T) {
	d := newScheduler(speculate.Options{PerSession: 5})
	s := d.Session("")
	poor, good, joined, back := begin(t, s, newBet(1)), begin(t, s, newBet(2)), begin(t, s, newBet(3)), begin(t, s, newBet(4))
	s.Called(start, joined.key)
	s.Done(back.key)
	for range 2 {
		s.Reprice(start, func(k call.Key) bool {
			d.Stats() // may be called: no lock is held
			return k == good.key
		})
	}
	if got := poor.ended(); !errors.Is(got, speculate.ErrDropped) {
		t.Errorf("what pays no longer: got %v", got)
	}
	for _, b := range []*bet{good, joined, back} {
		if b.ended() != nil {
			t.Errorf("%s: got %v", b.key.Arguments, b.ended())
		}
	}
	if st := d.Stats(); st.UnderWay != 3 {
		t.Errorf("got %+v", st) // the slot is free when the call has returned
	}
}
