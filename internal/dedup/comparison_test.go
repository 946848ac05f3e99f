package dedup_test

import (
	"testing"
	"testing/synctest"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

func trying(q dedup.Query) dedup.Query {
	q.Reuse.CompareOnly = true
	return q
}

// TestComparison finishes a prefetch and a call that is compared with it in the given order. The
// prefetch must never be served.
func TestComparison(t *testing.T) {
	const real, prefetched = "real", "prefetched"
	type world struct {
		store    *dedup.Store
		prefetch *prefetching
		call     *waiting
	}
	none := func(world) {}
	bump := func(w world) { w.store.Invalidate(host) }
	for _, tt := range []struct {
		name   string
		use    dedup.Reuse
		stored bool   // the prefetch is stored when the call comes
		body   string // of the call's own answer
		good   bool   // it may be shared
		before func(w world)
		order  []string // which of the two is finished, in order
		want   dedup.Comparison
		fate   call.Fate
		why    string
	}{
		{"the same", never, true, prefetched, true, none, []string{real}, dedup.Same, call.Compared, "compared"},
		{"another answer", never, true, "else", true, none, []string{real}, dedup.Differs, call.Compared, "compared"},
		{"longer", never, true, prefetched + " ", true, none, []string{real}, dedup.Differs, call.Compared, "compared"},
		{"no more than its beginning", never, true, "prefetch", true, none, []string{real}, dedup.Differs, call.Compared, "compared"},
		{"an error", never, true, "no such row", false, none, []string{real}, dedup.Differs, call.Compared, "compared"},
		{"pure", pure, true, "else", true, none, []string{real}, dedup.Differs, call.Compared, "compared"},
		{"something changed", never, true, "else", true, bump, []string{real}, dedup.NotCompared, call.Compared, "compared"},
		{"a pending write", never, true, "else", true, func(w world) { w.store.RegisterWrite(changes(host)) }, []string{real}, dedup.NotCompared, call.Compared, "compared"},
		{"something else changed", never, true, prefetched, true, func(w world) { w.store.Invalidate(local) }, []string{real}, dedup.Same, call.Compared, "compared"},
		{"in flight, answered first", never, false, prefetched, true, none, []string{prefetched, real}, dedup.Same, call.Compared, "compared"},
		{"in flight, and another answer", never, false, "else", true, none, []string{prefetched, real}, dedup.Differs, call.Compared, "compared"},
		{"in flight, too slow", never, false, prefetched, true, none, []string{real, prefetched}, dedup.NotCompared, call.Compared, "compared"},
		{"in flight, something changed", never, false, "else", true, bump, []string{prefetched, real}, dedup.NotCompared, call.Wasted, "invalidated"},
		{"in flight, and it failed", never, false, prefetched, true, func(w world) {
			w.prefetch.flight.Finish([]byte(prefetched), false, false)
		}, []string{real}, dedup.NotCompared, call.Wasted, "error"},
		{"in flight, and the server asked", never, false, prefetched, true, func(w world) { w.prefetch.flight.Taint() }, []string{prefetched, real}, dedup.NotCompared, call.Wasted, "error"},
		{"in flight, its time over", never, false, prefetched, true, func(w world) {
			w.prefetch.over()
			synctest.Wait()
		}, []string{prefetched, real}, dedup.NotCompared, call.Wasted, "dropped"},
		{"in flight, its scope ends", never, false, prefetched, true, func(w world) { w.store.DropScope("session 1") }, []string{prefetched, real}, dedup.NotCompared, call.Wasted, "never_asked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := newStore(t)
				q := query(tt.use, host)
				g := begin(t, s, q)
				if tt.stored {
					g.settle()
				}
				x := wait(t, s, trying(q))
				if x.flight == nil {
					t.Fatal("the call does not fetch for itself")
				}
				tt.before(world{s, g, x})
				for _, who := range tt.order {
					if who == prefetched {
						g.settle()
						continue
					}
					x.flight.Finish([]byte(tt.body), false, tt.good)
				}
				got := x.outcome(t)
				if got.How != dedup.Fetched || got.Prefetched || got.Comparison != tt.want {
					t.Errorf("got %+v, want fetched, and a trial of %d", got, tt.want)
				}
				if g.Fate() != tt.fate || g.Why() != tt.why {
					t.Errorf("got fate %d, %q, want %d, %q", g.Fate(), g.Why(), tt.fate, tt.why)
				}
				g.settle()
				if got := wait(t, s, query(never, host)); got.flight == nil {
					t.Errorf("the prefetch is served after the comparison: %+v", got.outcome(t))
				}
			})
		})
	}
}
