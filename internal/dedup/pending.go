package dedup

import (
	"time"

	"mcpschedd/internal/call"
)

// PendingWrite is one call on its way to its upstream, from its arrival until its
// outcome is known.
type PendingWrite struct {
	store        *Store
	effect       call.Effect
	reclassified uint64        // how many there had been when it arrived
	expires      time.Duration // of a doubtful one: so long after the store was made, awake, it counts as ended
	timer        *time.Timer   // ends a doubtful one; nil: its outcome was never in doubt
	ended        bool

	announced Announcement // to the other replicas; nil: it was not. Set by its sender alone
}

// Arrive notes a call that has come in and goes upstream, one that only reads
// too: rules that come later may say otherwise. Before Arrive returns, what the
// call may change has changed and is pending.
func (s *Store) RegisterWrite(e call.Effect) *PendingWrite {
	p := &PendingWrite{store: s, effect: e}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.reclassified = s.reclassified
	s.underWay++
	for _, place := range e.Places {
		m := s.epochs.at(place)
		m.pending++ // that alone keeps back what was fetched before; the bump does so too
		s.epochs.bump(m)
	}
	return p
}

// End notes that the outcome is known, whatever it is. What the call may change
// has changed once more and is no longer pending. A second time it does
// nothing.
func (p *PendingWrite) End() {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	p.endLocked()
}

func (p *PendingWrite) endLocked() {
	if p.ended {
		return
	}
	s := p.store
	p.ended = true
	s.underWay--
	if p.timer != nil {
		p.timer.Stop()
		delete(s.doubtful, p)
	}
	if p.announced != nil {
		p.announced.End()
	}
	reclassified := p.reclassified != s.reclassified // the last reclassification made it pending everywhere
	var settleUntil time.Duration
	if p.effect.Remote || reclassified { // it may be a remote one by the new rules
		settleUntil = s.awakeLocked() + s.options.Settle
	}
	if reclassified {
		s.epochs.endWrite(&s.epochs.global)
		s.epochs.global.settleUntil = settleUntil
	}
	for _, place := range p.effect.Places {
		m := s.epochs.at(place)
		s.epochs.endWrite(m)
		m.settleUntil = max(m.settleUntil, settleUntil)
	}
	s.epochs.settleUntil = max(s.epochs.settleUntil, settleUntil)
}

// awakeLocked is how long the machine has been at work since the store was made.
// What holds answers back because a change may still land goes by it: the server may
// have slept as well, and the wall clock may be set forward.
func (s *Store) awakeLocked() time.Duration { return s.clock().Monotonic(s.start) }

// Doubt notes that the outcome is not known: the call was cancelled, timed out,
// lost its connection, or goes on as a task. It stays pending until End, or
// until the time for that is over, which starts again with each Doubt.
func (p *PendingWrite) Doubt() {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.ended || s.closed {
		return
	}
	wait := s.options.WriteSettle
	p.expires = s.awakeLocked() + wait
	if p.timer != nil {
		p.timer.Reset(wait)
		return
	}
	s.doubtful[p] = struct{}{}
	p.timer = time.AfterFunc(wait, p.expire)
}

// expire ends a write whose time is over. If that has just started again, or the
// store's clock is behind the timer's, it looks again later.
func (p *PendingWrite) expire() {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || p.ended {
		return
	}
	if left := p.expires - s.awakeLocked(); left > 0 {
		p.timer.Reset(left)
		return
	}
	p.endLocked()
}
