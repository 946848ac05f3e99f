package speculate_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"mcpschedd/internal/call"
	"mcpschedd/internal/speculate"
)

const host = "api.example.com"

// bet is a prefetch whose fate the test decides.
type bet struct {
	key  call.Key
	host string
	fate atomic.Int64
	ctx  context.Context // set by Begin
}

func newBet(i int) *bet { return &bet{key: key(i), host: host} }

func key(i int) call.Key {
	return call.Key{Upstream: upstream, Scope: "s", Tool: "t", Arguments: fmt.Sprint(i)}
}

func (b *bet) prefetch() speculate.Prefetch {
	return speculate.Prefetch{Key: b.key, Host: b.host, Begin: func(ctx context.Context) (func() call.Fate, string) {
		b.ctx = ctx
		return func() call.Fate { return call.Fate(b.fate.Load()) }, ""
	}}
}

// ended returns the cause with which the prefetch's context has ended, or nil.
func (b *bet) ended() error { return context.Cause(b.ctx) }

func newScheduler(o speculate.Options) *speculate.Scheduler {
	d := speculate.New(o)
	teach(d, upstream, speculate.Parallel)
	return d
}

func begin(t *testing.T, s *speculate.Session, b *bet) *bet {
	t.Helper()
	if refused := s.Start(t.Context(), b.prefetch()); refused != "" {
		t.Fatalf("start %s: refused: %s", b.key.Arguments, refused)
	}
	return b
}

func wantRefused(t *testing.T, s *speculate.Session, b *bet, want string) {
	t.Helper()
	if got := s.Start(t.Context(), b.prefetch()); got != want {
		t.Errorf("start %s: got %q, want %q", b.key.Arguments, got, want)
	}
	if want != "" && b.ctx != nil {
		t.Errorf("start %s: refused, and begun", b.key.Arguments)
	}
}

func wantRoom(t *testing.T, s *speculate.Session, host string, want string) {
	t.Helper()
	slots, caution, watch := s.Room(host, upstream)
	if got := fmt.Sprint(slots, caution, watch); got != want {
		t.Errorf("room at %q: got %s, want %s", host, got, want)
	}
}

// settle sets the fate of bets, and reviews the session.
func settle(s *speculate.Session, fate call.Fate, all ...*bet) {
	for _, b := range all {
		b.fate.Store(int64(fate))
		s.Done(b.key)
	}
	s.Review(start)
}

// bets starts and settles n bets, one after the other.
func bets(t *testing.T, s *speculate.Session, host string, n int, fate call.Fate) {
	t.Helper()
	for i := range n {
		b := newBet(i)
		b.host = host
		settle(s, fate, begin(t, s, b))
	}
}
