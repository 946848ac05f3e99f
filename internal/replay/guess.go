package replay

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/speculate"
)

// guess is a call that an arm makes before it is asked for.
type guess struct {
	id     uint64 // the moment at which it was sent
	key    call.Key
	answer *made         // the call of the session that has the same; nil: there is none
	due    time.Duration // when its call returns, or is given up
	late   bool          // it is given up then, unless somebody waits for it
	ends   time.Duration // when its call returns if it is not given up

	flight   *dedup.Flight
	fetching context.Context // ends when nobody wants the answer any more
	ctx      context.Context // of its own claim
	cancel   context.CancelFunc
	joined   bool // a real call waits for it
	used     bool
}

// stampSize (bytes) is what a guess's answer has in the end: its number, by which
// it is told again when the store hands it out.
const stampSize = 8

func stamp(body []byte) uint64 { return binary.BigEndian.Uint64(body[len(body)-stampSize:]) }

// body is the recorded answer as it is stored.
func (m *made) body() []byte { return []byte(m.Text) }

// room is what the throttles say of guesses at a host.
type room struct {
	slots   int
	caution float64
	watch   bool
}

// consider takes what is foreseen after a turn: gives up what is not worth it any
// more, and chooses.
func (s *seat) consider(guesses []predict.Candidate) {
	if !s.Free {
		likely := predict.Likely(guesses, s.Pick.MinProbability)
		s.desk.Reprice(s.at(), func(k call.Key) bool { return likely(k.Tool, k.Arguments) })
		s.reap()
	}
	if n := s.offer.Open(); n > 0 { // thought of after an earlier turn
		s.count.declined[enrich.Cap] += n
	}
	if s.Source == Forecast {
		s.offer = s.t.learner.Offer(s.likely(guesses), s.Pick.Budget)
	} else {
		s.offer = predict.NewOffer(guesses, s.Pick.Budget)
	}
	s.choose()
}

// likely leaves out what is not likely enough, which enrich would say of each by
// itself, arm after arm. Guesses come in the order of their probability, but for
// what no rule allows, which comes last.
func (s *seat) likely(guesses []predict.Candidate) []predict.Candidate {
	n := slices.IndexFunc(guesses, func(g predict.Candidate) bool { return !(g.P >= s.Pick.MinProbability) })
	if n < 0 {
		n = len(guesses)
	}
	for i := n; i < len(guesses); i++ {
		why := guesses[i].Reason
		if allowed(&guesses[i]) {
			why = enrich.LowProbability
		}
		s.count.declined[why]++
	}
	return slices.Clone(guesses[:n]) // an offer notes in them what is said against them later
}

// choose picks from what is offered, and starts it. What only lacks a slot waits in
// the offer for one.
func (s *seat) choose() {
	if s.offer.Open() == 0 {
		return
	}
	s.desk.Review(s.at())
	o := s.Pick
	o.Dollars = s.Dollars - s.dollars
	o.Slots = s.slots()
	picked := s.offer.Choose(s.world, o)
	for i := range picked.Declined {
		s.count.declined[picked.Declined[i].Why]++
	}
	for i := range picked.Watch {
		j := s.t.judge(exact{picked.Watch[i].Key.Tool, picked.Watch[i].Key.Arguments})
		s.desk.Watch(s.at(), s.query(j).Key, j.host, s.p.o.MaxAge)
	}
	for i := range picked.Start {
		s.begin(&picked.Start[i])
	}
}

// slots is how many guesses may be started now.
func (s *seat) slots() int {
	if s.Free {
		return s.offer.Open()
	}
	clear(s.rooms)
	slots := s.room(s.p.o.Model("").Host).slots
	if s.Watch {
		slots = max(slots, 1)
	}
	return slots
}

// room is what the throttles said of a host when it was last chosen from the offer.
func (s *seat) room(host string) room {
	r, known := s.rooms[host]
	if !known {
		r.slots, r.caution, r.watch = s.desk.Room(host, upstreamID)
		s.rooms[host] = r
	}
	return r
}

// world is what stands in the way of one guess, beyond what was foreseen.
func (s *seat) world(g *predict.Candidate) predict.World {
	c := exact{g.Key.Tool, g.Key.Arguments}
	j := s.t.judge(c)
	q := s.query(j)
	w := predict.World{Key: q.Key}
	if !j.storable() {
		w.Reason = enrich.NotSpeculatable
		return w
	}
	r := room{slots: 1}
	if !s.Free {
		r = s.room(j.host)
	}
	w.Caution = r.caution
	switch why := s.store.Refuses(q); {
	case why == "stored" || why == "delivered", s.p.o.KeepTurns > 0 && s.t.asked[c]:
		w.Reason = enrich.Stored
	case why != "":
		w.Reason = enrich.Reason(why) // "in_flight" is the same in both
	case s.Watch || r.watch:
		w.Reason = enrich.Shadow
	case r.slots == 0 || s.inTheWay(g):
		w.Reason = enrich.Throttled
	}
	return w
}

