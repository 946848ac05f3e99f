package dedup_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

// prefetching is a prefetch in progress.
type prefetching struct {
	*dedup.Prefetch
	flight *dedup.Flight
	ctx    context.Context // to fetch under
	over   func()          // its own time is
}

func begin(t testing.TB, s *dedup.Store, q dedup.Query) *prefetching {
	t.Helper()
	ctx, over := context.WithTimeout(t.Context(), 24*time.Hour)
	t.Cleanup(over)
	x := &prefetching{over: over}
	g, why := s.Prefetch(ctx, q, func(ctx context.Context, f *dedup.Flight) { x.flight, x.ctx = f, ctx })
	if why != "" {
		t.Fatalf("not begun: %s", why)
	}
	x.Prefetch = g
	return x
}

func (g *prefetching) settle() { g.flight.Settle([]byte("prefetched"), false, true) }

// TestFate makes a prefetch and an event, and checks the prefetch's fate.
func TestFate(t *testing.T) {
	type world struct {
		*source
		*prefetching
		q dedup.Query
	}
	const pending, ready, late, wasted = call.Pending, call.Ready, call.Late, call.Wasted
	left := func(t *testing.T, w world) {
		wait(t, w.store, w.q).leave(errLeft)
		synctest.Wait()
	}
	for _, tt := range []struct {
		name string
		use  dedup.Reuse
		act  func(t *testing.T, w world)
		want call.Fate
		why  string
	}{
		{"begun", never, func(*testing.T, world) {}, pending, ""},
		{"stored", never, func(_ *testing.T, w world) { w.settle() }, pending, ""},
		{"stored, and its time over", never, func(_ *testing.T, w world) { w.settle(); w.over() }, pending, ""},
		{"stored and asked for", never, func(t *testing.T, w world) { w.settle(); w.ask(t, w.q) }, ready, ""},
		{"asked for, then invalid", fresh, func(t *testing.T, w world) {
			w.settle()
			w.ask(t, w.q)
			w.store.Invalidate(host)
			w.ask(t, w.q)
		}, ready, ""},
		{"joined", never, func(t *testing.T, w world) { wait(t, w.store, w.q) }, pending, ""},
		{"joined and answered", never, func(t *testing.T, w world) { wait(t, w.store, w.q); w.settle() }, late, ""},
		{"joined, answered and asked for again", fresh, func(t *testing.T, w world) {
			wait(t, w.store, w.q)
			w.settle()
			w.ask(t, w.q)
		}, late, ""},
		{"joined, then a change", never, func(t *testing.T, w world) {
			wait(t, w.store, w.q)
			w.store.Invalidate(host)
			w.settle()
		}, late, ""},
		{"joined, and its scope ends", never, func(t *testing.T, w world) {
			wait(t, w.store, w.q)
			w.store.DropScope("session 1")
			w.settle()
		}, late, ""},
		{"joined and left", never, left, pending, ""},
		{"joined and left, then asked for", never, func(t *testing.T, w world) {
			left(t, w)
			w.settle()
			w.ask(t, w.q)
		}, ready, ""},
		{"joined and left, its time over", never, func(t *testing.T, w world) { left(t, w); w.over() }, wasted, "dropped"},
		{"joined, its scope ends, and left", never, func(t *testing.T, w world) {
			x := wait(t, w.store, w.q)
			w.store.DropScope("session 1")
			x.leave(errLeft)
		}, wasted, "dropped"},
		{"joined and failed", never, func(t *testing.T, w world) {
			wait(t, w.store, w.q)
			w.flight.Settle(nil, false, false)
		}, wasted, "error"},
		{"its time over", never, func(_ *testing.T, w world) { w.over() }, wasted, "dropped"},
		{"its time over, and settled", never, func(_ *testing.T, w world) { w.over(); synctest.Wait(); w.settle() }, wasted, "dropped"},
		{"failed", never, func(_ *testing.T, w world) { w.flight.Settle([]byte("error"), false, false) }, wasted, "error"},
		{"the server asks", never, func(_ *testing.T, w world) { w.flight.Taint() }, wasted, "error"},
		{"the server asks its client", never, func(t *testing.T, w world) { wait(t, w.store, w.q); w.store.Taint(1) }, wasted, "error"},
		{"a change, and not looked at", never, func(_ *testing.T, w world) { w.store.Invalidate(host) }, pending, ""},
		{"a change in flight", never, func(_ *testing.T, w world) { w.store.Invalidate(host); w.settle() }, wasted, "invalidated"},
		{"a change in flight, then asked for", never, func(t *testing.T, w world) { w.store.Invalidate(host); w.ask(t, w.q) }, wasted, "invalidated"},
		{"a change in flight, then prefetched", never, func(t *testing.T, w world) { w.store.Invalidate(host); w.prefetch(t, w.q) }, wasted, "invalidated"},
		{"a change, then asked for", never, func(t *testing.T, w world) { w.settle(); w.store.Invalidate(host); w.ask(t, w.q) }, wasted, "invalidated"},
		{"a change, then prefetched", never, func(t *testing.T, w world) { w.settle(); w.store.Invalidate(host); w.prefetch(t, w.q) }, wasted, "invalidated"},
		{"a change, then anything else", never, func(t *testing.T, w world) { w.settle(); w.store.Invalidate(host); w.ask(t, other(w.q)) }, wasted, "invalidated"},
		{"too slow", never, func(_ *testing.T, w world) { time.Sleep(time.Minute); w.settle() }, wasted, "expired"},
		{"too slow, and asked for", never, func(t *testing.T, w world) { time.Sleep(time.Minute); w.ask(t, w.q) }, wasted, "expired"},
		{"asked for too late", never, func(t *testing.T, w world) { w.settle(); time.Sleep(time.Minute); w.ask(t, w.q) }, wasted, "expired"},
		{"not asked for, but something else", never, func(t *testing.T, w world) { w.settle(); time.Sleep(time.Minute); w.ask(t, other(w.q)) }, wasted, "expired"},
		{"evicted", never, func(_ *testing.T, w world) { w.settle(); w.store.Configure(dedup.Options{}) }, wasted, "evicted"},
		{"too large", never, func(_ *testing.T, w world) { w.flight.Settle(make([]byte, 1<<18), false, true) }, wasted, "evicted"},
		{"too large, and joined", never, func(t *testing.T, w world) {
			wait(t, w.store, w.q)
			w.flight.Settle(make([]byte, 1<<18), false, true)
		}, late, ""},
		{"its scope ends", never, func(_ *testing.T, w world) { w.store.DropScope("session 1") }, wasted, "never_asked"},
		{"stored, and its scope ends", never, func(_ *testing.T, w world) { w.settle(); w.store.DropScope("session 1") }, wasted, "never_asked"},
		{"another scope ends", never, func(_ *testing.T, w world) { w.store.DropScope("session 2") }, pending, ""},
		{"the store is closed", never, func(_ *testing.T, w world) { w.store.Close() }, wasted, "never_asked"},
		{"stored, and the store closed", never, func(_ *testing.T, w world) { w.settle(); w.store.Close() }, wasted, "never_asked"},
		{"tried", never, func(t *testing.T, w world) { w.settle(); w.ask(t, trying(w.q)) }, call.Compared, "compared"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				src := &source{store: newStore(t)}
				q := query(tt.use, host)
				g := begin(t, src.store, q)
				tt.act(t, world{src, g, q})
				synctest.Wait()
				if g.Fate() != tt.want || g.Why() != tt.why {
					t.Errorf("got fate %d, %q, want %d, %q", g.Fate(), g.Why(), tt.want, tt.why)
				}
				g.flight.Settle(nil, false, false)
				if again := g.Fate(); tt.want != pending && again != tt.want {
					t.Errorf("the fate was %d and is %d", tt.want, again)
				}
			})
		})
	}
}

