package speculate

import (
	"slices"
	"time"

	"mcpschedd/internal/call"
)

// The fates of prefetches and of watched claims move the levels.

// Watch records a prefetch that would have been started, and would be useful for keep. A key that
// is already watched is not watched again.
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

// Called records a call: it uses a prefetch of that key in progress, and would have used a watched
// one.
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

// Invalidate records a change: watched claims that are stale would have been wasted.
func (s *Session) Invalidate(stale func(call.Key) bool) {
	s.wasteWatched(func(c *claim) bool { return stale(c.key) })
}

// wasteWatched counts watched claims as wasted if lost says so; it calls lost without the lock.
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

// expireLocked counts watched claims as wasted that were not called in time.
func (s *Session) expireLocked(now time.Time) {
	for _, c := range s.open {
		if c.watched() && now.After(c.expires) {
			c.settleLocked(call.Wasted)
		}
	}
	s.sweepLocked()
}

// Review collects the fates of the prefetches so far, and moves the levels.
func (s *Session) Review(now time.Time) {
	d := s.scheduler
	d.mu.Lock()
	s.expireLocked(now)
	open := slices.Clone(s.open)
	d.mu.Unlock()
	s.settle(open)
}

// settle collects the fates of prefetches and counts those that are known, or all if the session
// has ended.
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
			c.cancel(nil) // releases the context
		case s.ended && c.asked: // a call is waiting for it
			c.settleLocked(call.Late)
		case s.ended:
			c.settleLocked(call.Wasted)
		}
	}
	s.sweepLocked()
}

// settleLocked counts the fate of a claim once, and labels the throttles: a watched claim only
// those at level 0.
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
		d.counts.Compared++ // not a label, as a comparison is neither use nor waste
		return
	case used:
		d.counts.Used++
	default:
		d.counts.Wasted++
	}
	if c.watched() {
		why = "watched"
	}
	label := func(generation int) func(*throttle) {
		return func(t *throttle) {
			if !c.watched() || t.level == watching {
				t.label(generation, used, f == call.Late)
			}
		}
	}
	d.moveHostLocked(c.host, why, label(c.generations.host))
	c.session.moveLocked(why, label(c.generations.session))
}

// moveLocked applies do to the session's throttle, and records a change of level.
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

// moveHostLocked applies do to a host's throttle, and records a change of level.
func (d *Scheduler) moveHostLocked(h *host, why string, do func(*throttle)) {
	from := h.throttle.level
	do(&h.throttle)
	if to := h.throttle.level; to != from {
		d.changedLocked(Change{Host: h.name, From: from, To: to, Why: why})
	}
}
