package replay

import (
	"context"
	"slices"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/speculate"
)

// armSession is a session as one arm plays it. It is the world of its chooser.
type armSession struct {
	arm     *arm
	t       *playing
	clock   clock
	base    time.Duration   // the store's clock when the session began
	ctx     context.Context // of the session
	leave   context.CancelFunc
	waiting int // calls of the turn without an answer

	scope     string
	delivered *dedup.Delivered
	ledger    *ledger

	slots      *speculate.Session
	chooser    speculate.Chooser // what was found last, as far as it waits for a slot
	prefetches []*prefetch       // in the order in which they were sent
	count      *tally
	dollars    float64 // spent
}

// set sets the clocks: that of the session, and that of the store, which counts either time
// or turns.
func (s *armSession) set(now time.Duration) {
	s.clock.set(now)
	if s.t.p.o.KeepTurns > 0 {
		s.arm.now = max(s.arm.now, s.base+time.Duration(s.t.turns)*turnTime) + 1
		return
	}
	s.arm.now = s.base + s.clock.now
}

// at is the moment that is played, as the throttles are told it.
func (s *armSession) at() time.Time { return s.t.began.Add(s.clock.now) }

// turn plays the calls of a turn, until all of them are answered.
func (s *armSession) turn(t *turn) {
	s.waiting = len(t.calls)
	instant := s.t.p.o.KeepTurns > 0
	for _, m := range t.inOrder(instant) {
		at := t.gap + m.offset
		if instant {
			at = t.gap
		}
		s.clock.after(at, func() { s.begins(m) })
	}
	for s.waiting > 0 {
		e := s.clock.next()
		s.set(e.at)
		e.do()
	}
	s.set(s.clock.now)
}

// query asks for a call on behalf of the session.
func (s *armSession) query(c *callClass) dedup.Query {
	q := c.query
	q.Key.Scope, q.Delivered = s.scope, s.delivered
	if s.arm.sabotage != nil {
		s.arm.sabotage(&q)
	}
	return q
}

// begins is the beginning of a call, whatever it is.
func (s *armSession) begins(m *made) {
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
		s.waiting--
	}
	if m.class.storable() {
		sound, q := s.ledger.sound(m.class.query.Places), s.query(m.class)
		s.ask(m, q, c, sound, answered)
		s.slots.Asked(s.at(), q.Key)
		return
	}
	settle := s.write(m.class.effect)
	s.fetch(m, c, func() {
		settle()
		answered()
	})
}

// write notes that a call has come which may change something. settle is for when it has its
// answer.
func (s *armSession) write(e call.Effect) (settle func()) {
	if !e.Changes() {
		return func() {}
	}
	s.ledger.arrive(e)
	pending := s.arm.store.RegisterWrite(e)
	s.slots.Void(func(k call.Key) bool { return touches(e, s.t.class(exact{k.Tool, k.Arguments}).query.Places) })
	return func() {
		s.ledger.end(e, s.clock.tick)
		pending.End()
	}
}

// fetch asks the upstream, which takes as long as was recorded.
func (s *armSession) fetch(m *made, c *Counts, done func()) {
	c.upstream++
	run := s.arm.scheduler.Began(upstreamID, m.tool, false, s.at())
	s.clock.after(m.end-m.start, func() {
		run.Ended(s.at())
		done()
	})
}

// ask asks the store. sound is from when an answer must be to be good for the call.
func (s *armSession) ask(m *made, q dedup.Query, c *Counts, sound uint64, answered func()) {
	waits := true
	w := &dedup.Waiter{Done: func(o dedup.Outcome) {
		waits = false
		switch {
		case o.Err != nil: // the session has ended
		case o.Refetch: // what it has joined came to nothing
			s.fetch(m, c, answered)
		default:
			if o.How != dedup.Fetched {
				s.served(m, c, sound, o)
			}
			answered()
		}
	}}
	s.arm.store.Do(s.ctx, q, w, func(_ context.Context, f *dedup.Flight) {
		waits = false
		s.ledger.sent[sending{m.exact, s.arm.now}] = s.clock.tick
		s.fetch(m, c, func() { f.Settle(m.body(), false, !m.recorded.Failed) })
	})
	if waits {
		s.join(q.Key)
	}
}

// served is an answer that its call was not sent upstream for.
func (s *armSession) served(m *made, c *Counts, sound uint64, o dedup.Outcome) {
	sent := s.ledger.sent[sending{m.exact, s.arm.now - o.Age}]
	if o.Prefetched {
		g := s.prefetched(o.Body)
		sent = g.sent
		if !g.used {
			g.used = true
			c.Used++
			if o.How == dedup.Joined {
				c.Late++
			}
			if m.repeat {
				c.UsedByRepeats++
			}
		}
	}
	if m.repeat && m.class.read {
		c.RepeatsServed++
	}
	if sent < sound {
		c.Stale++
	}
}

// end is the end of the session. What no call waits for is given up.
func (s *armSession) end() {
	s.chooser.GiveUp(s)
	s.slots.Review(s.at())
	s.slots.End()
	s.leave()
	s.arm.store.DropScope(s.scope)
	for _, g := range slices.Clone(s.prefetches) {
		s.giveUp(g)
	}
	if s.t.p.o.KeepTurns > 0 { // nothing of this session may be used in the next
		s.arm.now += s.t.p.o.maxAge() + turnTime
	}
	s.arm.report.session(s.t.s.ID, s.count)
}
