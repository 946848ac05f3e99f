package speculate

import (
	"context"
	"slices"
	"time"

	"mcpschedd/internal/call"
)

// Session holds the prefetches of one client session.
type Session struct {
	scheduler *Scheduler
	name      string // for Change

	// Guarded by the scheduler's mutex.
	throttle throttle
	open     []*claim // with unknown fate, or whose call has not returned; oldest first
	ended    bool
}

// claim is one prefetch's hold on a slot. A watched claim holds no slot: at level 0 it stands for
// the prefetch that level 1 would begin.
type claim struct {
	session     *Session
	key         call.Key
	chained     bool // follows from another prefetch
	host        *host
	instance    *instance   // nil if it is only watched
	generations generations // when it was begun
	cancel      context.CancelCauseFunc
	timer       *time.Timer      // frees the slot at the deadline
	fate        func() call.Fate // nil until Begin has returned, or if it is only watched
	expires     time.Time        // if watched: a call after that would not have used it

	// Guarded by the scheduler's mutex.
	holdsSlot bool
	returned  bool // its call has returned
	asked     bool // a call has joined it
	abandoned bool // its context has been cancelled
	settled   bool // its fate has been counted
}

// generations identify the levels of a session and a host at one moment.
type generations struct{ session, host int }

// watched reports whether c only stands for a prefetch.
func (c *claim) watched() bool { return c.instance == nil }

// droppable reports whether c is in progress and no call has joined it.
func (c *claim) droppable() bool { return c.holdsSlot && !c.asked && !c.abandoned }

// Room returns how many prefetches to a host may be started now at an upstream instance, and the
// weight of a wasted one (1 means as configured). If watch is set, nothing may be started, and the
// candidates that would have been are to be passed to Watch.
func (s *Session) Room(host string, instance uint64) (slots int, caution float64, watch bool) {
	d := s.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.ended {
		return 0, 1, false
	}
	h := d.hostLocked(host)
	level := min(s.throttle.level, h.throttle.level)
	if level == watching {
		return slotsAt(level, d.opt.PerSession), wasteFactorAt(level), true
	}
	return max(0, min(s.roomLocked(h), d.instanceLocked(instance).room())), wasteFactorAt(level), false
}

// roomLocked is the number of free slots for prefetches to a host: the least of those of the
// process, of the session at its level, and of the session's slots there at the host's level.
func (s *Session) roomLocked(h *host) int {
	all, atHost := 0, 0
	for _, c := range s.open {
		if c.holdsSlot {
			all++
		}
		if c.holdsSlot && c.host == h {
			atHost++
		}
	}
	d, level := s.scheduler, s.throttle.level
	return min(
		d.opt.Total-d.underWay,
		slotsAt(level, d.opt.PerSession)-all,
		slotsAt(min(level, h.throttle.level), d.opt.PerSession)-atHost,
	)
}

// Prefetch is a call to be prefetched.
type Prefetch struct {
	Key     call.Key
	Host    string // whose throttle applies
	Chained bool   // follows from another prefetch, so that no answer says how likely it still is

	// Begin starts the call and returns soon. fate returns the outcome so far; refused is why
	// nothing was started, or "". The context belongs to the prefetch's claim: it ends at the
	// deadline, with the session, or when the prefetch is dropped. A call that has joined is
	// not affected.
	Begin func(ctx context.Context) (fate func() call.Fate, refused string)
}

// Start begins a prefetch, or returns why not: "closed" after End, "in_flight" while the session
// has a call of the same key that has not returned, "throttled" if nothing may start or another
// prefetch must end first, "cap", "panic", or what Begin returned.
func (s *Session) Start(ctx context.Context, g Prefetch) (refused string) {
	own, cancel := context.WithCancelCause(ctx)
	c := &claim{session: s, key: g.Key, chained: g.Chained, cancel: cancel}
	if refused = s.claim(c, g.Host); refused == "" {
		var fate func() call.Fate
		fate, refused = begin(own, g.Begin)
		s.begun(c, fate, refused)
	}
	if refused != "" {
		cancel(nil)
	}
	return refused
}

// begin calls f. If f panics, nothing was begun.
func begin(ctx context.Context, f func(context.Context) (func() call.Fate, string)) (fate func() call.Fate, refused string) {
	refused = "panic"
	defer func() { _ = recover() }()
	return f(ctx)
}

