package speculate

import (
	"context"
	"slices"
	"time"

	"mcpschedd/internal/call"
)

// Session is the prefetches of one client session.
type Session struct {
	scheduler *Scheduler
	name      string // in the changes of its level

	// The scheduler's mutex guards these.
	throttle throttle
	open     []*claim // whose fate is not known or whose call has not returned, oldest first
	ended    bool
}

// claim is what a prefetch holds. One that is only watched holds nothing: at level 0 it
// stands for the one that level 1 would begin.
type claim struct {
	session     *Session
	key         call.Key
	chained     bool // it follows from a prefetch
	host        *host
	instance    *instance   // nil: it is only watched
	generations generations // in which it was begun
	cancel      context.CancelCauseFunc
	timer       *time.Timer      // frees the slot
	fate        func() call.Fate // nil: Begin has not returned, or it is only watched
	expires     time.Time        // of a watched one: asked for later it would have been of no use

	// The scheduler's mutex guards these.
	holdsSlot bool // the slot
	returned  bool // its call has
	asked     bool // a real call has come for it
	abandoned bool // up: its context has ended
	settled   bool // its fate is counted
}

// eras are those of the levels of a session and a host at one moment.
type generations struct{ session, host int }

// watched reports whether c only stands for a prefetch.
func (c *claim) watched() bool { return c.instance == nil }

// idle reports whether c is under way and was not asked for.
func (c *claim) droppable() bool { return c.holdsSlot && !c.asked && !c.abandoned }

// Room says how many prefetches to that host may be started now at that upstream instance,
// how many times a wasted one counts (1: as configured), and whether only to watch: then
// nothing is started, and as many as would have been are to be told to Watch.
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

// roomLocked is how many slots are free for prefetches to a host: of the process's, of the
// session's at its own level, and at the host's level of those that the session may have
// there.
func (s *Session) roomLocked(h *host) int {
	all, there := 0, 0
	for _, c := range s.open {
		if c.holdsSlot {
			all++
		}
		if c.holdsSlot && c.host == h {
			there++
		}
	}
	d, own := s.scheduler, s.throttle.level
	return min(
		d.opt.Total-d.underWay,
		slotsAt(own, d.opt.PerSession)-all,
		slotsAt(min(own, h.throttle.level), d.opt.PerSession)-there,
	)
}

// Prefetch is a call to run early.
type Prefetch struct {
	Key     call.Key
	Host    string // whose throttle counts
	Chained bool   // it follows from a prefetch, so that no answer says how likely it still is

	// Begin makes the call and returns soon. fate says, whenever asked, what has
	// become of it; refused, if not "", that nothing was begun and why. The context
	// is for the prefetch's own claim: it ends at the deadline, with the session, or
	// when the prefetch is given up, which is nothing to a real call that has joined.
	Begin func(ctx context.Context) (fate func() call.Fate, refused string)
}

// Start begins a prefetch, or says why not: "closed" after End, "in_flight" while a
// call of the session for the same key has not returned, "throttled" where nothing
// is started or another prefetch must end first, "cap", "panic", or what Begin said.
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

// claim takes a slot for c, or says why there is none.
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

// addLocked opens a claim. Of too many the oldest that holds no slot is taken for wasted.
func (s *Session) addLocked(c *claim) {
	if len(s.open) >= keepOpen {
		oldest := max(0, slices.IndexFunc(s.open, func(o *claim) bool { return !o.holdsSlot }))
		s.open[oldest].settleLocked(call.Wasted)
		s.open = slices.Delete(s.open, oldest, oldest+1)
	}
	c.generations = generations{s.throttle.generation, c.host.throttle.generation}
	s.open = append(s.open, c)
}

// begun notes that Begin has returned.
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

// Done says that the call of a prefetch has returned, however: its slot is free. It
// may be said of what was never started, or twice.
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

// sweepLocked forgets the claims of which everything is known.
func (s *Session) sweepLocked() {
	s.open = slices.DeleteFunc(s.open, func(c *claim) bool { return c.settled && c.returned })
}

// overdue frees the slot of a call that has not returned, and gives it up. Until it returns
// the session starts no other of the same key: Done could not tell them apart.
func (c *claim) overdue() {
	d := c.session.scheduler
	d.mu.Lock()
	c.freeLocked()
	d.mu.Unlock()
	c.cancel(ErrDeadline)
}

// freeLocked frees the slot of c, if it has one.
func (c *claim) freeLocked() {
	if !c.holdsSlot {
		return
	}
	c.holdsSlot = false
	c.timer.Stop()
	c.session.scheduler.underWay--
	c.instance.claims = slices.DeleteFunc(c.instance.claims, func(o *claim) bool { return o == c })
}

// Reprice cancels the prefetches under way that were not asked for and that are not
// kept, with ErrDropped. Those that follow from a prefetch stay.
func (s *Session) Reprice(now time.Time, keep func(call.Key) bool) {
	d := s.scheduler
	d.mu.Lock()
	open := slices.Clone(s.open)
	d.mu.Unlock()
	open = slices.DeleteFunc(open, func(c *claim) bool { return c.watched() || c.chained || keep(c.key) }) // asked outside the lock
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

// End cancels what no call has joined, counts as wasted what was not asked for, and frees
// all that the session holds. It may be called more than once.
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
