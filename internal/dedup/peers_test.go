package dedup_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

// sharing are replicas that share an answer. No write is announced to them.
type sharing struct {
	dedup.Peers
	lookup func()                // called during each lookup
	tokens []string              // the next tokens of each place; "token" after them
	err    error                 // of each lookup
	found  *dedup.SharedAnswer   // nil if this replica must fetch
	kept   []*dedup.SharedAnswer // what this replica has shared
}

func (p *sharing) Lookup(_ context.Context, places []call.Place) ([]string, error) {
	p.lookup()
	token := "token"
	if len(p.tokens) > 0 {
		token, p.tokens = p.tokens[0], p.tokens[1:]
	}
	return slices.Repeat([]string{token}, len(places)), p.err
}

func (p *sharing) Lead(context.Context, string, []string, func()) (*dedup.SharedAnswer, func(*dedup.SharedAnswer)) {
	return p.found, func(k *dedup.SharedAnswer) { p.kept = append(p.kept, k) }
}

// newReplica returns a store with these peers, and a query whose answer they share.
func newReplica(t *testing.T, peers *sharing) (*dedup.Store, dedup.Query) {
	s := dedup.New(dedup.Options{MaxBytes: 1 << 20, WriteSettle: writeSettle, Peers: peers})
	t.Cleanup(s.Close)
	q := query(dedup.Reuse{Freshness: time.Hour}, host)
	q.SharedKey = "key"
	return s, q
}

// TestSharedAnswerAndOwnWrite: a call that comes after a write of the same replica gets no answer that was
// shared before, also if the write had not been announced when the call's places were looked up.
func TestSharedAnswerAndOwnWrite(t *testing.T) {
	for _, tt := range []struct {
		name           string
		before, during func(s *dedup.Store, write *dedup.PendingWrite) // of the lookup
		place          call.Place                                      // of the write
		want           dedup.Disposition
	}{
		{"pending", nothing, nothing, host, dedup.Fetched},
		{"ends before it is announced", end, nothing, host, dedup.Fetched},
		{"ends during the lookup", nothing, end, host, dedup.Fetched},
		{"may have been one of any place", reclassify, end, edge, dedup.Fetched},
		{"of another place", nothing, nothing, edge, dedup.Joined},
		{"ends, of another place", nothing, end, edge, dedup.Joined},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				peers := &sharing{found: &dedup.SharedAnswer{Body: []byte("shared"), Age: time.Second}}
				s, q := newReplica(t, peers)
				write := s.RegisterWrite(changes(tt.place))
				tt.before(s, write)
				peers.lookup = func() { tt.during(s, write) }
				if got := (&source{store: s}).ask(t, q); got.How != tt.want {
					t.Errorf("got %s %q, want %s", got.How, got.Body, tt.want)
				}
			})
		})
	}
}

// TestSharedAnswerAfterSleep: a shared answer is from after a change at this replica only if the monotonic clock
// says so, as the wall clock may have been set forward.
func TestSharedAnswerAfterSleep(t *testing.T) {
	for _, tt := range []struct {
		awake, wall time.Duration // that have passed since the change
		want        dedup.Disposition
	}{{time.Minute, time.Hour, dedup.Fetched}, {time.Hour, time.Hour, dedup.Joined}} {
		now := age.At(time.Second, 0)
		peers := &sharing{lookup: func() {}, found: &dedup.SharedAnswer{Body: []byte("shared"), Age: 30 * time.Minute}}
		s := dedup.New(dedup.Options{MaxBytes: 1 << 20, Peers: peers, Clock: func() age.Moment { return now }})
		t.Cleanup(s.Close)
		q := query(dedup.Reuse{Freshness: time.Hour}, host)
		q.SharedKey = "key"
		s.Invalidate(host)
		now = age.At(tt.awake, tt.wall)
		if got := (&source{store: s}).ask(t, q); got.How != tt.want {
			t.Errorf("%v and, by the wall clock, %v after a change: got %s, want %s", tt.awake, tt.wall, got.How, tt.want)
		}
	}
}

// TestSharedAnswerTooOld: a shared answer is served while it is fresh.
func TestSharedAnswerTooOld(t *testing.T) {
	for age, want := range map[time.Duration]dedup.Disposition{time.Hour - time.Minute: dedup.Joined, time.Hour: dedup.Fetched} {
		s, q := newReplica(t, &sharing{lookup: func() {}, found: &dedup.SharedAnswer{Body: []byte("shared"), Age: age}})
		if got := (&source{store: s}).ask(t, q); got.How != want {
			t.Errorf("%v old: got %s, want %s", age, got.How, want)
		}
	}
}

