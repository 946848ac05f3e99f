package speculate

import (
	"context"
	"slices"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/record"
)

// SessionClaims is a session as the scheduler sees it: its open claims, and its level. The fates of the
// claims move that level, and those of the hosts that the prefetches went to.
type SessionClaims struct {
	scheduler *Scheduler

	// Guarded by the scheduler's mutex.
	throttle throttle
	open     []*Claim // the fate is not known, or the call has not returned; oldest first
	ended    bool
}

// Claim is one prefetch's hold on a slot, or a shadow, which holds none: it stands for the
// prefetch that level 1 would begin at level 0. A Claim has more than 15 fields because both are
// in one list of open claims, and their fates move the levels by the same rules.
type Claim struct {
	Context context.Context // ends at the deadline, with the session, or when the prefetch is dropped

	session     *SessionClaims
	key         call.Key
	chained     bool // follows from another prefetch, so that no answer says how likely it still is
	host        *host
	instance    *instance // nil for a shadow
	generations [2]int    // of the levels of session and host when it was begun
	cancel      context.CancelCauseFunc
	timer       *time.Timer // frees the slot at the deadline

	// Guarded by the scheduler's mutex.
	fate      func() call.Fate // nil until it has begun, and for a shadow
	places    []call.Place     // of a shadow: what its answer would depend on
	expires   time.Time        // of a shadow: a call after that would not have used it
	holdsSlot bool
	returned  bool // its call has returned
	joined    bool // a call of the same key was made, which has joined it or is compared with it
	counted   bool // its fate has been counted
}

// NewClaims returns the claims of a new session; name identifies it in the events.
func (d *Scheduler) NewClaims(session string) *SessionClaims {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions++
	return &SessionClaims{scheduler: d, throttle: throttle{event: record.Event{Session: session}, level: Normal}}
}

func (c *Claim) shadow() bool { return c.instance == nil }

// Room is what a session may start at a host and an upstream instance.
type Room struct {
	Slots       int
	Full        enrich.Reason // why there is no slot: cap if other prefetches hold all, else throttled
	WasteFactor float64       // weight of a wasted prefetch; 1 means as configured
	Shadow      bool          // nothing may be started, and SessionClaims.Shadow records what would have been
}

// Room returns what may be started now.
func (s *SessionClaims) Room(now time.Time, host string, lease *Lease) Room {
	d := s.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.ended {
		return Room{WasteFactor: 1}
	}
	h := d.hostLocked(host)
	level := min(s.throttle.level, h.level)
	if level == shadowOnly {
		return Room{d.slots.at(level), enrich.Throttled, wasteFactorAt(level), true}
	}
	i := d.instanceLocked(lease)
	i.advance(now) // abandoned calls may have ended
	slots, atServer, full := s.roomLocked(h), i.room(), enrich.Throttled
	if level >= Normal && atServer > 0 {
		full = enrich.Cap
	}
	return Room{max(0, min(slots, atServer)), full, wasteFactorAt(level), false}
}

// roomLocked is the number of free slots for prefetches to a host: the least of those of
// all sessions, of the session at its level, and of the session's slots there at the host's level.
func (s *SessionClaims) roomLocked(h *host) int {
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
		d.slots.Total-d.underWay,
		d.slots.at(level)-all,
		d.slots.at(min(level, h.level))-atHost,
	)
}

// Start takes a slot for a prefetch and begins it. begin returns its fate, a function that returns the
// outcome so far and takes no lock, or why it did not begin. If there is no slot, Start returns why not:
// Closed after End, InFlight while the session has a prefetch of the same key that has not returned,
// Throttled if nothing may start or another prefetch must end first, or Cap.
func (s *SessionClaims) Start(
	ctx context.Context, lease *Lease, key call.Key, host string, chained bool,
	begin func(c *Claim) (fate func() call.Fate, refused enrich.Reason),
) (refused enrich.Reason) {
	c, refused := s.claim(ctx, lease, key, host, chained)
	if c == nil {
		return refused
	}
	fate, refused := begin(c)
	d := s.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	if fate == nil {
		c.freeLocked()
		s.open = slices.DeleteFunc(s.open, func(o *Claim) bool { return o == c })
		c.cancel(nil)
		return refused
	}
	c.fate = fate
	s.throttle.started()
	c.host.started()
	return ""
}

// claim takes a slot, or returns why there is none.
func (s *SessionClaims) claim(ctx context.Context, lease *Lease, key call.Key, host string, chained bool) (c *Claim, refused enrich.Reason) {
	d := s.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	h, i := d.hostLocked(host), d.instanceLocked(lease)
	switch {
	case s.ended:
		return nil, enrich.Closed
	case slices.ContainsFunc(s.open, func(o *Claim) bool { return o.key == key && !o.returned }):
		return nil, enrich.InFlight
	case min(s.throttle.level, h.level) == shadowOnly, i.room() <= 0:
		return nil, enrich.Throttled
	case s.roomLocked(h) <= 0:
		return nil, enrich.Cap
	}
	c = &Claim{session: s, key: key, chained: chained, host: h, instance: i, holdsSlot: true}
	c.Context, c.cancel = context.WithCancelCause(ctx)
	c.timer = time.AfterFunc(d.slots.Deadline, c.overdue)
	d.underWay++
	i.claims = append(i.claims, c)
	s.addLocked(c)
	return c, ""
}

