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

// Source is what an arm's guesses come from.
type Source int

const (
	Forecast Source = iota
	Oracle          // the recording itself: the reads of the next turn that are no repeats
	Nothing         // there are none
)

// Arm is one way to guess, with a store, slots and throttles of its own.
type Arm struct {
	Name    string
	Source  Source
	Pick    enrich.Options    // Slots, Dollars and Think are filled in
	Dollars float64           // US dollars that the guesses of one session may cost
	Slots   speculate.Options // its Deadline is in recorded time; default 30s
	Store   dedup.Options     // its Clock is filled in

	Watch bool // guesses are picked and none is started
	Free  bool // slots, throttles and deadlines do not count: what is picked is started
}

// longest is how long a guess lives that nobody waits for, as live.
const longest = 30 * time.Second

// never is a deadline in the computer's time, which has no say here.
const never = 1000 * time.Hour

// arm is an Arm at work.
type arm struct {
	Arm
	p        *Player
	store    *dedup.Store
	desk     *speculate.Scheduler
	deadline time.Duration
	now      time.Duration // on the store's clock
	report   *tally

	// nil outside tests
	sabotage func(*dedup.Query)                      // breaks the rules by which the store is asked
	begun    func(turns int, tool, arguments string) // is told of each guess
}

func newArm(p *Player, a Arm) *arm {
	out := &arm{Arm: a, p: p, deadline: longest, report: newTally()}
	if a.Slots.Deadline > 0 {
		out.deadline = a.Slots.Deadline
	}
	out.Pick.Think = p.o.Think
	out.Pick.Whole = out.Pick.Budget / cmp.Or(max(a.Slots.PerSession, 0), 3) // as live
	out.Store.Clock = func() age.Moment { return age.At(out.now, out.now) }
	if p.o.KeepTurns > 0 {
		out.Store.Settle = 0 // it counts seconds, and the clock then turns
	}
	out.store = dedup.New(out.Store)
	slots := a.Slots
	slots.Deadline = never
	out.desk = speculate.New(slots)
	return out
}

// seat is an arm's place at a table: what it has of one session.
type seat struct {
	*arm
	t         *table
	ctx       context.Context // of the session
	leave     context.CancelFunc
	scope     string
	desk      *speculate.Session
	delivered *dedup.Delivered
	now       time.Duration // since the session began
	base      time.Duration // the store's clock then
	count     *tally        // of this session
	dollars   float64       // spent

	runs    map[*made]*speculate.Run
	flights map[*made]*dedup.Flight // of calls under way, that they fetch for themselves
	writes  map[*made]*dedup.PendingWrite
	sent    map[sending]uint64 // when what was not guessed was asked for
	guesses map[uint64]*guess  // by the moment at which they were sent
	flying  []*guess           // those whose call has not returned, in the order in which it will
	chooser speculate.Chooser  // what was foreseen last, as far as it waits for a slot
}

// sending is a fetch: of a call, at a time by the store's clock.
type sending struct {
	exact
	at time.Duration
}

func (a *arm) seat(t *table) *seat {
	ctx, leave := context.WithCancel(context.Background())
	s := &seat{
		arm: a, t: t, ctx: ctx, leave: leave, scope: strconv.Itoa(t.p.sessions), desk: a.desk.Session(t.s.ID),
		delivered: dedup.NewDelivered(), base: a.now, count: newTally(),
		runs: make(map[*made]*speculate.Run), flights: make(map[*made]*dedup.Flight), writes: make(map[*made]*dedup.PendingWrite),
		sent: make(map[sending]uint64), guesses: make(map[uint64]*guess),
	}
	s.chooser.Upstream = upstreamID
	if !a.Free {
		s.chooser.Session = s.desk
	}
	return s
}

// set sets the clocks of the arm: that of the session, and that of the store,
// which counts either time or turns.
func (s *seat) set(now time.Duration) {
	s.now = now
	if s.p.o.KeepTurns > 0 {
		s.arm.now = max(s.arm.now, s.base+time.Duration(s.t.turns)*turnTime) + 1
		return
	}
	s.arm.now = s.base + now
}

// at is the moment that is played, as the throttles are told it.
func (s *seat) at() time.Time { return s.t.began.Add(s.now) }

// query asks for a call on behalf of the session.
func (s *seat) query(j *judged) dedup.Query {
	q := j.query
	q.Key.Scope, q.Delivered = s.scope, s.delivered
	if s.sabotage != nil {
		s.sabotage(&q)
	}
	return q
}

// arrive is a call that may change something.
func (s *seat) arrive(m *made) { s.writes[m] = s.store.Arrive(m.effect) }

// read is a call that comes, whatever it is. sound is from when an answer must be
// to be good for it.
func (s *seat) read(m *made, sound uint64) {
	c := s.count.tool(m.Tool)
	c.Calls++
	c.before += m.end - m.start
	if m.read {
		c.Reads++
		if m.repeat {
			c.Repeats++
		}
	}
	if m.storable() {
		q := s.query(&m.judged)
		s.ask(m, q, sound)
		s.desk.Asked(s.at(), q.Key)
	} else {
		c.after += m.end - m.start
		c.upstream++
	}
	if !m.storable() || s.flights[m] != nil {
		s.runs[m] = s.arm.desk.Began(upstreamID, m.Tool, false, s.at())
	}
	s.arm.desk.Preempt(upstreamID, s.at())
	s.reap()
}

// ask asks the store.
func (s *seat) ask(m *made, q dedup.Query, sound uint64) {
	waits := true
	w := &dedup.Waiter{Done: func(o dedup.Outcome) {
		waits = false
		s.answered(m, sound, o)
	}}
	s.store.Do(s.ctx, q, w, func(_ context.Context, f *dedup.Flight) {
		s.flights[m] = f
		s.sent[sending{m.exact, s.arm.now}] = s.p.tick
	})
	if waits && s.flights[m] == nil {
		s.join(q.Key)
	}
}

// answered is the answer to a call that the store was asked for.
func (s *seat) answered(m *made, sound uint64, o dedup.Outcome) {
	c := s.count.tool(m.Tool)
	waited := s.now - m.start
	switch {
	case o.How == dedup.Fetched || o.Err != nil:
		waited = m.end - m.start
		c.upstream++
	case o.Alone:
		waited += m.end - m.start
		c.upstream++
	default:
		s.served(m, c, sound, o)
	}
	c.after += waited
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

// finish is the end of a call.
func (s *seat) finish(m *made) {
	if run := s.runs[m]; run != nil {
		run.Ended(s.at())
		delete(s.runs, m)
	}
	if p := s.writes[m]; p != nil {
		p.End()
		delete(s.writes, m)
	}
	if f := s.flights[m]; f != nil {
		delete(s.flights, m)
		f.Settle(m.body(), false, !m.Failed)
	}
}

// void is a change.
func (s *seat) void(stale func(call.Key) bool) { s.desk.Void(stale) }

// end is the end of the session. What nobody waits for is given up.
func (s *seat) end() {
	s.chooser.GiveUp(s)
	s.desk.Review(s.at())
	s.flying = slices.DeleteFunc(s.flying, func(g *guess) bool {
		if g.joined {
			s.set(max(s.now, g.ends))
			s.land(g)
		}
		return g.joined
	})
	s.desk.End()
	s.leave()
	s.store.Drop(s.scope)
	for _, g := range s.flying {
		s.giveUp(g)
	}
	s.flying = nil
	if s.p.o.KeepTurns > 0 { // nothing of this session may be used in the next
		s.arm.now += s.p.o.maxAge() + turnTime
	}
	s.report.session(s.t.s.ID, s.count)
}
