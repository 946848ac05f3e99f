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
	ctx    context.Context // context of the fetch
	over   func()          // ends the prefetch's own context
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

func (g *prefetching) settle() { g.flight.Finish([]byte("prefetched"), false, true) }

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
					t.Error("the fetch was not cancelled")
				}
				if got := s.Open("session 1"); got != 0 {
					t.Errorf("%d prefetches without a fate", got)
				}
				g.flight.Finish(nil, false, false)
			})
		})
	}
}

// TestPromotedAndLeft: a prefetch that a call joined before it was sent ends with that call. After
// it was sent, it continues, and later calls may join it.
func TestPromotedAndLeft(t *testing.T) {
	for _, sent := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			s := newStore(t)
			g := begin(t, s, query(never, host))
			if sent {
				g.flight.Sent()
			}
			caller := wait(t, s, query(never, host))
			caller.leave(errLeft)
			<-caller.outcomes
			if cancelled := g.ctx.Err() != nil; cancelled == sent {
				t.Errorf("sent: %v: cancelled: %v", sent, cancelled)
			}
			time.Sleep(time.Second)
			next, together := wait(t, s, query(never, host)), wait(t, s, query(never, host))
			if joined := next.flight == nil && together.flight == nil; joined != sent {
				t.Errorf("sent: %v: the next two calls join: %v", sent, joined)
			}
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
		for range 20 { // each sweeps sweepBatch (4) answers
			src.ask(t, query(never))
		}
		for i, g := range all {
			want := "expired"
			switch {
			case i%2 == 1:
				want = "invalidated"
			case i%3 == 1:
				want = "" // valid until its place changes, which has not happened
			}
			if got := g.Why(); got != want {
				t.Errorf("prefetch %d: %q, want %q", i, got, want)
			}
		}
		if got := src.store.Stats().Entries; got != 6 {
			t.Errorf("%d answers are kept, want the 6 that are still valid", got)
		}
	})
}
