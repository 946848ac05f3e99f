package speculate

import (
	"context"
	"slices"
	"time"

	"mcpschedd/internal/call"
)

// Prefetch is a call to run early.
type Prefetch struct {
	Key  call.Key
	Host string  // whose throttle counts
	P    float64 // how likely it is asked for

	// Begin makes the call and returns soon. fate says, whenever asked, what has
	// become of it; refused, if not "", that nothing was begun and why. The context
	// is for the prefetch's own claim: it ends at the deadline, with the session, or
	// when the prefetch is given up, which is nothing to a real call that has joined.
	Begin func(ctx context.Context) (fate func() call.Fate, refused string)
}

// claim is what a prefetch holds.
type claim struct {
	session *Session
	key     call.Key
	cancel  func(cause error)

	// The scheduler's mutex guards these.
	host     *host
	estimate *estimate
	timer    *time.Timer      // frees the slot
	holds    bool             // the slot
	asked    bool             // a real call has come for it
	given    bool             // up: its context has ended
	eras     eras             // in which it was begun
	matched  bool             // to a run of the estimate
	fate     func() call.Fate // nil: Begin has not returned
	settled  bool             // its fate is counted
}

// Start begins a prefetch, or says why not: "closed" after End, "in_flight" while a
// call of the session for the same key has not returned, "throttled" where nothing
// is started or another prefetch must end first, "cap", "panic", or what Begin said.
func (s *Session) Start(ctx context.Context, now time.Time, g Prefetch) (refused string) {
	deadline := s.scheduler.deadline()
	claimed, cancel := context.WithCancelCause(ctx)
	timed, stop := context.WithTimeoutCause(claimed, deadline, ErrDeadline)
	c := &claim{session: s, key: g.Key, cancel: func(cause error) { cancel(cause); stop() }}

	var fate func() call.Fate
	if refused = s.claim(c, g.Host, now, deadline); refused == "" {
		fate, refused = begin(timed, g.Begin)
		s.begun(c, g.P, fate, refused)
	}
	if refused != "" {
		s.scheduler.refused(refused)
		c.cancel(nil)
	}
	return refused
}

func (d *Scheduler) deadline() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opt.Deadline
}

// begin calls f. If f panics, nothing was begun. A fate that is not told stays
// unknown.
func begin(ctx context.Context, f func(context.Context) (func() call.Fate, string)) (fate func() call.Fate, refused string) {
	refused = panicked
	defer func() { _ = recover() }()
	if fate, refused = f(ctx); fate == nil {
		fate = func() call.Fate { return call.Pending }
	}
	return fate, refused
}

// claim takes a slot for c, or says why there is none.
func (s *Session) claim(c *claim, hostName string, now time.Time, deadline time.Duration) (refused string) {
	d := s.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sawLocked(now)
	switch {
	case s.ended:
		return "closed"
	case s.calls[c.key] != nil:
		return "in_flight"
	}
	c.host, c.estimate = d.hostLocked(hostName), d.estimateLocked(c.key.Upstream)
	switch {
	case min(s.throttle.level, c.host.throttle.level) == watching, c.estimate.room() <= 0:
		return "throttled"
	case s.roomLocked(c.host) <= 0:
		return "cap"
	}
	s.forgetCallLocked()
	c.holds, c.eras = true, s.erasLocked(c.host)
	c.host.ran[s] = true
	s.calls[c.key] = c
	s.slots++
	d.underWay++
	c.estimate.claims = append(c.estimate.claims, c)
	s.timers.Add(1)
	c.timer = time.AfterFunc(deadline, c.overdue)
	return ""
}

// begun notes that Begin has returned.
func (s *Session) begun(c *claim, p float64, fate func() call.Fate, refused string) {
	d := s.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	if refused != "" {
		c.freeLocked()
		c.returnedLocked()
		return
	}
	d.counts.Issued++
	if p > 0 { // and a number
		d.counts.Expected += min(p, 1)
	}
	s.throttle.started()
	c.host.throttle.started()
	if c.fate = fate; s.ended {
		c.settleLocked(call.Pending)
		return
	}
	s.forgetGuessLocked()
	s.issued = append(s.issued, c)
}

// Done says that the call of a prefetch has returned, however: its slot is free. It
// may be said of what was never started, or twice.
func (s *Session) Done(k call.Key, now time.Time) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	s.scheduler.sawLocked(now)
	if c := s.calls[k]; c != nil {
		c.freeLocked()
		c.returnedLocked()
	}
}

// overdue frees the slot of a call that has not returned. Until it does the
// session starts no other of the same key: Done could not tell them apart.
func (c *claim) overdue() {
	defer c.session.timers.Done()
	d := c.session.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.freeLocked() {
		d.counts.Hung++
	}
}

// freeLocked frees the slot of c and reports whether it had one.
func (c *claim) freeLocked() bool {
	if !c.holds {
		return false
	}
	c.holds = false
	c.session.slots--
	c.session.scheduler.underWay--
	i := slices.Index(c.estimate.claims, c)
	c.estimate.claims = slices.Delete(c.estimate.claims, i, i+1)
	if c.timer.Stop() {
		c.session.timers.Done()
	}
	return true
}

// returnedLocked notes that the call has returned.
func (c *claim) returnedLocked() {
	if c.session.calls[c.key] == c {
		delete(c.session.calls, c.key)
	}
}

// forgetCallLocked sees to it that calls which never return do not pile up. Should
// one of hundreds return after all, Done may take it for a later one of its key.
func (s *Session) forgetCallLocked() {
	if len(s.calls) < 2*keepGuesses {
		return
	}
	for k, c := range s.calls {
		if !c.holds {
			delete(s.calls, k)
			return
		}
	}
}

// forgetGuessLocked makes room for one more prefetch: the oldest that has its end
// behind it counts as wasted.
func (s *Session) forgetGuessLocked() {
	if len(s.issued) < keepGuesses {
		return
	}
	i := max(0, slices.IndexFunc(s.issued, func(c *claim) bool { return !c.holds }))
	s.issued[i].settleLocked(call.Wasted)
	s.issued = slices.Delete(s.issued, i, i+1)
}