// inTheWay reports whether the guess may still be under way when the next call comes
// to an upstream that may work on one at a time, as any process may until it was
// seen not to.
func (s *seat) inTheWay(g *predict.Candidate) bool {
	return !s.Free && s.arm.desk.Concurrency(upstreamID) != speculate.Parallel && g.Lead.P10 > 0 && g.Latency.P90 > g.Lead.P10
}

// begin starts a guess.
func (s *seat) begin(of *predict.Candidate) {
	j := s.t.judge(exact{of.Key.Tool, of.Key.Arguments})
	q := s.query(j)
	g := &guess{key: q.Key}
	fetch := func(ctx context.Context) (func() call.Fate, string) {
		made, why := s.store.Prefetch(ctx, q, func(fetching context.Context, f *dedup.Flight) { g.flight, g.fetching = f, fetching })
		if made == nil {
			return nil, why
		}
		g.ctx = ctx
		return made.Fate, ""
	}
	var own context.Context
	own, g.cancel = context.WithCancel(s.ctx)
	var refused string
	if s.Free {
		_, refused = fetch(own)
	} else {
		refused = s.desk.Start(own, s.at(), speculate.Prefetch{Key: q.Key, Host: j.host, P: of.P, Begin: fetch})
	}
	if refused != "" {
		g.cancel()
		s.count.declined[enrich.Reason(refused)]++
		return
	}
	s.dollars += j.model.Cost.Dollars
	c := s.count.tool(of.Key.Tool)
	c.Issued++
	c.upstream++
	if s.begun != nil {
		s.begun(s.t.turns, of.Key.Tool, of.Key.Arguments)
	}
	s.send(g, of)
}

// send puts a guess that has begun on its way.
func (s *seat) send(g *guess, of *predict.Candidate) {
	s.p.tick++
	g.id = s.p.tick
	g.answer = s.t.s.next(exact{of.Key.Tool, of.Key.Arguments}, s.t.turns-1)
	takes := cmp.Or(of.Latency.P50, of.Model.Cost.Latency, usualLatency)
	if g.answer != nil {
		takes = g.answer.end - g.answer.start
	}
	g.ends = s.now + takes
	g.due = g.ends
	if !s.Free && takes > s.deadline {
		g.due, g.late = s.now+s.deadline, true
	}
	s.guesses[g.id] = g
	s.queue(g)
	s.arm.desk.Began(upstreamID, g.id<<1, of.Key.Tool, true, s.at())
}

// queue keeps the guesses under way in the order in which they are due.
func (s *seat) queue(g *guess) {
	at := slices.IndexFunc(s.flying, func(f *guess) bool { return f.due > g.due })
	if at < 0 {
		at = len(s.flying)
	}
	s.flying = slices.Insert(s.flying, at, g)
}

// advance plays what happens to the guesses until a moment.
func (s *seat) advance(to time.Duration) {
	for len(s.flying) > 0 && s.flying[0].due <= to {
		g := s.flying[0]
		s.flying = slices.Delete(s.flying, 0, 1)
		s.set(g.due)
		switch {
		case !g.late:
			s.land(g)
		case g.joined: // who waits for it holds it; its slot is free
			s.desk.Done(g.key, s.at())
			g.due, g.late = g.ends, false
			s.queue(g)
		default:
			s.giveUp(g)
		}
		if !s.Free {
			s.choose()
		}
	}
	s.set(to)
}

// join notes that a real call waits for the newest guess of that key.
func (s *seat) join(k call.Key) {
	var newest *guess
	for _, g := range s.flying {
		if g.key == k && (newest == nil || g.id > newest.id) {
			newest = g
		}
	}
	if newest != nil {
		newest.joined = true
	}
}

// land is the return of a guess's call.
func (s *seat) land(g *guess) {
	var body []byte
	good := true
	if g.answer != nil {
		body, good = g.answer.body(), !g.answer.Failed
	}
	g.flight.Settle(binary.BigEndian.AppendUint64(body, g.id), false, good)
	s.returned(g)
}

// giveUp ends a guess that nobody waits for.
func (s *seat) giveUp(g *guess) {
	g.cancel()
	<-g.fetching.Done() // the store lets go of it on another goroutine
	g.flight.Settle(nil, false, false)
	s.returned(g)
}

func (s *seat) returned(g *guess) {
	s.desk.Done(g.key, s.at())
	s.arm.desk.Ended(upstreamID, g.id<<1, s.at())
	g.cancel()
}

// reap ends the guesses that the throttles have given up.
func (s *seat) reap() {
	s.flying = slices.DeleteFunc(s.flying, func(g *guess) bool {
		lost := !g.joined && g.ctx.Err() != nil
		if lost {
			s.giveUp(g)
		}
		return lost
	})
}
