package dedup

import (
	"errors"
	"time"

	"mcpschedd/internal/age"
)

// ErrJoinTimeout tells a waiter that the prefetch it joined takes longer than a call
// by itself would: the server may have lost the prefetch, and does not owe it what it
// owes a call.
var ErrJoinTimeout = errors.New("store: the prefetch takes too long")

// boundLocked has w, which has joined a prefetch, wait no longer for it than its join
// timeout.
func (f *Flight) boundLocked(w *Waiter, now age.Moment) {
	if f.prefetch == nil || f.query.Use.JoinTimeout <= 0 {
		return
	}
	stop, late := w.stop, (*time.Timer)(nil)
	late = time.AfterFunc(f.joinLeftLocked(now), func() {
		f.store.mu.Lock()
		left := f.joinLeftLocked(f.store.clock())
		waits := w.flight == f
		if waits && left > 0 {
			late.Reset(left)
		}
		f.store.mu.Unlock()
		if waits && left <= 0 {
			stop()
			f.leave(w, ErrJoinTimeout)
		}
	})
	w.stop = func() bool { late.Stop(); return stop() }
}

// joinLeftLocked is how long a call waits for the prefetch still. The time runs from
// its sending: while it waits for its host, the call would wait by itself too.
func (f *Flight) joinLeftLocked(now age.Moment) time.Duration {
	if !f.departed {
		return f.query.Use.JoinTimeout
	}
	return f.query.Use.JoinTimeout - now.Since(f.sent)
}
