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

// Slot is a call or a prefetch that has begun, in flight or paused.
type Slot struct {
	hosts    *Hosts
	host     *host // nil after Leave
	prefetch bool
	began    time.Time
	paused   int // number of Pauses without their Resume
}

// Outcome is what the result of a call says about its host.
type Outcome struct {
	Limited    bool          // the host answered 429, as a status or in the text of an error
	RetryAfter time.Duration // requested by the host; 0 if it did not say
	Failed     bool          // there was no good answer, for any reason
}

// Leave ends the call. It must be called exactly once for each slot. It reports whether to publish
// the outcome to other replicas: a 429 of a remote host, unless another became known after the call
// began.
func (s *Slot) Leave(v Outcome) (publish bool) {
	s.hosts.mu.Lock()
	defer s.hosts.mu.Unlock()
	h := s.host
	s.host = nil // so that a second Leave panics
	if s.paused == 0 {
		h.stats.InFlight--
	} else {
		h.paused--
		for _, w := range slices.Clone(h.resuming) {
			if w.slot == s {
				w.end(s, nil)
			}
		}
	}
	if s.prefetch {
		h.stats.Prefetches--
	}
	switch {
	case v.Limited:
		h.stats.Limited++
		publish = s.began.After(h.cooling.last) && !strings.HasPrefix(h.stats.Host, LocalPrefix)
		h.cooling.begin(v.RetryAfter, time.Now())
	case !v.Failed && !s.began.Before(h.cooling.until): // a success after the cool-down
		h.cooling.until = time.Time{}
	}
	if len(h.calls)+len(h.prefetches)+len(h.resuming) > 0 {
		h.dispatch()
	}
	return publish
}

// NoteLimited records that a host answered 429 to another replica. It has the effect of such an
// answer to a call of this replica, but is not counted.
func (hs *Hosts) NoteLimited(name string, retryAfter time.Duration) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.find(name)
	h.cooling.begin(retryAfter, time.Now())
	h.dispatch()
}

// Lengths of a cool-down after a 429.
const (
	defaultCoolDown = 30 * time.Second // without Retry-After
	maxCoolDown     = time.Hour        // for any Retry-After
)

// coolDown is the state left by the 429s of a host. The host is half open when until has passed.
type coolDown struct {
	until time.Time // zero without a 429 since the last success
	last  time.Time // of the last 429
}

// active reports whether prefetches are refused.
func (c *coolDown) active() bool { return !c.until.IsZero() }

// begin starts or extends the cool-down after a 429. It never shortens it.
func (c *coolDown) begin(retryAfter time.Duration, now time.Time) {
	wait := min(retryAfter, maxCoolDown)
	if retryAfter <= 0 {
		wait = defaultCoolDown
	}
	c.last = now
	if until := now.Add(wait); until.After(c.until) {
		c.until = until
	}
}

// waiter is a call or prefetch that has not started yet, or a paused call that waits for its slot.
type waiter struct {
	host  *host
	queue *[]*waiter // host.calls, host.prefetches or host.resuming; nil if it is not waiting
	since time.Time  // when it joined that queue
	harm  bool       // no slot was free then, and a prefetch held one

	slot *Slot         // the result; in host.resuming, the paused call
	err  error         // the result if slot is nil
	done chan struct{} // closed when slot or err is set
}

// newWaiter queues a call or a prefetch.
func (hs *Hosts) newWaiter(name string, prefetch bool) *waiter {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.find(name)
	w, queue := &waiter{host: h, done: make(chan struct{})}, &h.calls
	if prefetch {
		queue = &h.prefetches
	}
	w.enqueue(queue)
	return w
}

// enqueue adds the waiter to the end of a queue. It may start or be refused at once.
func (w *waiter) enqueue(queue *[]*waiter) {
	w.since, w.harm = time.Now(), w.host.stats.Prefetches > 0 && !w.host.hasSlot()
	w.queue, *queue = queue, append(*queue, w)
	w.host.dispatch()
}

func (w *waiter) dequeue() {
	i := slices.Index(*w.queue, w)
	*w.queue = slices.Delete(*w.queue, i, i+1)
	w.queue = nil
}

// end ends the wait with a result.
func (w *waiter) end(slot *Slot, err error) {
	if w.queue != &w.host.prefetches && w.harm {
		w.host.harm += time.Since(w.since)
	}
	w.dequeue()
	w.slot, w.err = slot, err
	close(w.done)
}

// enter blocks until a call or a prefetch may start. If a slot was granted as ctx ended, it returns
// the slot, as its token is taken.
func (hs *Hosts) enter(ctx context.Context, name string, prefetch bool, promoted <-chan struct{}) (*Slot, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for w := hs.newWaiter(name, prefetch); ; {
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
		w.dequeue()
		w.enqueue(&w.host.calls)
	}
}

// cancel ends a wait with an error. Waiters behind it may now be first.
func (hs *Hosts) cancel(w *waiter, cause error) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if w.queue != nil {
		w.end(nil, cause)
		w.host.dispatch()
	}
}
