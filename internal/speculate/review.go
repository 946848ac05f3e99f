package speculate

import (
	"slices"
	"time"

	"mcpschedd/internal/call"
)

// Review asks what has become of the prefetches so far, and moves the throttles.
func (s *Session) Review(now time.Time) {
	s.settle(s.open(now))
}

// open are the prefetches whose fate is not known.
func (s *Session) open(now time.Time) []*claim {
	d := s.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sawLocked(now)
	s.expireLocked(now)
	return slices.Clone(s.issued)
}

// settle asks for fates and counts those that are known; at the end of the session
// the others too.
func (s *Session) settle(open []*claim) {
	fates := make([]call.Fate, len(open))
	for i, c := range open {
		if c.fate != nil {
			fates[i] = c.fate()
		}
	}
	s.count(open, fates)
	for i, c := range open {
		if fates[i] != call.Pending {
			c.cancel(nil) // whatever it was for is over
		}
	}
}

// count counts the fates that are known.
func (s *Session) count(open []*claim, fates []call.Fate) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	for i, c := range open {
		if fates[i] != call.Pending || s.ended {
			c.settleLocked(fates[i])
		}
	}
	s.issued = slices.DeleteFunc(s.issued, func(c *claim) bool { return c.settled })
}

// settleLocked counts the fate of a prefetch, once. One that is still pending, when
// its session has ended, was of use only if a call waits for it.
func (c *claim) settleLocked(f call.Fate) {
	if c.settled || c.fate == nil {
		return
	}
	c.settled = true
	if f == call.Pending && c.asked {
		f = call.Late
	}
	n := &c.session.scheduler.counts
	switch f {
	case call.Ready:
		n.Used++
	case call.Late:
		n.Used++
		n.Late++
	case call.Compared:
		n.Compared++ // right or wrong, it was not what a prefetch is for: no label
		return
	default:
		n.Wasted++
	}
	c.session.labelLocked(c.host, c.eras, f == call.Ready || f == call.Late, f == call.Late)
}

// Reprice cancels the prefetches under way that were not asked for and that are not
// kept, with ErrDropped.
func (s *Session) Reprice(now time.Time, keep func(call.Key) bool) {
	idle := slices.DeleteFunc(s.idle(now), func(c *claim) bool { return keep(c.key) })
	d := s.scheduler
	for _, c := range d.giveUp(func() []*claim { return idle }, &d.counts.Dropped) {
		c.cancel(ErrDropped)
	}
}

// idle are the prefetches under way that were not asked for.
func (s *Session) idle(now time.Time) []*claim {
	d := s.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sawLocked(now)
	return slices.DeleteFunc(slices.Clone(s.issued), func(c *claim) bool { return !c.idle() })
}

// Preempt cancels the prefetches at a serial upstream that were not asked for, of
// whatever session, with ErrPreempted: a real call came there. It is to be called
// after that call has joined what it can. Where the upstream is not known to be
// serial it does nothing.
func (s *Session) Preempt(upstream uint64) {
	d := s.scheduler
	idle := d.giveUp(func() []*claim {
		if l, ok := d.estimates.Get(upstream); ok && l.is == Serial {
			return slices.Clone(l.claims)
		}
		return nil
	}, &d.counts.Preempted)
	for _, c := range idle {
		c.cancel(ErrPreempted)
	}
}

// idle reports whether c is under way and it was not asked for.
func (c *claim) idle() bool { return c.holds && !c.asked && !c.given }

// giveUp returns those of the prefetches that are idle, which from now on are given up.
// The mutex is held when it asks for them.
func (d *Scheduler) giveUp(guesses func() []*claim, count *int64) []*claim {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.DeleteFunc(guesses(), func(c *claim) bool { return !c.idle() })
	for _, c := range all {
		c.given = true
		for _, r := range c.estimate.runs {
			if r.by == c {
				c.estimate.cut(r)
			}
		}
	}
	*count += int64(len(all))
	return all
}
