package dedup_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

// The reuse rules of the tests.
var (
	never    = dedup.Reuse{MaxAge: 10 * time.Second}
	fresh    = dedup.Reuse{Freshness: 5 * time.Second, MaxAge: 10 * time.Second}
	pure     = dedup.Reuse{Pure: true}
	volatile = dedup.Reuse{Freshness: 5 * time.Second, MaxAge: 10 * time.Second, Volatile: true}
)

// TestServed makes a call or a prefetch, and then calls at the given times after it.
func TestServed(t *testing.T) {
	const hit, fetched = dedup.Hit, dedup.Fetched
	for _, tt := range []struct {
		name       string
		use        dedup.Reuse
		prefetched bool
		after      []time.Duration
		want       []dedup.Disposition
	}{
		{"organic without freshness", never, false, []time.Duration{0, 1}, []dedup.Disposition{fetched, fetched}},
		{"organic and fresh", fresh, false, []time.Duration{0, 5*time.Second - 1}, []dedup.Disposition{hit, hit}},
		{"organic at its freshness", fresh, false, []time.Duration{5 * time.Second}, []dedup.Disposition{fetched}},
		{"organic and pure", pure, false, []time.Duration{0, time.Hour}, []dedup.Disposition{hit, hit}},
		{"organic and volatile", volatile, false, []time.Duration{time.Second}, []dedup.Disposition{hit}},
		{"prefetched without freshness", never, true, []time.Duration{time.Second, time.Second}, []dedup.Disposition{hit, fetched}},
		{"prefetched at max_age", never, true, []time.Duration{10 * time.Second}, []dedup.Disposition{hit}},
		{"prefetched beyond max_age", never, true, []time.Duration{10*time.Second + 1}, []dedup.Disposition{fetched}},
		{"prefetched and fresh", fresh, true, []time.Duration{1, 5 * time.Second}, []dedup.Disposition{hit, hit}},
		{"prefetched beyond freshness", fresh, true, []time.Duration{5*time.Second + 1}, []dedup.Disposition{fetched}},
		{"prefetched and pure", pure, true, []time.Duration{1, time.Hour}, []dedup.Disposition{hit, hit}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				src := &source{store: newStore(t)}
				q := query(tt.use, host, edge)
				if tt.prefetched {
					if why := src.prefetch(t, q); why != "" {
						t.Fatalf("not begun: %s", why)
					}
				} else if got := src.ask(t, q); got.How != fetched {
					t.Fatalf("the first was %s", got.How)
				}
				began := time.Now()
				for i, after := range tt.after {
					time.Sleep(time.Until(began.Add(after)))
					got := src.ask(t, q)
					if got.How != tt.want[i] {
						t.Errorf("after %v: got %s, want %s", after, got.How, tt.want[i])
					}
					if got.How == hit && (got.Age != after || got.Prefetched != tt.prefetched) {
						t.Errorf("after %v: age %v, prefetched %v", after, got.Age, got.Prefetched)
					}
				}
			})
		})
	}
}

// TestEvicted: the answers used least recently make room for others. A prefetch that evicts the answer to a call
// displaces it. A prefetched answer that may be served once takes no room afterwards, and one of more than an
// eighth of the room none at all.
func TestEvicted(t *testing.T) {
	s := newStore(t)
	s.Configure(dedup.Options{MaxBytes: 16_000})
	src := &source{store: s, same: strings.Repeat("x", 1400)}
	numbered := func(n int, u dedup.Reuse) dedup.Query {
		q := query(u, host)
		q.Key.Arguments = strconv.Itoa(n)
		return q
	}
	once := numbered(0, never)
	src.prefetch(t, once)
	src.ask(t, once)
	if got := s.Stats(); got.Entries != 0 {
		t.Errorf("%d answers are stored after the only use, want none", got.Entries)
	}
	for n := range 8 {
		src.ask(t, numbered(n, pure))
	}
	src.ask(t, numbered(0, pure))
	g := begin(t, s, numbered(8, pure))
	g.flight.Finish([]byte(src.same), false, true)
	if got := s.Stats(); got.Entries != 8 || !g.flight.Displaced() {
		t.Errorf("got %+v, and displaced %v, want eight answers, one of them in the place of another", got, g.flight.Displaced())
	}
	for n, want := range map[int]dedup.Disposition{0: dedup.Hit, 8: dedup.Hit, 1: dedup.Fetched} {
		if got := src.ask(t, numbered(n, pure)); got.How != want {
			t.Errorf("%d: got %s, want %s", n, got.How, want)
		}
	}
	src.same = strings.Repeat("x", 2000)
	for range 2 {
		if got := src.ask(t, numbered(9, pure)); got.How != dedup.Fetched {
			t.Errorf("a large answer: got %s, want fetched", got.How)
		}
	}
}