// TestPrefetchCancelled: a prefetch that no call can use any more is cancelled at once.
func TestPrefetchCancelled(t *testing.T) {
	for name, act := range map[string]func(t *testing.T, s *dedup.Store, g *prefetching){
		"its time is over": func(_ *testing.T, _ *dedup.Store, g *prefetching) { g.over() },
		"the server asks":  func(_ *testing.T, s *dedup.Store, _ *prefetching) { s.Taint(1) },
		"its scope ends":   func(_ *testing.T, s *dedup.Store, _ *prefetching) { s.DropScope("session 1") },
		"a change, and a call in its place": func(t *testing.T, s *dedup.Store, _ *prefetching) {
			s.Invalidate(host)
			(&source{store: s}).ask(t, query(never, host))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := newStore(t)
				g := begin(t, s, query(never, host))
				act(t, s, g)
				synctest.Wait()
				if g.ctx.Err() == nil {
					t.Error("the fetch goes on")
				}
				if got := s.Open("session 1"); got != 0 {
					t.Errorf("%d prefetches without a fate", got)
				}
				g.flight.Settle(nil, false, false)
			})
		})
	}
}

// TestSweep: prefetches that are never used get a fate as other fetches begin.
func TestSweep(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		src := &source{store: newStore(t)}
		var all []*prefetching
		for i := range 40 {
			q := query([]dedup.Reuse{never, pure, fresh}[i%3], []call.Place{host, local}[i%2])
			q.Key.Arguments = fmt.Sprint(i)
			all = append(all, begin(t, src.store, q))
			all[i].settle()
		}
		src.store.Invalidate(local)
		time.Sleep(time.Minute)
		for range 20 { // each looks at four
			src.ask(t, query(never))
		}
		for i, g := range all {
			want := "expired"
			switch {
			case i%2 == 1:
				want = "invalidated"
			case i%3 == 1:
				want = "" // pure, and nothing has changed
			}
			if got := g.Why(); got != want {
				t.Errorf("prefetch %d: %q, want %q", i, got, want)
			}
		}
		if got := src.store.Stats().Entries; got != 6 {
			t.Errorf("%d answers are kept, want the 6 that may be asked for yet", got)
		}
	})
}
