package limit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/age"
)

// Why a prefetch is refused.
var (
	ErrCoolingDown = errors.New("the host cools down after a 429")
	ErrQuota       = errors.New("as many prefetches as the host may get in an hour have begun")
)

// Slot is a call that has begun.
type Slot struct {
	at       *host // nil: it has left
	prefetch bool
	era      uint64 // how many 429s of the host were known when it began
	probe    bool   // it is a real call that began half open
}

// Verdict is what the outcome of a call tells of its host.
type Verdict struct {
	Limited    bool          // the host said 429, in whatever way
	RetryAfter time.Duration // how long it wants to be left alone; 0: it did not say
	Failed     bool          // there was no good answer, for whatever reason
}

// Leave ends the call. Every slot is left exactly once. It reports whether the verdict is news
// to what else calls the host, from another machine: a 429 that the call could not have known
// of before it began.
func (s *Slot) Leave(v Verdict) (news bool) {
	all := s.at.all
	all.mu.Lock()
	defer all.mu.Unlock()
	at := s.at
	s.at = nil // a second Leave is a fault of the caller, and is seen at once
	at.seen.InFlight--
	if s.prefetch {
		at.seen.Prefetches--
	}
	switch {
	case v.Limited:
		at.seen.Limited++
		if s.prefetch {
			at.seen.LimitedPrefetches++
		}
		news = s.era == at.cooling.era && !strings.HasPrefix(at.seen.Host, localPrefix)
		at.cooling.begin(s.era, v.RetryAfter, all.now())
	case s.probe && !v.Failed && s.era == at.cooling.era:
		at.cooling.end()
	}
	if len(at.calls) > 0 || len(at.prefetches) > 0 {
		at.dispatch(all.now())
	}
	return news
}

// Refused notes that a host said 429 to another replica of this process, as at the end of a
// call of its own; no call is counted.
func (h *Hosts) Refused(name string, retryAfter time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.find(name)
	at.cooling.begin(at.cooling.era, retryAfter, h.now())
	at.dispatch(h.now())
}

// waiter is a call that has not begun yet.
type waiter struct {
	at    *host
	queue *[]*waiter // at.calls or at.prefetches; nil: it waits no longer
	since age.Moment // when it joined that queue
	harm  bool       // a prefetch held a slot that it wanted then

	slot *Slot         // how it ended
	err  error         // likewise, if slot is nil
	done chan struct{} // closed at the end
}

// queue lets a call wait at the end of its queue, unless it can begin or is
// refused at once.
func (at *host) queue(prefetch bool) *waiter {
	w := &waiter{at: at, done: make(chan struct{})}
	if prefetch {
		w.join(&at.prefetches)
	} else {
		w.join(&at.calls)
	}
	return w
}

func (w *waiter) join(queue *[]*waiter) {
	now := w.at.all.now()
	w.since, w.harm = w.at.all.read, w.at.seen.Prefetches > 0 && !w.at.hasSlot()
	w.queue, *queue = queue, append(*queue, w)
	w.at.dispatch(now)
}

func (w *waiter) leave() {
	i := slices.Index(*w.queue, w)
	*w.queue = slices.Delete(*w.queue, i, i+1)
	w.queue = nil
}

// end tells the waiter how its wait ended. The caller has just asked for the time.
func (w *waiter) end(slot *Slot, err error) {
	if took := w.at.all.read.Monotonic(w.since); w.queue == &w.at.calls && took > 0 {
		w.at.seen.Waits++
		w.at.waited += took
		if w.harm {
			w.at.harm += took
		}
	}
	w.leave()
	w.slot, w.err = slot, err
	close(w.done)
}

// wait returns how the waiter's wait ended. A slot that came together with the
// end of ctx is returned: its token is taken.
func (h *Hosts) wait(ctx context.Context, w *waiter, promoted <-chan struct{}) (*Slot, error) {
	for {
		select {
		case <-w.done:
			return w.slot, w.err
		case <-ctx.Done():
			h.giveUp(w, context.Cause(ctx))
			return w.slot, w.err
		case <-promoted:
			h.promote(w)
			promoted = nil
		}
	}
}

// promote moves a prefetch to the end of the real calls.
func (h *Hosts) promote(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.queue != nil {
		w.leave()
		w.join(&w.at.calls)
	}
}

// giveUp ends a wait when its caller has gone. Those behind may now be first.
func (h *Hosts) giveUp(w *waiter, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.queue != nil {
		now := h.now()
		w.end(nil, cause)
		w.at.dispatch(now)
	}
}
