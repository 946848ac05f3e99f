package proxy

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
	"mcpschedd/internal/forecast"
	"mcpschedd/internal/speculate"
)

// errTired is the cause of a call that goes by itself, since the guess it joined
// takes longer than it would: the server may have lost the guess, and does not owe
// it what it owes a call.
var errTired = errors.New("the guess takes too long")

// due is until when a call waits for a guess: what nine calls of ten take, and some
// more, as far as that is known, from when the guess was sent.
type due struct {
	span  time.Duration
	clock func() age.Moment
	sent  atomic.Pointer[age.Moment] // nil: it waits for its host
}

func newDue(g *forecast.Guess, clock func() age.Moment) *due {
	span := 4 * g.Model.Cost.Latency
	if p90 := g.Latency.P90; p90 > 0 {
		span = p90 + p90/4 + 100*time.Millisecond
	}
	return &due{span: span, clock: clock}
}

// begin says that the guess is sent now.
func (d *due) begin() {
	if d != nil {
		d.sent.Store(new(d.clock()))
	}
}

// left is how long to wait still. While the guess waits for its host a call waits
// with it, as it would by itself.
func (d *due) left() time.Duration {
	sent := d.sent.Load()
	if sent == nil {
		return d.span
	}
	return d.span - d.clock().Since(*sent)
}

// joining is a context for a call that may join a guess: if it does, patience ends
// it when the guess is overdue. Where none is under way it is ctx itself.
func (w *prefetcher) joining(ctx context.Context, k call.Key) (joining context.Context, patience func(), tire context.CancelCauseFunc) {
	value, ok := w.overdue.Load(k)
	if !ok {
		return ctx, func() {}, func(error) {}
	}
	joining, tire = context.WithCancelCause(ctx)
	d := value.(*due)
	var look func()
	look = func() {
		switch left := d.left(); {
		case joining.Err() != nil: // it has its answer
		case left > 0:
			late := time.AfterFunc(left, look)
			context.AfterFunc(joining, func() { late.Stop() })
		default:
			tire(errTired)
		}
	}
	return joining, look, tire
}

// tired holds against the guesses at a tool that a call waited for one in vain.
func (x *request) tired() {
	s, l, tool, waited := x.s, x.lease, x.tool, time.Since(x.entry.came)
	w := s.srv.prefetcher.worker
	s.srv.prefetcher.queue.enqueueAlways(func() {
		w.upstreamOn(l).forecast.Harm(tool)
		w.scheduler.Harm(w.hostOf(l), w.deskOf(s), speculate.ForegroundWait, waited)
	})
}