// addLocked opens a claim. If too many are open, the oldest without a slot counts as wasted.
func (s *SessionClaims) addLocked(c *Claim) {
	if len(s.open) >= maxOpen {
		oldest := max(0, slices.IndexFunc(s.open, func(o *Claim) bool { return !o.holdsSlot }))
		s.open[oldest].countLocked(call.Wasted)
		if cancel := s.open[oldest].cancel; cancel != nil {
			cancel(nil) // releases the context
		}
		s.open = slices.Delete(s.open, oldest, oldest+1)
	}
	c.generations = [2]int{s.throttle.generation, c.host.generation}
	s.open = append(s.open, c)
}

// Done records that the call has returned, and frees its slot.
func (c *Claim) Done() {
	c.session.scheduler.mu.Lock()
	defer c.session.scheduler.mu.Unlock()
	c.freeLocked()
	c.returned = true
	c.session.sweepLocked()
}

// shown records that the client was given the answer as part of another one. Whether it calls says
// nothing then, so the fate moves no level.
func (c *Claim) shown() {
	c.session.scheduler.mu.Lock()
	defer c.session.scheduler.mu.Unlock()
	c.counted = true
	c.cancel(nil) // releases the context
	c.session.sweepLocked()
}

// overdue frees the slot of a call that has not returned, and cancels it.
func (c *Claim) overdue() {
	c.session.scheduler.mu.Lock()
	c.freeLocked()
	c.session.scheduler.mu.Unlock()
	c.cancel(errUnwanted)
}

// freeLocked frees the slot of c, if it holds one.
func (c *Claim) freeLocked() {
	if !c.holdsSlot {
		return
	}
	c.holdsSlot = false
	c.timer.Stop()
	c.session.scheduler.underWay--
	c.instance.claims = slices.DeleteFunc(c.instance.claims, func(o *Claim) bool { return o == c })
}

// sweepLocked removes the claims that are counted and have returned.
func (s *SessionClaims) sweepLocked() {
	s.open = slices.DeleteFunc(s.open, func(c *Claim) bool { return c.counted && c.returned })
}

// Shadow records a prefetch that would have been started, and would be useful for keep. There is
// at most one shadow of a key.
func (s *SessionClaims) Shadow(now time.Time, k call.Key, places []call.Place, host string, keep time.Duration) {
	d := s.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	s.reviewLocked(now)
	if s.ended || slices.ContainsFunc(s.open, func(c *Claim) bool { return c.shadow() && c.key == k }) {
		return
	}
	s.addLocked(&Claim{
		session: s, key: k, host: d.hostLocked(host), places: places, expires: now.Add(keep), returned: true,
	})
}

// Called records a call: it uses a prefetch of that key in progress, of any session, and would have
// used a shadow of its own.
func (s *SessionClaims) Called(now time.Time, k call.Key) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	s.reviewLocked(now)
	for _, c := range s.open {
		if c.shadow() && c.key == k {
			c.countLocked(call.Ready)
		}
	}
	if i, ok := s.scheduler.instances.Peek(k.Upstream); ok {
		for _, c := range i.claims {
			if c.key == k && !c.joined {
				i.advance(now)
				c.joined = true
			}
		}
	}
	s.sweepLocked()
}

// Invalidate records a change: the shadows that are stale would have been wasted.
func (s *SessionClaims) Invalidate(stale func(call.Key, []call.Place) bool) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	for _, c := range s.open {
		if c.shadow() && stale(c.key, c.places) {
			c.countLocked(call.Wasted)
		}
	}
	s.sweepLocked()
}

// Review collects the fates of the prefetches so far, and moves the levels.
func (s *SessionClaims) Review(now time.Time) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	s.reviewLocked(now)
}

func (s *SessionClaims) reviewLocked(now time.Time) {
	for _, c := range s.open {
		switch {
		case c.counted:
		case c.shadow() && now.After(c.expires):
			c.countLocked(call.Wasted)
		case c.fate != nil:
			if f := c.fate(); f != call.Pending {
				c.countLocked(f)
				c.cancel(nil) // releases the context
			}
		}
	}
	s.sweepLocked()
}

// DropUnless cancels the prefetches that no call has joined and for which keep returns false. Chained
// prefetches are kept.
func (s *SessionClaims) DropUnless(now time.Time, keep func(call.Key) bool) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	for _, c := range s.open {
		if c.holdsSlot && !c.joined && c.Context.Err() == nil && !c.chained && !keep(c.key) {
			c.instance.abandonClaim(c, now)
			c.cancel(errUnwanted)
		}
	}
}

// End cancels the prefetches that no call has joined, counts them as wasted, and frees everything
// that the session holds. It may be called more than once.
func (s *SessionClaims) End() {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	if s.ended {
		return
	}
	s.reviewLocked(time.Time{})
	for _, c := range s.open {
		c.freeLocked()
		fate := call.Wasted
		if c.joined { // a call is waiting for it
			fate = call.Late
		}
		c.countLocked(fate)
		if c.cancel != nil {
			c.cancel(errUnwanted)
		}
	}
	s.open, s.ended = nil, true
	s.scheduler.sessions--
}

// countLocked counts the fate of a claim once, and labels the levels: a shadow only those at
// level 0.
func (c *Claim) countLocked(f call.Fate) {
	if c.counted || c.fate == nil && !c.shadow() {
		return
	}
	c.counted = true
	if f == call.Compared { // neither use nor waste
		return
	}
	used, why := f == call.Ready || f == call.Late, "accuracy"
	if c.shadow() {
		why = "shadow"
	}
	for i, t := range []*throttle{&c.session.throttle, &c.host.throttle} {
		if !c.shadow() || t.level == shadowOnly {
			c.session.scheduler.changeLocked(t, why, func(t *throttle) { t.label(c.generations[i], used, f == call.Late) })
		}
	}
}
