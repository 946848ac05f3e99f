package dedup_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

// TestWhileLanding: events while an answer is copied count as if they came before.
func TestWhileLanding(t *testing.T) {
	for _, tt := range []struct {
		name string
		act  func(t *testing.T, src *source, q dedup.Query)
		want string
	}{
		{"a call", func(t *testing.T, src *source, q dedup.Query) { src.ask(t, q) }, "expired"},
		{"a trial", func(t *testing.T, src *source, q dedup.Query) { src.ask(t, trying(q)) }, "expired"},
		{"another prefetch", func(t *testing.T, src *source, q dedup.Query) {
			if got := src.prefetch(t, q); got != "in_flight" {
				t.Errorf("another prefetch is refused with %q, want in_flight", got)
			}
		}, ""},
		{"a change", func(_ *testing.T, src *source, _ dedup.Query) { src.store.Invalidate(host) }, "invalidated"},
		{"its scope ends", func(_ *testing.T, src *source, _ dedup.Query) { src.store.DropScope("session 1") }, "never_asked"},
		{"its client's user asks for something else", func(_ *testing.T, src *source, _ dedup.Query) { src.store.ExpirePrefetches(ofSession1) }, "expired"},
		{"the store is closed", func(_ *testing.T, src *source, _ dedup.Query) { src.store.Close() }, "never_asked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := &source{store: newStore(t)}
			q := query(never, host)
			g := begin(t, src.store, q)
			g.flight.FinishAround([]byte("prefetched"), func() { tt.act(t, src, q) })
			if got := g.Why(); got != tt.want {
				t.Errorf("wasted because of %q, want %q", got, tt.want)
			}
			if got := src.ask(t, q); (got.How == dedup.Hit) != (tt.want == "") {
				t.Errorf("the next call got %s %q", got.How, got.Body)
			}
		})
	}
}

func ofSession1(scope string) bool { return scope == "session 1" }

// TestExpirePrefetches: a prompt expires prefetches, except joined ones, those of other sessions
// and those that depend only on places. Answers to calls stay.
func TestExpirePrefetches(t *testing.T) {
	s := newStore(t)
	src := &source{store: s}
	tool := func(name string, u dedup.Reuse) dedup.Query {
		q := query(u, host)
		q.Key.Tool = name
		return q
	}
	stored, constant, lasting := tool("stored", never), tool("constant", pure), tool("lasting", dedup.Reuse{Freshness: time.Hour})
	other := stored
	other.Key.Scope = "session 2"
	for _, q := range []dedup.Query{stored, constant, lasting, other} {
		src.prefetch(t, q)
	}
	src.ask(t, lasting)
	flying, joined := begin(t, s, tool("flying", never)), begin(t, s, tool("joined", lasting.Reuse))
	constantFlying := begin(t, s, tool("constant, flying", pure))
	left := begin(t, s, tool("left", never))
	left.flight.Sent()
	leaver := wait(t, s, tool("left", never))
	leaver.leave(errLeft)
	<-leaver.outcomes
	caller := wait(t, s, tool("joined", lasting.Reuse))
	s.ExpirePrefetches(ofSession1)
	for _, g := range []*prefetching{flying, left} {
		if g.ctx.Err() == nil || g.Why() != "expired" {
			t.Errorf("got %v, %q without a waiting call", g.ctx.Err(), g.Why())
		}
	}
	if joined.ctx.Err() != nil || constantFlying.ctx.Err() != nil {
		t.Errorf("got %v with a waiting call, and %v for an answer that depends only on places", joined.ctx.Err(), constantFlying.ctx.Err())
	}
	flying.settle()
	joined.settle()
	if got := caller.outcome(t); string(got.Body) != "prefetched" {
		t.Errorf("the call that waits got %q", got.Body)
	}
	for name, c := range map[string]struct {
		q    dedup.Query
		want dedup.Disposition
	}{
		"stored": {stored, dedup.Fetched}, "under way": {tool("flying", never), dedup.Fetched}, "constant": {constant, dedup.Hit}, "joined": {tool("joined", lasting.Reuse), dedup.Hit},
		"asked for before": {lasting, dedup.Hit}, "another session's": {other, dedup.Hit},
	} {
		if got := src.ask(t, c.q); got.How != c.want {
			t.Errorf("%s: got %s, want %s", name, got.How, c.want)
		}
	}
}

