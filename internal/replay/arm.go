package replay

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/speculate"
)

// Source is what an arm's prefetches come from.
type Source int

const (
	Forecast Source = iota
	Oracle          // the recording itself: the reads of the next turn that are no repeats
	Nothing         // there are none
)

// Arm is one way to prefetch, with a store, slots and throttles of its own.
type Arm struct {
	Name    string
	Source  Source
	Pick    enrich.Options    // Slots, Dollars and Think are filled in
	Dollars float64           // US dollars that the prefetches of one session may cost
	Slots   speculate.Options // its Deadline is in recorded time; default 30s
	Store   dedup.Options     // its Clock is filled in

	Watch bool // prefetches are picked and none is started
	Free  bool // slots, throttles and deadlines do not count: what is picked is started
}

// longest is how long a prefetch lives that no call waits for, as live.
const longest = 30 * time.Second

// never is a deadline in the computer's time, which has no say here.
const never = 1000 * time.Hour

// arm is an Arm at work.
type arm struct {
	Arm
	p         *Player
	store     *dedup.Store
	scheduler *speculate.Scheduler
	deadline  time.Duration
	now       time.Duration // on the store's clock
	report    *tally

	// nil outside tests
	sabotage func(*dedup.Query)                      // breaks the rules by which the store is asked
	begun    func(turns int, tool, arguments string) // is told of each prefetch
}

func newArm(p *Player, a Arm) *arm {
	out := &arm{Arm: a, p: p, deadline: cmp.Or(max(a.Slots.Deadline, 0), longest), report: newTally()}
	out.Pick.Think = p.o.Think
	out.Pick.Whole = out.Pick.Budget / cmp.Or(max(a.Slots.PerSession, 0), 3) // as live
	out.Store.Clock = func() age.Moment { return age.At(out.now, out.now) }
	if p.o.KeepTurns > 0 {
		out.Store.Settle = 0 // it counts seconds, and the clock then turns
	}
	out.store = dedup.New(out.Store)
	slots := a.Slots
	slots.Deadline = never
	out.scheduler = speculate.New(slots)
	return out
}

// seat is an arm's place in one session. It has a clock of its own: an answer that comes
// early makes all that follows come early.
type seat struct {
	*arm
	t         *table
	ctx       context.Context // of the session
	leave     context.CancelFunc
	scope     string
	slots     *speculate.Session
	chooser   speculate.Chooser // what was found last, as far as it waits for a slot
	delivered *dedup.Delivered
	ledger    *ledger
	count     *tally  // of this session
	dollars   float64 // spent

	now     time.Duration // since the session began
	base    time.Duration // the store's clock then
	tick    uint64        // numbers what happens
	events  []event       // to come, in order
	waiting int           // calls of the turn without an answer

	sent     map[sending]uint64 // when what was not prefetched was asked for
	guesses  map[uint64]*guess  // by the moment at which they were sent
	underWay []*guess           // whose call has not returned
}

// event is something that happens at a time of a seat's clock.
type event struct {
	at time.Duration
	do func()
}

// sending is a fetch: of a call, at a time by the store's clock.
type sending struct {
	exact
	at time.Duration
}

func (a *arm) seat(t *table) *seat {
	ctx, leave := context.WithCancel(context.Background())
	s := &seat{
		arm: a, t: t, ctx: ctx, leave: leave, scope: strconv.Itoa(t.p.sessions), slots: a.scheduler.Session(t.s.ID),
		delivered: dedup.NewDelivered(), ledger: newLedger(), base: a.now, count: newTally(),
		sent: make(map[sending]uint64), guesses: make(map[uint64]*guess),
	}
	s.chooser.Upstream = upstreamID
	if !a.Free {
		s.chooser.Session = s.slots
	}
	return s
}

// set sets the clocks: that of the session, and that of the store, which counts either time
// or turns.
func (s *seat) set(now time.Duration) {
	s.tick++
	s.now = max(s.now, now)
	if s.p.o.KeepTurns > 0 {
		s.arm.now = max(s.arm.now, s.base+time.Duration(s.t.turns)*turnTime) + 1
		return
	}
	s.arm.now = s.base + s.now
}

// at is the moment that is played, as the throttles are told it.
func (s *seat) at() time.Time { return s.t.began.Add(s.now) }

