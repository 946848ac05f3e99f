package proxy

import (
	"context"
	"errors"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/forecast"
)

// errTired is the cause of a call that goes by itself, since the guess it joined
// takes longer than it would: the server may have lost the guess, and does not owe
// it what it owes a call.
var errTired = errors.New("the guess takes too long")

// slowest is how long a guess may take before a call does not wait for it: what
// nine calls of ten take, and some more, as far as that is known.
func slowest(g *forecast.Guess) time.Duration {
	if p90 := g.Latency.P90; p90 > 0 {
		return p90 + p90/4 + 100*time.Millisecond
	}
	return 4 * g.Model.Cost.Latency
}

// joining is a context for a call that may join a guess: if it does, patience ends
// it when the guess is overdue. Where none is under way it is ctx itself.
func (w *foresight) joining(ctx context.Context, k call.Key) (joining context.Context, patience func(), tire context.CancelCauseFunc) {
	overdue, ok := w.overdue.Load(k)
	if !ok {
		return ctx, func() {}, func(error) {}
	}
	joining, tire = context.WithCancelCause(ctx)
	patience = func() {
		if joining.Err() != nil {
			return // it has its answer
		}
		late := time.AfterFunc(time.Until(overdue.(time.Time)), func() { tire(errTired) })
		context.AfterFunc(joining, func() { late.Stop() })
	}
	return joining, patience, tire
}