// TestInvalidated makes a change of each kind and checks whether the answer is invalidated.
func TestInvalidated(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(s *dedup.Store)
		want   dedup.Disposition
	}{
		{"nothing", func(*dedup.Store) {}, dedup.Hit},
		{"domain", func(s *dedup.Store) { s.Invalidate(host) }, dedup.Fetched},
		{"edge", func(s *dedup.Store) { s.Invalidate(edge) }, dedup.Fetched},
		{"another domain", func(s *dedup.Store) { s.Invalidate(local) }, dedup.Hit},
		{"another slot", func(s *dedup.Store) { s.Invalidate(slot(8)) }, dedup.Hit},
		{"slot that shares the state", func(s *dedup.Store) { s.Invalidate(slot(7 + dedup.Slots)) }, dedup.Fetched},
		{"reform", (*dedup.Store).Reclassify, dedup.Fetched},
		{"everything forgotten", (*dedup.Store).InvalidateAll, dedup.Fetched},
		{"write that ended", func(s *dedup.Store) { s.RegisterWrite(changes(host)).End() }, dedup.Fetched},
		{"pending write", func(s *dedup.Store) { s.RegisterWrite(changes(edge)) }, dedup.Fetched},
		{"write elsewhere", func(s *dedup.Store) { s.RegisterWrite(changes(local)) }, dedup.Hit},
		{"read", func(s *dedup.Store) { s.RegisterWrite(changes()).End() }, dedup.Hit},
		{"scope dropped", func(s *dedup.Store) { s.DropScope("session 1") }, dedup.Fetched},
		{"another scope dropped", func(s *dedup.Store) { s.DropScope("session 2") }, dedup.Hit},
		{"shrunk", func(s *dedup.Store) { s.Configure(dedup.Options{MaxBytes: 100}) }, dedup.Fetched},
		{"closed", (*dedup.Store).Close, dedup.Fetched},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := &source{store: newStore(t)}
			q := query(pure, host, edge)
			src.ask(t, q)
			tt.change(src.store)
			if got := src.ask(t, q); got.How != tt.want {
				t.Errorf("got %s, want %s", got.How, tt.want)
			}
		})
	}
}

func TestPrefetchRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		use    dedup.Reuse
		before func(t *testing.T, src *source, q dedup.Query)
		want   dedup.Refusal
	}{
		{"nothing known", never, nil, ""},
		{"volatile", volatile, nil, "volatile"},
		{"of no use", dedup.Reuse{}, nil, "max_age"},
		{"of a file that cannot be read", dedup.Reuse{Pure: true, File: filepath.Join(t.TempDir(), "file")}, nil, "file"},
		{"nothing is stored", never, func(_ *testing.T, src *source, _ dedup.Query) { src.store.Configure(dedup.Options{}) }, "max_age"},
		{"closed", never, func(_ *testing.T, src *source, _ dedup.Query) { src.store.Close() }, "closed"},
		{"stored", fresh, func(t *testing.T, src *source, q dedup.Query) { src.ask(t, q) }, "stored"},
		{"prefetched", never, func(t *testing.T, src *source, q dedup.Query) { src.prefetch(t, q) }, "stored"},
		{"prefetched too long ago", never, func(t *testing.T, src *source, q dedup.Query) {
			src.prefetch(t, q)
			time.Sleep(time.Minute)
		}, ""},
		{"in flight", never, func(t *testing.T, src *source, q dedup.Query) { wait(t, src.store, q) }, "in_flight"},
		{"in flight from before a change", never, func(t *testing.T, src *source, q dedup.Query) {
			wait(t, src.store, q)
			src.store.Invalidate(host)
		}, ""},
		{"pending write", never, func(_ *testing.T, src *source, _ dedup.Query) { src.store.RegisterWrite(changes(host)) }, "pending_write"},
		{"reform while something is under way", never, func(_ *testing.T, src *source, _ dedup.Query) {
			src.store.RegisterWrite(changes())
			src.store.Reclassify()
		}, "pending_write"},
		{"local write ended", never, func(_ *testing.T, src *source, _ dedup.Query) { src.store.RegisterWrite(changes(host)).End() }, ""},
		{"remote write ended", never, func(_ *testing.T, src *source, _ dedup.Query) { src.store.RegisterWrite(remote(host)).End() }, "settling"},
		{"remote write ended, and a local one", never, func(_ *testing.T, src *source, _ dedup.Query) {
			src.store.RegisterWrite(remote(host)).End()
			src.store.RegisterWrite(changes(host)).End()
		}, "settling"},
		{"remote write long ended", never, func(_ *testing.T, src *source, _ dedup.Query) {
			src.store.RegisterWrite(remote(host)).End()
			time.Sleep(settle)
		}, ""},
		{"delivered", never, func(t *testing.T, src *source, q dedup.Query) { src.ask(t, q) }, "delivered"},
		{"delivered from a prefetch", never, func(t *testing.T, src *source, q dedup.Query) { src.prefetch(t, q); src.ask(t, q) }, "delivered"},
		{"delivered before a change", never, func(t *testing.T, src *source, q dedup.Query) { src.ask(t, q); src.store.Invalidate(host) }, ""},
		{"delivered and no longer fresh", fresh, func(t *testing.T, src *source, q dedup.Query) {
			src.ask(t, q)
			time.Sleep(time.Minute)
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				src := &source{store: newStore(t)}
				q := query(tt.use, host)
				q.Delivered = dedup.NewDelivered()
				if tt.before != nil {
					tt.before(t, src, q)
				}
				if got := src.prefetch(t, q); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestSettling: after a remote write a read may still return the old state, so that answers fetched
// then are not stored.
func TestSettling(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		src := &source{store: newStore(t)}
		q := query(pure, host)
		src.store.RegisterWrite(remote(host)).End()
		time.Sleep(settle - 1)
		early := wait(t, src.store, q)
		time.Sleep(time.Hour)
		early.flight.Finish([]byte("old"), false, true)
		if got := src.ask(t, q); got.How != dedup.Fetched {
			t.Errorf("got %s %q, want fetched", got.How, got.Body)
		}
		if got := src.ask(t, q); got.How != dedup.Hit {
			t.Errorf("got %s, want hit, as it was fetched after the write had settled", got.How)
		}
	})
}

// TestCostOfKey: the size of an answer includes its key, of which a client may choose every part.
func TestCostOfKey(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for name, set := range map[string]func(k *call.Key){
		"scope": func(k *call.Key) { k.Scope = long }, "tool": func(k *call.Key) { k.Tool = long },
		"arguments": func(k *call.Key) { k.Arguments = long },
	} {
		src := &source{store: newStore(t)}
		q := query(pure)
		set(&q.Key)
		src.ask(t, q)
		if got := src.store.Stats().Bytes; got < int64(len(long)) {
			t.Errorf("an answer with a %s of %d bytes counts as %d", name, len(long), got)
		}
	}
}