// after has something happen later.
func (s *seat) after(d time.Duration, do func()) {
	e := event{s.now + d, do}
	at := slices.IndexFunc(s.events, func(o event) bool { return o.at > e.at })
	if at < 0 {
		at = len(s.events)
	}
	s.events = slices.Insert(s.events, at, e)
}

// turn plays the calls of a turn, until all of them are answered.
func (s *seat) turn(t *turn) {
	s.waiting = len(t.calls)
	instant := s.p.o.KeepTurns > 0
	for _, m := range t.inOrder(instant) {
		at := t.gap + m.offset
		if instant {
			at = t.gap
		}
		s.after(at, func() { s.begins(m) })
	}
	for s.waiting > 0 {
		next := s.events[0]
		s.events = s.events[1:]
		s.set(next.at)
		next.do()
	}
	s.set(s.now)
}

// query asks for a call on behalf of the session.
func (s *seat) query(j *judged) dedup.Query {
	q := j.query
	q.Key.Scope, q.Delivered = s.scope, s.delivered
	if s.sabotage != nil {
		s.sabotage(&q)
	}
	return q
}

// begins is the beginning of a call, whatever it is.
func (s *seat) begins(m *made) {
	c, began := s.count.tool(m.Tool), s.now
	c.Calls++
	c.before += m.end - m.start
	if m.read {
		c.Reads++
		if m.repeat {
			c.Repeats++
		}
	}
	sound := s.ledger.sound(m.query.Places)
	var write *dedup.PendingWrite
	answered := func() {
		c.after += s.now - began
		s.waiting--
	}
	if m.storable() {
		q := s.query(&m.judged)
		s.ask(m, q, c, sound, answered)
		s.slots.Asked(s.at(), q.Key)
	} else {
		if m.effect.Changes() {
			s.ledger.arrive(m.effect)
			write = s.store.Arrive(m.effect)
			s.slots.Void(func(k call.Key) bool {
				return touches(m.effect, s.t.judge(exact{k.Tool, k.Arguments}).query.Places)
			})
		}
		s.fetch(m, c, func() {
			if write != nil {
				s.ledger.end(m.effect, s.tick)
				write.End()
			}
			answered()
		})
	}
}

// fetch asks the upstream, which takes as long as was recorded.
func (s *seat) fetch(m *made, c *Counts, done func()) {
	c.upstream++
	run := s.scheduler.Began(upstreamID, m.Tool, false, s.at())
	s.after(m.end-m.start, func() {
		run.Ended(s.at())
		done()
	})
}

// ask asks the store. sound is from when an answer must be to be good for the call.
func (s *seat) ask(m *made, q dedup.Query, c *Counts, sound uint64, answered func()) {
	waits := true
	w := &dedup.Waiter{Done: func(o dedup.Outcome) {
		waits = false
		switch {
		case o.Err != nil: // the session has ended
		case o.Alone: // what it has joined came to nothing
			s.fetch(m, c, answered)
		default:
			if o.How != dedup.Fetched {
				s.served(m, c, sound, o)
			}
			answered()
		}
	}}
	s.store.Do(s.ctx, q, w, func(_ context.Context, f *dedup.Flight) {
		waits = false
		s.sent[sending{m.exact, s.arm.now}] = s.tick
		s.fetch(m, c, func() { f.Settle(m.body(), false, !m.Failed) })
	})
	if waits {
		s.join(q.Key)
	}
}

// served is an answer that its call was not sent upstream for.
func (s *seat) served(m *made, c *Counts, sound uint64, o dedup.Outcome) {
	sent := s.sent[sending{m.exact, s.arm.now - o.Age}]
	if o.Prefetched {
		g := s.guesses[stamp(o.Body)]
		sent = g.id
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
	if m.repeat && m.read {
		c.RepeatsServed++
	}
	if sent < sound {
		c.Stale++
	}
}

// end is the end of the session. What no call waits for is given up.
func (s *seat) end() {
	s.chooser.GiveUp(s)
	s.slots.Review(s.at())
	s.slots.End()
	s.leave()
	s.store.Drop(s.scope)
	for _, g := range slices.Clone(s.underWay) {
		s.giveUp(g)
	}
	if s.p.o.KeepTurns > 0 { // nothing of this session may be used in the next
		s.arm.now += s.p.o.maxAge() + turnTime
	}
	s.report.session(s.t.s.ID, s.count)
}