// TestSharedWithPeers: answers that others may be served are shared, and no others.
func TestSharedWithPeers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		during func(s *dedup.Store, f *dedup.Flight)
		size   int
		good   bool
		shared bool
	}{
		{"an answer", func(*dedup.Store, *dedup.Flight) {}, 10, true, true},
		{"too large for this store", func(*dedup.Store, *dedup.Flight) {}, 1 << 18, true, true},
		{"an error", func(*dedup.Store, *dedup.Flight) {}, 10, false, false},
		{"for one client", func(_ *dedup.Store, f *dedup.Flight) { f.Taint() }, 10, true, false},
		{"from before a change", func(s *dedup.Store, _ *dedup.Flight) { s.Invalidate(host) }, 10, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			peers := &sharing{lookup: func() {}}
			s, q := newReplica(t, peers)
			x := wait(t, s, q)
			tt.during(s, x.flight)
			x.flight.Finish(make([]byte, tt.size), false, tt.good)
			if len(peers.kept) != 1 || (peers.kept[0] != nil) != tt.shared {
				t.Errorf("got %v, want shared: %v", peers.kept, tt.shared)
			}
		})
	}
}

// TestPeersUnreachable: an answer that was fetched while the tokens of its places are not known is not stored.
func TestPeersUnreachable(t *testing.T) {
	s, q := newReplica(t, &sharing{lookup: func() {}, err: errors.New("unreachable")})
	if got := (&source{store: s}).ask(t, q); got.How != dedup.Fetched || s.Stats().Entries != 0 {
		t.Errorf("got %s, and %d answers are stored", got.How, s.Stats().Entries)
	}
}

// TestPrefetchWithPeers: a prefetch is made if the other replicas have no write to what it reads, and then serves
// the next call, unless another replica has begun a write meanwhile.
func TestPrefetchWithPeers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		tokens []string // of the prefetch's lookups and the call's
		err    error
		why    dedup.Refusal
		want   dedup.Disposition
	}{
		{"after a write", nil, nil, "", dedup.Hit},
		{"a place without a token, which its first lookup sets", []string{""}, nil, "", dedup.Hit},
		{"during a write", []string{"", ""}, nil, "pending_write", dedup.Fetched},
		{"before a write", []string{"before"}, nil, "", dedup.Fetched},
		{"unreachable", nil, errors.New("unreachable"), "pending_write", dedup.Fetched},
	} {
		t.Run(tt.name, func(t *testing.T) {
			peers := &sharing{lookup: func() {}, tokens: []string{"old"}}
			s, q := newReplica(t, peers)
			src := &source{store: s}
			src.ask(t, q)
			peers.tokens, peers.err = tt.tokens, tt.err
			if why := src.prefetch(t, q); why != tt.why {
				t.Errorf("the prefetch is refused with %q, want %q", why, tt.why)
			}
			if got := src.ask(t, q); got.How != tt.want {
				t.Errorf("the call is %s, want %s", got.How, tt.want)
			}
		})
	}
}

// TestPeekWithPeers: no answer is shown that another replica's write may have changed.
func TestPeekWithPeers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		tokens []string
		err    error
		want   bool
	}{
		{"no write", nil, nil, true}, {"a write", []string{"after"}, nil, false}, {"a pending write", []string{""}, nil, false},
		{"unreachable", nil, errors.New("unreachable"), false},
	} {
		peers := &sharing{lookup: func() {}}
		s, q := newReplica(t, peers)
		if why := (&source{store: s}).prefetch(t, q); why != "" {
			t.Fatal(why)
		}
		peers.tokens, peers.err = tt.tokens, tt.err
		if _, ok := s.Peek(t.Context(), q); ok != tt.want {
			t.Errorf("%s: shown: %v, want %v", tt.name, ok, tt.want)
		}
	}
}

func nothing(*dedup.Store, *dedup.PendingWrite)        {}
func end(_ *dedup.Store, write *dedup.PendingWrite)    { write.End() }
func reclassify(s *dedup.Store, _ *dedup.PendingWrite) { s.Reclassify() }
