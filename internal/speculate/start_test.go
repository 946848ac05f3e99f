package speculate_test

import (
	"context"
	"testing"

	"mcpschedd/internal/call"
	"mcpschedd/internal/speculate"
)

func TestCaps(t *testing.T) {
	d := newScheduler(speculate.Options{PerSession: 2, Total: 3})
	a, b := d.Session(""), d.Session("")
	wantRoom(t, a, host, "2 1 false")
	begin(t, a, newBet(1))
	begin(t, a, newBet(2))
	wantRefused(t, a, newBet(3), "cap")
	wantRoom(t, a, host, "0 1 false")
	wantRoom(t, b, host, "1 1 false") // of three in all
	begin(t, b, newBet(1))
	wantRefused(t, b, newBet(2), "cap")
	a.Done(key(1))
	begin(t, b, newBet(2))
	if got := d.Stats().UnderWay; got != 3 {
		t.Errorf("got %d under way", got)
	}
}

func TestDefaults(t *testing.T) {
	d := newScheduler(speculate.Options{PerSession: -1})
	var n int
	for range 10 {
		s := d.Session("")
		for i := range 10 {
			if s.Start(t.Context(), newBet(i).prefetch()) == "" {
				n++
			}
		}
		if n == 3 {
			wantRoom(t, s, host, "0 1 false")
		}
	}
	if n != 16 {
		t.Errorf("started %d, want 16", n)
	}
}

func TestConfigure(t *testing.T) {
	d := newScheduler(speculate.Options{PerSession: 3})
	s := d.Session("")
	one, two := begin(t, s, newBet(1)), begin(t, s, newBet(2))
	d.Configure(speculate.Options{PerSession: 1})
	wantRoom(t, s, host, "0 1 false")
	if one.ended() != nil || two.ended() != nil {
		t.Error("what was under way was cut short")
	}
	s.Done(one.key)
	wantRefused(t, s, newBet(3), "cap")
	d.Configure(speculate.Options{PerSession: 2})
	begin(t, s, newBet(3))
}

func TestRefused(t *testing.T) {
	d := newScheduler(speculate.Options{})
	s := d.Session("")
	begin(t, s, newBet(1))
	wantRefused(t, s, newBet(1), "in_flight")
	no := newBet(2).prefetch()
	no.Begin = func(context.Context) (func() call.Fate, string) { return nil, "stored" }
	if got := s.Start(t.Context(), no); got != "stored" {
		t.Errorf("got %q, want what Begin said", got)
	}
	no.Begin = func(context.Context) (func() call.Fate, string) { panic("no") }
	if got := s.Start(t.Context(), no); got != "panic" {
		t.Errorf("got %q, want panic", got)
	}
	wantRoom(t, s, host, "2 1 false") // neither took a slot
	begin(t, s, newBet(2))
	s.End()
	wantRefused(t, s, newBet(3), "closed")
	if st := d.Stats(); st.Issued != 2 {
		t.Errorf("got %+v, want two that were begun", st)
	}
}

// TestOneAtATime: an upstream that is serial or unknown gets one prefetch at a time from all sessions;
// a serial one gets none behind a call.
func TestOneAtATime(t *testing.T) {
	for _, l := range []speculate.Concurrency{speculate.Unknown, speculate.Serial} {
		t.Run(l.String(), func(t *testing.T) {
			d := speculate.New(speculate.Options{})
			if l != speculate.Unknown {
				teach(d, upstream, l)
			}
			a, b := d.Session(""), d.Session("")
			wantRoom(t, a, host, "1 1 false")
			begin(t, a, newBet(1))
			wantRoom(t, a, host, "0 1 false")
			wantRoom(t, b, host, "0 1 false")
			wantRefused(t, b, newBet(2), "throttled")
			began(d, upstream, 1, "t", true, start)
			a.Done(key(1))
			wantRoom(t, b, host, "0 1 false") // the call is still with the upstream
			ended(d, upstream, 1, start)
			wantRoom(t, b, host, "1 1 false")

			began(d, upstream, 2, "t", false, start)
			if l == speculate.Serial {
				wantRefused(t, b, newBet(2), "throttled")
				ended(d, upstream, 2, start)
			}
			begin(t, b, newBet(2))
		})
	}
}

func TestDone(t *testing.T) {
	d := newScheduler(speculate.Options{})
	s := d.Session("")
	s.Done(key(9)) // never started
	b := begin(t, s, newBet(1))
	begin(t, s, newBet(2))
	for range 3 {
		s.Done(b.key)
	}
	if got := d.Stats().UnderWay; got != 1 {
		t.Errorf("got %d under way, want 1", got)
	}
	if b.ended() != nil {
		t.Error("an answer that may still be asked for was given up")
	}
	begin(t, s, newBet(1)) // again, while the first waits for its fate
	if got := d.Stats().UnderWay; got != 2 {
		t.Errorf("got %d under way, want 2", got)
	}
}

// TestDoneWithinBegin: a call may return before Begin does.
func TestDoneWithinBegin(t *testing.T) {
	d := newScheduler(speculate.Options{})
	s := d.Session("")
	g := newBet(1).prefetch()
	begin := g.Begin
	g.Begin = func(ctx context.Context) (func() call.Fate, string) {
		s.Done(g.Key)
		return begin(ctx)
	}
	if refused := s.Start(t.Context(), g); refused != "" {
		t.Fatal(refused)
	}
	if st := d.Stats(); st.UnderWay != 0 || st.Issued != 1 {
		t.Errorf("got %+v", st)
	}
	s.End()
	if st := d.Stats(); st.Wasted != 1 {
		t.Errorf("got %+v", st)
	}
}

// TestRefusedAfterAnother: a Begin that starts another prefetch of its key after its own call has
// returned, and then refuses, takes nothing from the other.
func TestRefusedAfterAnother(t *testing.T) {
	d := newScheduler(speculate.Options{})
	s := d.Session("")
	g := newBet(1).prefetch()
	g.Begin = func(context.Context) (func() call.Fate, string) {
		s.Done(g.Key)
		begin(t, s, newBet(1))
		return nil, "stored"
	}
	s.Start(t.Context(), g)
	wantRefused(t, s, newBet(1), "in_flight")
	s.Done(g.Key)
	if got := d.Stats().UnderWay; got != 0 {
		t.Errorf("got %d under way", got)
	}
}
