package speculate

import (
	"slices"
	"time"

	"mcpschedd/internal/call"
)

// What becomes of prefetches, and of those that are only watched, moves the levels.

// Watch notes a prefetch that would have been started, and of use for so long. What
// is watched already is not watched anew.
func (s *Session) Watch(now time.Time, k call.Key, host string, keep time.Duration) {
	d := s.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	s.expireLocked(now)
	if s.ended || slices.ContainsFunc(s.open, func(c *claim) bool { return c.watched() && c.key == k }) {
		return
	}
	d.counts.Watched++
	s.addLocked(&claim{session: s, key: k, host: d.hostLocked(host), expires: now.Add(keep), returned: true})
}

// Asked notes a real call. A prefetch of that key under way has its use; a watched one
// would have.
func (s *Session) Called(now time.Time, k call.Key) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	s.expireLocked(now)
	for _, c := range s.open {
		switch {
		case c.key != k:
		case c.watched():
			c.settleLocked(call.Ready)
		case !c.returned && !c.asked:
			c.instance.advance(now)
			c.asked = true
		}
	}
	s.sweepLocked()
}

// Void says that something has changed: what is watched and stale would have been
// fetched in vain.
func (s *Session) Invalidate(stale func(call.Key) bool) {
	s.wasteWatched(func(c *claim) bool { return stale(c.key) })
}

// loseWatched counts as wasted what is watched and lost, which is asked outside the lock.
func (s *Session) wasteWatched(lost func(*claim) bool) {
	d := s.scheduler
	d.mu.Lock()
	all := slices.Clone(s.open)
	d.mu.Unlock()
	all = slices.DeleteFunc(all, func(c *claim) bool { return !c.watched() || !lost(c) })
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range all {
		c.settleLocked(call.Wasted)
	}
	s.sweepLocked()
}

// expireLocked ends what is watched and was not asked for in time.
func (s *Session) expireLocked(now time.Time) {
	for _, c := range s.open {
		if c.watched() && now.After(c.expires) {
			c.settleLocked(call.Wasted)
		}
	}
	s.sweepLocked()
}

// Review asks what has become of the prefetches so far, and moves the throttles.
func (s *Session) Review(now time.Time) {
	d := s.scheduler
	d.mu.Lock()
	s.expireLocked(now)
	open := slices.Clone(s.open)
	d.mu.Unlock()
	s.settle(open)
}

// settle asks for the fates of prefetches and counts those that are known; at the end of the
// session the others too.
func (s *Session) settle(open []*claim) {
	d := s.scheduler
	d.mu.Lock()
	open = slices.DeleteFunc(open, func(c *claim) bool { return c.fate == nil })
	d.mu.Unlock()
	fates := make([]call.Fate, len(open))
	for i, c := range open {
		fates[i] = c.fate()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, c := range open {
		switch f := fates[i]; {
		case f != call.Pending:
			c.settleLocked(f)
			c.cancel(nil) // whatever it was for is over
		case s.ended && c.asked: // a call waits for it
			c.settleLocked(call.Late)
		case s.ended:
			c.settleLocked(call.Wasted)
		}
	}
	s.sweepLocked()
}

// settleLocked counts the fate of a prefetch, once, and tells the throttles: those that only
// watch of what is watched, the others of what was started.
func (c *claim) settleLocked(f call.Fate) {
	if c.settled || c.fate == nil && !c.watched() {
		return
	}
	c.settled = true
	d := c.session.scheduler
	used, why := f == call.Ready || f == call.Late, "accuracy"
	switch {
	case c.watched() && used:
		d.counts.WatchedTrue++
	case c.watched():
	case f == call.Compared:
		d.counts.Compared++ // right or wrong, it was not what a prefetch is for: no label
		return
	case used:
		d.counts.Used++
	default:
		d.counts.Wasted++
	}
	if c.watched() {
		why = "watched"
	}
	label := func(era int) func(*throttle) {
		return func(t *throttle) {
			if !c.watched() || t.level == watching {
				t.label(era, used, f == call.Late)
			}
		}
	}
	d.moveHostLocked(c.host, why, label(c.generations.host))
	c.session.moveLocked(why, label(c.generations.session))
}

// moveLocked does something to the session's throttle, and notes where it went.
func (s *Session) moveLocked(why string, do func(*throttle)) {
	if s.ended {
		return
	}
	from := s.throttle.level
	do(&s.throttle)
	if to := s.throttle.level; to != from {
		s.scheduler.levels[from]--
		s.scheduler.levels[to]++
		s.scheduler.changedLocked(Change{Session: s.name, From: from, To: to, Why: why})
	}
}

// moveHostLocked likewise does something to a host's.
func (d *Scheduler) moveHostLocked(h *host, why string, do func(*throttle)) {
	from := h.throttle.level
	do(&h.throttle)
	if to := h.throttle.level; to != from {
		d.changedLocked(Change{Host: h.name, From: from, To: to, Why: why})
	}
}