// TestFetchPanics: if fetch panics, the flight ends, and a call that joined it is answered.
func TestFetchPanics(t *testing.T) {
	s := newStore(t)
	q := query(never, host)
	caught := func(act func()) (what any) {
		defer func() { what = recover() }()
		act()
		return nil
	}
	fail := func(context.Context, *dedup.Flight) { panic("fetch") }
	if got := caught(func() { s.Prefetch(t.Context(), q, fail) }); got != "fetch" {
		t.Errorf("the prefetch panics with %v, want fetch", got)
	}
	var got []dedup.Outcome
	w := &dedup.Waiter{Done: func(o dedup.Outcome) { got = append(got, o) }}
	if got := caught(func() { s.Do(t.Context(), q, w, fail) }); got != "fetch" {
		t.Errorf("the call panics with %v, want fetch", got)
	}
	if len(got) != 1 || got[0].How != dedup.Fetched {
		t.Errorf("the call got %+v, want one answer", got)
	}
	if got := s.Stats(); got.Flights != 0 || got.Prefetch.Wasted["error"] != 1 {
		t.Errorf("got %+v, want no flight left and one prefetch wasted", got)
	}
}

// numbered returns the number of a call in the record.
func numbered(seq int64) call.Number { return call.Number{Session: "1f00c2", Seq: seq} }

// TestPrefetchBy: a prefetch has the number of its query, and By returns the call that used it
// first, or compared it.
func TestPrefetchBy(t *testing.T) {
	for _, tt := range []struct {
		name string
		act  func(t *testing.T, src *source, q dedup.Query, g *prefetching)
		want bool
	}{
		{"in flight", func(*testing.T, *source, dedup.Query, *prefetching) {}, false},
		{"stored", func(_ *testing.T, _ *source, _ dedup.Query, g *prefetching) { g.settle() }, false},
		{"wasted", func(_ *testing.T, _ *source, _ dedup.Query, g *prefetching) { g.over() }, false},
		{"used", func(t *testing.T, src *source, q dedup.Query, g *prefetching) { g.settle(); src.ask(t, q) }, true},
		{"used late", func(t *testing.T, src *source, q dedup.Query, g *prefetching) { wait(t, src.store, q); g.settle() }, true},
		{"compared", func(t *testing.T, src *source, q dedup.Query, g *prefetching) { g.settle(); src.ask(t, trying(q)) }, true},
		{"compared in flight, and again", func(t *testing.T, src *source, q dedup.Query, _ *prefetching) {
			src.ask(t, trying(q))
			q.Number = numbered(9)
			src.ask(t, trying(q))
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				src := &source{store: newStore(t)}
				q := query(never, host)
				q.Number = numbered(7)
				g := begin(t, src.store, q)
				q.Number = numbered(8) // of the call that asks for it
				tt.act(t, src, q, g)
				synctest.Wait()
				if got := g.Number(); got != numbered(7) {
					t.Errorf("got number %+v, want that of its own query", got)
				}
				if by := g.By(); (by == numbered(8)) != tt.want || !tt.want && by != (call.Number{}) {
					t.Errorf("got by %+v, want the call: %v", by, tt.want)
				}
			})
		})
	}
}

// TestTook: Took is the duration of the fetch from its sending, or its unloaded latency if that is
// less.
func TestTook(t *testing.T) {
	const s = time.Second
	sleep := time.Sleep
	for _, tt := range []struct {
		name       string
		fetch      func(f *dedup.Flight)
		want       time.Duration
		prefetched bool
	}{
		{"at once", func(*dedup.Flight) { sleep(3 * s) }, 3 * s, true},
		{"sent later", func(f *dedup.Flight) { sleep(2 * s); f.Sent(); sleep(s) }, s, true},
		{"in company", func(f *dedup.Flight) { sleep(3 * s); f.SetUnloadedLatency(s) }, s, true},
		{"worth more than it took", func(f *dedup.Flight) { sleep(3 * s); f.SetUnloadedLatency(time.Minute) }, 3 * s, true},
		{"not prefetched, in company", func(f *dedup.Flight) { sleep(3 * s); f.SetUnloadedLatency(2 * s) }, 2 * s, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				store := newStore(t)
				q := query(pure, host)
				var flight *dedup.Flight
				var own *waiting
				if tt.prefetched {
					flight = begin(t, store, q).flight
				} else {
					own = wait(t, store, q)
					flight = own.flight
				}
				joined := wait(t, store, q)
				tt.fetch(flight)
				flight.Finish([]byte("answer"), false, true)
				sleep(s) // not part of Took
				for how, x := range map[dedup.Disposition]*waiting{dedup.Joined: joined, dedup.Hit: wait(t, store, q)} {
					if got := x.outcome(t); got.How != how || got.Took != tt.want {
						t.Errorf("got %s that took %v, want %s of %v", got.How, got.Took, how, tt.want)
					}
				}
				if own != nil {
					if got := own.outcome(t); got.How != dedup.Fetched || got.Took != 0 {
						t.Errorf("the fetching call got %+v and Took %v, want 0", got.How, got.Took)
					}
				}
			})
		})
	}
}
