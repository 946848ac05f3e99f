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
	host       *host // nil: it has left
	prefetch   bool
	generation uint64 // how many 429s of the host were known when it began
	probe      bool   // it is a real call that began half open
}

// Verdict is what the outcome of a call tells of its host.
type Outcome struct {
	Limited    bool          // the host said 429, in whatever way
	RetryAfter time.Duration // how long it wants to be left alone; 0: it did not say
	Failed     bool          // there was no good answer, for whatever reason
}

// Leave ends the call. Every slot is left exactly once. It reports whether the verdict is news
// to what else calls the host, from another machine: a 429 that the call could not have known
// of before it began.
func (s *Slot) Leave(v Outcome) (news bool) {
	all := s.host.hosts
	all.mu.Lock()
	defer all.mu.Unlock()
	h := s.host
	s.host = nil // a second Leave is a fault of the caller, and is seen at once
	h.counters.InFlight--
	if s.prefetch {
		h.counters.Prefetches--
	}
	switch {
	case v.Limited:
		h.counters.Limited++
		if s.prefetch {
			h.counters.LimitedPrefetches++
		}
		news = s.generation == h.cooling.generation && !strings.HasPrefix(h.counters.Host, localPrefix)
		h.cooling.begin(s.generation, v.RetryAfter, all.now())
	case s.probe && !v.Failed && s.generation == h.cooling.generation:
		h.cooling.end()
	}
	if len(h.calls) > 0 || len(h.prefetches) > 0 {
		h.dispatch(all.now())
	}
	return news
}

// Refused notes that a host said 429 to another replica of this process, as at the end of a
// call of its own; no call is counted.
func (hs *Hosts) Refused(name string, retryAfter time.Duration) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.find(name)
	h.cooling.begin(h.cooling.generation, retryAfter, hs.now())
	h.dispatch(hs.now())
}

// waiter is a call that has not begun yet.
type waiter struct {
	host  *host
	queue *[]*waiter // at.calls or at.prefetches; nil: it waits no longer
	since age.Moment // when it joined that queue
	harm  bool       // a prefetch held a slot that it wanted then

	slot *Slot         // how it ended
	err  error         // likewise, if slot is nil
	done chan struct{} // closed at the end
}

// queue lets a call wait at the end of its queue, unless it can begin or is
// refused at once.
func (h *host) queue(prefetch bool) *waiter {
	w := &waiter{host: h, done: make(chan struct{})}
	if prefetch {
		w.join(&h.prefetches)
	} else {
		w.join(&h.calls)
	}
	return w
}

func (w *waiter) join(queue *[]*waiter) {
	now := w.host.hosts.now()
	w.since, w.harm = w.host.hosts.lastRead, w.host.counters.Prefetches > 0 && !w.host.hasSlot()
	w.queue, *queue = queue, append(*queue, w)
	w.host.dispatch(now)
}

func (w *waiter) leave() {
	i := slices.Index(*w.queue, w)
	*w.queue = slices.Delete(*w.queue, i, i+1)
	w.queue = nil
}

// end tells the waiter how its wait ended. The caller has just asked for the time.
func (w *waiter) end(slot *Slot, err error) {
	if took := w.host.hosts.lastRead.Monotonic(w.since); w.queue == &w.host.calls && took > 0 {
		w.host.counters.Waits++
		w.host.waited += took
		if w.harm {
			w.host.harm += took
		}
	}
	w.leave()
	w.slot, w.err = slot, err
	close(w.done)
}

// wait returns how the waiter's wait ended. A slot that came together with the
// end of ctx is returned: its token is taken.
func (hs *Hosts) wait(ctx context.Context, w *waiter, promoted <-chan struct{}) (*Slot, error) {
	for {
		select {
		case <-w.done:
			return w.slot, w.err
		case <-ctx.Done():
			hs.cancel(w, context.Cause(ctx))
			return w.slot, w.err
		case <-promoted:
			hs.promote(w)
			promoted = nil
		}
	}
}

// promote moves a prefetch to the end of the real calls.
func (hs *Hosts) promote(w *waiter) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if w.queue != nil {
		w.leave()
		w.join(&w.host.calls)
	}
}

// giveUp ends a wait when its caller has gone. Those behind may now be first.
func (hs *Hosts) cancel(w *waiter, cause error) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if w.queue != nil {
		now := hs.now()
		w.end(nil, cause)
		w.host.dispatch(now)
	}
}
