package limit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// Errors of a refused prefetch.
var (
	ErrCoolingDown = errors.New("the host is cooling down after a 429")
	ErrQuota       = errors.New("the hourly limit of prefetches is reached")
)

// Slot is a call in flight.
type Slot struct {
	host     *host // nil after Leave
	prefetch bool
	began    time.Time
}

// Outcome is what the result of a call says about its host.
type Outcome struct {
	Limited    bool          // the host answered 429, as a status or in the text of an error
	RetryAfter time.Duration // requested by the host; 0 if it did not say
	Failed     bool          // there was no good answer, for any reason
}

// Leave ends the call. It must be called exactly once for each slot. It reports whether other
// replicas must be notified: of a 429 that was not known when the call began.
func (s *Slot) Leave(v Outcome) (isNew bool) {
	hosts := s.host.hosts
	hosts.mu.Lock()
	defer hosts.mu.Unlock()
	h := s.host
	s.host = nil // so that a second Leave panics
	h.counters.InFlight--
	if s.prefetch {
		h.counters.Prefetches--
	}
	switch {
	case v.Limited:
		h.counters.Limited++
		isNew = s.began.After(h.cooling.last) && !strings.HasPrefix(h.counters.Host, localPrefix)
		h.cooling.begin(s.began, v.RetryAfter, time.Now())
	case !v.Failed && !s.began.Before(h.cooling.until): // a success after the cool-down
		h.cooling.until, h.cooling.backOff = time.Time{}, 0
	}
	if len(h.calls) > 0 || len(h.prefetches) > 0 {
		h.dispatch()
	}
	return isNew
}

// Refused records that a host answered 429 to another replica. It has the effect of such an
// answer to a call of this replica, but no call is counted.
func (hs *Hosts) Refused(name string, retryAfter time.Duration) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.find(name)
	now := time.Now()
	h.cooling.begin(now, retryAfter, now)
	h.dispatch()
}

// waiter is a call or prefetch that has not started yet.
type waiter struct {
	host  *host
	queue *[]*waiter // host.calls or host.prefetches; nil if it is not waiting
	since time.Time  // when it joined that queue
	harm  bool       // a prefetch held a slot then, and none was free

	slot *Slot         // the result
	err  error         // the result if slot is nil
	done chan struct{} // closed when slot or err is set
}

// queue adds a waiter to the end of a queue of the host, and dispatches: it may start or be refused at
// once.
func (h *host) queue(in *[]*waiter) *waiter {
	w := &waiter{host: h, done: make(chan struct{})}
	w.join(in)
	return w
}

func (w *waiter) join(queue *[]*waiter) {
	w.since, w.harm = time.Now(), w.host.counters.Prefetches > 0 && !w.host.hasSlot()
	w.queue, *queue = queue, append(*queue, w)
	w.host.dispatch()
}

func (w *waiter) leave() {
	i := slices.Index(*w.queue, w)
	*w.queue = slices.Delete(*w.queue, i, i+1)
	w.queue = nil
}

// end ends the wait with a result.
func (w *waiter) end(slot *Slot, err error) {
	if w.queue == &w.host.calls && w.harm {
		w.host.harm += time.Since(w.since)
	}
	w.leave()
	w.slot, w.err = slot, err
	close(w.done)
}

// wait returns the result of the wait. If a slot was granted as ctx ended, it returns the slot,
// as the token is taken.
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

// promote moves a prefetch to the end of the calls' queue.
func (hs *Hosts) promote(w *waiter) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if w.queue != nil {
		w.leave()
		w.join(&w.host.calls)
	}
}

// cancel ends a wait whose context has ended. Waiters behind it may now be first.
func (hs *Hosts) cancel(w *waiter, cause error) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if w.queue != nil {
		w.end(nil, cause)
		w.host.dispatch()
	}
}
