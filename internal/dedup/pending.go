package dedup

import (
	"time"

	"mcpschedd/internal/call"
)

// PendingWrite is a call that goes upstream, from its registration until its outcome is
// known. Until then it is a pending write to the places that it may change, if there are any.
type PendingWrite struct {
	store        *Store
	effect       call.Effect
	reclassified uint64        // value of Store.reclassified at registration
	expires      time.Duration // if in doubt: monotonic time since the store was made at which it counts as ended
	timer        *time.Timer   // ends a write in doubt; nil if it never was
	ended        bool

	announced Announcement // to the other replicas; nil if not announced. Written by Announce
}

// RegisterWrite registers a call that goes upstream, including one that only reads, as
// later rules may classify it otherwise. When it returns, the places of the effect are
// bumped and have a pending write.
func (s *Store) RegisterWrite(e call.Effect) *PendingWrite {
	p := &PendingWrite{store: s, effect: e}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.reclassified = s.reclassified
	s.underWay++
	for _, place := range e.Places {
		m := s.epochs.ensure(place)
		m.pending++ // this alone invalidates earlier answers, and so does the bump
		s.epochs.bump(m)
	}
	return p
}

// End records that the outcome is known, whatever it is. The places of the call are bumped
// again and have no more pending write of it. Further calls do nothing.
func (p *PendingWrite) End() {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	p.endLocked()
}

// Unexpired returns the write, or if it has ended, as it took longer than WriteSettle, the same write
// registered again, without waiting for the other replicas.
func (p *PendingWrite) Unexpired() *PendingWrite {
	if !p.Ended() {
		return p
	}
	again := p.store.RegisterWrite(p.effect)
	again.AnnounceAsync()
	if again.reclassified != p.reclassified { // by other rules than those of its effect
		again.changeAnything()
	}
	return again
}

// changeAnything makes it a write to everything until it ends, like one from before a reclassification.
func (p *PendingWrite) changeAnything() {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.isReclassified() { // it has become one in the meantime
		return
	}
	p.reclassified = s.reclassified - 1
	s.epochs.global.pending++
	s.noteChangedLocked(allPlaces)
	s.epochs.bump(&s.epochs.global)
}

// Ended reports whether the write is no longer pending.
func (p *PendingWrite) Ended() bool {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	return p.ended
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
	}
	if p.announced != nil {
		p.endAnnouncementLocked()
	}
	var settleUntil time.Duration
	if p.showsLate() {
		settleUntil = s.monotonicLocked() + s.options.Settle
	}
	if p.isReclassified() { // the last reclassification made it pending everywhere
		s.epochs.endWrite(&s.epochs.global)
		s.noteChangedLocked(allPlaces)
		s.epochs.global.settleUntil = max(s.epochs.global.settleUntil, settleUntil)
	}
	for _, place := range p.effect.Places {
		m := s.epochs.ensure(place)
		s.epochs.endWrite(m)
		s.noteChangedLocked(place)
		m.settleUntil = max(m.settleUntil, settleUntil)
	}
	s.epochs.settleUntil = max(s.epochs.settleUntil, settleUntil)
}

// isReclassified reports whether other rules than those of the write hold now.
func (p *PendingWrite) isReclassified() bool { return p.reclassified != p.store.reclassified }

// showsLate reports whether answers may be old for a while after the write: it is remote, or may
// be so by the new rules.
func (p *PendingWrite) showsLate() bool { return p.effect.Remote || p.isReclassified() }

// monotonicLocked is the monotonic time since the store was made. It bounds how long a write may
// still land: the server may have slept as well, and the wall clock may be set forward.
func (s *Store) monotonicLocked() time.Duration { return s.clock().Monotonic(s.start) }

// Doubt records that the outcome is unknown: the call was cancelled, timed out, lost its
// connection, or continues as a task. The write stays pending until End, or until
// WriteSettle after the last Doubt.
func (p *PendingWrite) Doubt() {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.ended || s.closed {
		return
	}
	wait := s.options.WriteSettle
	p.expires = s.monotonicLocked() + wait
	if p.timer != nil {
		p.timer.Reset(wait)
		return
	}
	p.timer = time.AfterFunc(wait, p.expire)
}

// expire ends a write in doubt when its time is over. If Doubt has just extended it, or the store's
// clock is behind the timer, it restarts the timer.
func (p *PendingWrite) expire() {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || p.ended {
		return
	}
	if left := p.expires - s.monotonicLocked(); left > 0 {
		p.timer.Reset(left)
		return
	}
	p.endLocked()
}
