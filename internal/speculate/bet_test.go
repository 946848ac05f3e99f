package speculate_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/speculate"
)

const host = "api.example.com"

// lease is one on an upstream of unknown concurrency.
var lease = &speculate.Lease{Key: "up", Instance: 7}

// bet is a prefetch with an outcome that the test decides.
type bet struct {
	key   call.Key
	host  string
	fate  atomic.Int64
	claim *speculate.Claim // nil until it has started
}

func newBet(i int) *bet { return &bet{key: key(i), host: host} }

func key(i int) call.Key {
	return call.Key{Upstream: lease.Instance, Scope: "s", Tool: "t", Arguments: fmt.Sprint(i)}
}

// start starts the prefetch, or returns the reason why it cannot.
func (b *bet) start(ctx context.Context, s *speculate.SessionClaims) (refused enrich.Reason) {
	return s.Start(ctx, lease, b.key, b.host, false, func(c *speculate.Claim) (func() call.Fate, enrich.Reason) {
		b.claim = c
		return func() call.Fate { return call.Fate(b.fate.Load()) }, ""
	})
}

// ended returns the cause with which the prefetch's context has ended, or nil.
func (b *bet) ended() error { return context.Cause(b.claim.Context) }

func newScheduler(o speculate.Slots) *speculate.Scheduler {
	d := speculate.NewScheduler(o)
	teach(d, speculate.Parallel)
	return d
}

func begin(t *testing.T, s *speculate.SessionClaims, b *bet) *bet {
	t.Helper()
	if refused := b.start(t.Context(), s); refused != "" {
		t.Fatalf("start %s: refused: %s", b.key.Arguments, refused)
	}
	return b
}

func wantRefused(t *testing.T, s *speculate.SessionClaims, b *bet, want enrich.Reason) {
	t.Helper()
	if got := b.start(t.Context(), s); got != want {
		t.Errorf("start %s: got %q, want %q", b.key.Arguments, got, want)
	}
}

func wantRoom(t *testing.T, s *speculate.SessionClaims, host string, want string) {
	t.Helper()
	r := s.Room(start, host, lease)
	if got := fmt.Sprint(r.Slots, r.WasteFactor, r.Shadow); got != want {
		t.Errorf("room at %q: got %s, want %s", host, got, want)
	}
}

func known(d *speculate.Scheduler) speculate.Concurrency {
	is, _ := d.Concurrency(lease.Key)
	return is
}

// runs holds the calls in progress, by the tests' numbers.
var runs sync.Map // runOf → *speculate.Run

type runOf struct {
	d  *speculate.Scheduler
	id uint64
}

// began begins a call, or the prefetch of a claim.
func began(d *speculate.Scheduler, id uint64, tool string, claim *speculate.Claim, now time.Time) {
	r := new(speculate.Run)
	d.Sent(r, lease, tool, claim, now)
	runs.Store(runOf{d, id}, r)
}

func ended(d *speculate.Scheduler, id uint64, now time.Time) {
	if r, ok := runs.LoadAndDelete(runOf{d, id}); ok {
		d.Answered(r.(*speculate.Run), now)
	}
}

// cut abandons a call, which its server may still run.
func cut(d *speculate.Scheduler, id uint64, now time.Time) {
	if r, ok := runs.LoadAndDelete(runOf{d, id}); ok {
		d.Abandoned(r.(*speculate.Run), true, now)
	}
}
