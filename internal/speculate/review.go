package speculate

import (
	"slices"
	"time"

	"mcpschedd/internal/call"
)

// Review asks what has become of the guesses so far, and moves the throttles.
func (s *Session) Review(now time.Time) {
	d := s.desk
	d.mu.Lock()
	d.sawLocked(now)
	s.expireLocked(now)
	open := slices.Clone(s.issued)
	d.mu.Unlock()
	s.settle(open)
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
	d := s.desk
	d.mu.Lock()
	for i, c := range open {
		if fates[i] != call.Pending || s.ended {
			c.settleLocked(fates[i])
		}
	}
	s.issued = slices.DeleteFunc(s.issued, func(c *claim) bool { return c.settled })
	d.mu.Unlock()
	for i, c := range open {
		if fates[i] != call.Pending {
			c.cancel(nil) // whatever it was for is over
		}
	}
}

// settleLocked counts the fate of a guess, once. One that is still pending, when
// its session has ended, was of use only if somebody waits for it.
func (c *claim) settleLocked(f call.Fate) {
	if c.settled || c.fate == nil {
		return
	}
	c.settled = true
	if f == call.Pending && c.asked {
		f = call.Late
	}
	n := &c.session.desk.counts
	switch f {
	case call.Ready:
		n.Used++
	case call.Late:
		n.Used++
		n.Late++
	case call.Compared:
		n.Compared++ // right or wrong, it was not what a guess is for: no label
		return
	default:
		n.Wasted++
	}
	c.session.labelLocked(c.host, c.eras, f == call.Ready || f == call.Late, f == call.Late)
}

// Reprice cancels the guesses under way that nobody has asked for and that are not
// kept, with ErrDropped.
func (s *Session) Reprice(now time.Time, keep func(call.Key) bool) {
	d := s.desk
	d.mu.Lock()
	d.sawLocked(now)
	idle := slices.DeleteFunc(slices.Clone(s.issued), func(c *claim) bool { return !c.idle() })
	d.mu.Unlock()
	idle = slices.DeleteFunc(idle, func(c *claim) bool { return keep(c.key) })
	d.mu.Lock()
	idle = d.giveUpLocked(idle, &d.counts.Dropped)
	d.mu.Unlock()
	for _, c := range idle {
		c.cancel(ErrDropped)
	}
}

// Preempt cancels the guesses at a serial upstream that nobody has asked for, of
// whatever session, with ErrPreempted: a real call came there. It is to be called
// after that call has joined what it can. Where the upstream is not known to be
// serial it does nothing.
func (s *Session) Preempt(upstream uint64) {
	d := s.desk
	d.mu.Lock()
	var idle []*claim
	if l, ok := d.lines.Get(upstream); ok && l.is == Serial {
		idle = d.giveUpLocked(slices.Clone(l.claims), &d.counts.Preempted)
	}
	d.mu.Unlock()
	for _, c := range idle {
		c.cancel(ErrPreempted)
	}
}

// idle reports whether c is under way and nobody has asked for it.
func (c *claim) idle() bool { return c.holds && !c.asked && !c.given }

// giveUpLocked returns those of the guesses that are idle, which from now on are
// given up.
func (d *Desk) giveUpLocked(all []*claim, count *int64) []*claim {
	all = slices.DeleteFunc(all, func(c *claim) bool { return !c.idle() })
	for _, c := range all {
		c.given = true
		for _, r := range c.line.runs {
			if r.by == c {
				c.line.cut(r)
			}
		}
	}
	*count += int64(len(all))
	return all
}
