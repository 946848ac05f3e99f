package replay

import (
	"context"
	"slices"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/speculate"
)

// armSession is a session played by one arm. It implements the interface that its chooser needs.
type armSession struct {
	arm        *arm
	t          *playback
	clock      clock
	base       time.Duration   // time of the store's clock when the session began
	ctx        context.Context // done when the session ends
	leave      context.CancelFunc
	unanswered int             // calls of the turn without an answer
	begun      map[callKey]int // number of calls begun

	scope     string
	delivered *dedup.Delivered
	ledger    *ledger

	slots      *speculate.SessionClaims
	chooser    speculate.Chooser // the last candidates that wait for a slot
	prefetches []*prefetch       // in the order in which they were sent
	count      *Report
	dollars    float64 // spent
}

// advance sets the clocks of the session and of the store.
func (s *armSession) advance(now time.Duration) {
	s.clock.advance(now)
	s.arm.now = s.base + s.clock.now
}

// at returns the current time for the throttles.
func (s *armSession) at() time.Time { return s.t.began.Add(s.clock.now) }

// turn plays the calls of a turn until all are answered.
func (s *armSession) turn(t *turn) {
	s.unanswered = len(t.calls)
	for _, m := range t.ordered() {
		s.clock.after(t.gap+m.offset, func() { s.beginCall(m) })
	}
	for s.unanswered > 0 {
		e := s.clock.next()
		s.advance(e.at)
		e.do()
	}
	s.advance(s.clock.now)
}

// query returns the store's query for a call of the session.
func (s *armSession) query(c *callClass) dedup.Query {
	q := c.query
	q.Key.Scope, q.Delivered = s.scope, s.delivered
	if s.arm.sabotage != nil {
		s.arm.sabotage(&q)
	}
	return q
}

// beginCall starts a call.
func (s *armSession) beginCall(m *playedCall) {
	s.begun[m.callKey]++
	c, began := s.count.tool(m.tool), s.clock.now
	c.Calls++
	c.before += m.end - m.start
	if m.class.read {
		c.Reads++
		if m.repeat {
			c.Repeats++
		}
	}
	answered := func() {
		c.after += s.clock.now - began
		s.unanswered--
	}
	if m.class.storable() {
		validFrom, q := s.ledger.validFrom(m.class.query.Places), s.query(m.class)
		s.lookup(m, q, c, validFrom, answered)
		s.slots.Called(s.at(), q.Key)
		return
	}
	settle := s.write(m.class.effect)
	s.fetch(m, c, func() {
		settle()
		answered()
	})
}

// write registers a call that may change something. The caller calls settle when it is answered.
func (s *armSession) write(e call.Effect) (settle func()) {
	s.ledger.begin(e)
	pending := s.arm.store.RegisterWrite(e)
	s.slots.Invalidate(func(_ call.Key, read []call.Place) bool { return touches(e, read) })
	return func() {
		s.ledger.end(e, s.clock.tick)
		pending.End()
	}
}

// fetch sends a call upstream, which takes as long as was recorded.
func (s *armSession) fetch(m *playedCall, c *Figures, done func()) {
	c.upstream++
	run := new(speculate.Run)
	s.arm.scheduler.Sent(run, theLease, m.tool, nil, s.at())
	s.clock.after(m.end-m.start, func() {
		s.arm.scheduler.Answered(run, s.at())
		done()
	})
}

// lookup asks the store for the answer to a call. validFrom is the earliest tick at which a
// valid answer can have been fetched.
func (s *armSession) lookup(m *playedCall, q dedup.Query, c *Figures, validFrom uint64, answered func()) {
	w := &dedup.Waiter{Done: func(o dedup.Outcome) {
		switch {
		case o.Err != nil: // the session has ended
		case o.Refetch: // the flight that the call joined has failed
			s.fetch(m, c, answered)
		default:
			if o.How != dedup.Fetched {
				s.countServed(m, c, validFrom, o)
			}
			answered()
		}
	}}
	s.arm.store.Do(s.ctx, q, w, func(_ context.Context, f *dedup.Flight) {
		s.ledger.sent[fetchKey{m.callKey, s.arm.now}] = s.clock.tick
		s.fetch(m, c, func() { f.Finish(m.body(), false, !m.recorded.Failed) })
	})
}

// countServed counts an answer that was not fetched by its call.
func (s *armSession) countServed(m *playedCall, c *Figures, validFrom uint64, o dedup.Outcome) {
	sent := s.ledger.sent[fetchKey{m.callKey, s.arm.now - o.Age}]
	if o.Prefetched {
		g := s.prefetchOf(o.Body)
		sent = g.sent
		if !g.used {
			g.used = true
			c.Used++
			if o.How == dedup.Joined {
				c.Late++
			}
			switch {
			case m.repeat:
				c.UsedByRepeats++
			case m.class.read:
				c.covered++
			}
		}
	}
	if m.repeat && m.class.read {
		c.RepeatsServed++
	}
	if sent < validFrom {
		c.Stale++
	}
}

// end ends the session and cancels its prefetches.
func (s *armSession) end() {
	s.chooser.DropWaiting()
	s.slots.End()
	s.leave()
	s.arm.store.DropScope(s.scope)
	for _, g := range slices.Clone(s.prefetches) {
		s.cancel(g)
	}
	s.arm.report.addSession(s.count)
}