// claim takes a slot for c, or returns why there is none.
func (s *Session) claim(c *claim, host string) (refused string) {
	d := s.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	c.host, c.instance = d.hostLocked(host), d.instanceLocked(c.key.Upstream)
	switch {
	case s.ended:
		return "closed"
	case slices.ContainsFunc(s.open, func(o *claim) bool { return o.key == c.key && !o.returned }):
		return "in_flight"
	case min(s.throttle.level, c.host.throttle.level) == watching, c.instance.room() <= 0:
		return "throttled"
	case s.roomLocked(c.host) <= 0:
		return "cap"
	}
	c.holdsSlot = true
	d.underWay++
	c.instance.claims = append(c.instance.claims, c)
	c.timer = time.AfterFunc(d.opt.Deadline, c.overdue)
	s.addLocked(c)
	return ""
}

// addLocked opens a claim. If too many are open, the oldest without a slot counts as wasted.
func (s *Session) addLocked(c *claim) {
	if len(s.open) >= keepOpen {
		oldest := max(0, slices.IndexFunc(s.open, func(o *claim) bool { return !o.holdsSlot }))
		s.open[oldest].settleLocked(call.Wasted)
		s.open = slices.Delete(s.open, oldest, oldest+1)
	}
	c.generations = generations{s.throttle.generation, c.host.throttle.generation}
	s.open = append(s.open, c)
}

// begun records that Begin has returned.
func (s *Session) begun(c *claim, fate func() call.Fate, refused string) {
	d := s.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	if refused != "" {
		c.freeLocked()
		s.open = slices.DeleteFunc(s.open, func(o *claim) bool { return o == c })
		return
	}
	if fate == nil {
		fate = func() call.Fate { return call.Pending }
	}
	d.counts.Issued++
	s.throttle.started()
	c.host.throttle.started()
	if c.fate = fate; s.ended {
		c.settleLocked(call.Wasted)
	}
}

// Done records that the call of a prefetch has returned, and frees its slot. It does nothing if
// there is no such prefetch.
func (s *Session) Done(k call.Key) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	for _, c := range s.open {
		if c.key == k && !c.watched() {
			c.freeLocked()
			c.returned = true
		}
	}
	s.sweepLocked()
}

// sweepLocked removes the claims that are settled and have returned.
func (s *Session) sweepLocked() {
	s.open = slices.DeleteFunc(s.open, func(c *claim) bool { return c.settled && c.returned })
}

// overdue frees the slot of a call that has not returned, and cancels it. Until it returns, the
// session starts no other prefetch of the same key, as Done could not distinguish them.
func (c *claim) overdue() {
	d := c.session.scheduler
	d.mu.Lock()
	c.freeLocked()
	d.mu.Unlock()
	c.cancel(ErrDeadline)
}

// freeLocked frees the slot of c, if it holds one.
func (c *claim) freeLocked() {
	if !c.holdsSlot {
		return
	}
	c.holdsSlot = false
	c.timer.Stop()
	c.session.scheduler.underWay--
	c.instance.claims = slices.DeleteFunc(c.instance.claims, func(o *claim) bool { return o == c })
}

// Reprice cancels the prefetches that no call has joined and for which keep returns false, with
// ErrDropped. Chained prefetches are kept.
func (s *Session) Reprice(now time.Time, keep func(call.Key) bool) {
	d := s.scheduler
	d.mu.Lock()
	open := slices.Clone(s.open)
	d.mu.Unlock()
	open = slices.DeleteFunc(open, func(c *claim) bool { return c.watched() || c.chained || keep(c.key) }) // keep is called without the lock
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range open {
		if c.droppable() {
			c.abandoned = true
			c.instance.abandonClaim(c, now)
			c.cancel(ErrDropped)
		}
	}
}

// End cancels the prefetches that no call has joined, counts them as wasted, and frees everything
// that the session holds. It may be called more than once.
func (s *Session) End() {
	s.wasteWatched(func(*claim) bool { return true })
	d := s.scheduler
	d.mu.Lock()
	if s.ended {
		d.mu.Unlock()
		return
	}
	s.ended = true
	d.levels[s.throttle.level]--
	for _, c := range s.open {
		c.freeLocked()
	}
	open := slices.Clone(s.open)
	d.mu.Unlock()
	s.settle(slices.Clone(open))
	for _, c := range open {
		if c.cancel != nil {
			c.cancel(ErrEnded)
		}
	}
}
