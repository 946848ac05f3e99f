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
	"mcpschedd/internal/forecast"
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

// offer is what was foreseen, and is still to be chosen from.
type offer struct {
	guesses []forecast.Guess
	rooms   map[string]room // by host
	begun   map[exact]bool  // the guesses that were: each is made once
}

// room is what the throttles say of guesses at a host.
type room struct {
	slots   int
	caution float64
	watch   bool
}

// consider takes what is foreseen after a turn: gives up what is not worth it any
// more, and chooses.
func (s *seat) consider(guesses []forecast.Guess) {
	s.offered = offer{guesses: s.likely(guesses), begun: make(map[exact]bool)}
	if !s.Free {
		s.reprice(guesses)
		s.desk.Review(s.at())
	}
	s.choose(true)
}

// likely leaves out what is not likely enough, which enrich would say of each by
// itself, arm after arm. Guesses come in the order of their probability, but for
// what no rule allows, which comes last.
func (s *seat) likely(guesses []forecast.Guess) []forecast.Guess {
	n := slices.IndexFunc(guesses, func(g forecast.Guess) bool { return !(g.P >= s.Pick.MinProbability) })
	if n < 0 {
		return guesses
	}
	for i := n; i < len(guesses); i++ {
		why := guesses[i].Reason
		if allowed(&guesses[i]) {
			why = enrich.LowProbability
		}
		s.count.declined[why]++
	}
	return guesses[:n]
}

// reprice gives up the guesses under way that are less than half as likely as
// would be needed to begin them.
func (s *seat) reprice(guesses []forecast.Guess) {
	if len(s.flying) == 0 {
		return
	}
	likely := make(map[exact]bool)
	for i := range guesses {
		if g := &guesses[i]; g.P >= s.Pick.MinProbability/2 {
			likely[exact{g.Tool, g.Arguments}] = true
		}
	}
	s.desk.Reprice(s.at(), func(k call.Key) bool { return likely[exact{k.Tool, k.Arguments}] })
	s.reap()
}

// choose picks from what is offered, and starts it. What is left out is counted
// the first time.
func (s *seat) choose(first bool) {
	if len(s.offered.guesses) == 0 {
		return
	}
	o := s.Pick
	o.Dollars = s.Dollars - s.dollars
	o.Keywords = s.t.intent
	o.Slots = s.look()
	chosen, picked := forecast.Choose(s.offered.guesses, s.world, o)
	for _, d := range picked.Declined {
		if first {
			s.count.declined[d.Reason]++
		}
		if g := &s.offered.guesses[d.Candidate]; d.Reason == enrich.Shadow && s.offered.rooms[s.host(g)].watch {
			s.desk.Watch(s.at(), s.query(s.t.judge(exact{g.Tool, g.Arguments})).Key, s.host(g), s.p.o.MaxAge)
		}
	}
	for i := range chosen {
		s.begin(&chosen[i])
	}
}

// look asks how much room there is for guesses at each host, and returns the most.
func (s *seat) look() int {
	s.offered.rooms = make(map[string]room)
	if s.Free {
		return len(s.offered.guesses)
	}
	most := 0
	for i := range s.offered.guesses {
		g := &s.offered.guesses[i]
		if !(g.P >= s.Pick.MinProbability) {
			continue
		}
		host := s.host(g)
		r, known := s.offered.rooms[host]
		if !known {
			r.slots, r.caution, r.watch = s.desk.Room(host, upstreamID)
			s.offered.rooms[host] = r
		}
		most = max(most, r.slots)
	}
	return most
}

func (s *seat) host(g *forecast.Guess) string { return s.t.judge(exact{g.Tool, g.Arguments}).host }

// world is what stands in the way of one guess, beyond what was foreseen.
func (s *seat) world(g *forecast.Guess) forecast.World {
	c := exact{g.Tool, g.Arguments}
	j := s.t.judge(c)
	q := s.query(j)
	r := s.offered.rooms[j.host]
	w := forecast.World{Key: q.Key, Caution: r.caution}
	switch why := s.store.Refuses(q); {
	case !j.storable():
		w.Reason = enrich.NotSpeculatable
	case s.p.o.KeepTurns > 0 && s.t.asked[c], s.offered.begun[c], why == "delivered":
		w.Reason = enrich.Stored
	case why != "":
		w.Reason = enrich.Reason(why)
	case s.Watch || r.watch:
		w.Reason = enrich.Shadow
	case !s.Free && r.slots == 0:
		w.Reason = enrich.Throttled
	}
	return w
}

// begin starts a guess.
func (s *seat) begin(of *forecast.Guess) {
	j := s.t.judge(exact{of.Tool, of.Arguments})
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
		refused = s.desk.Start(own, s.at(), speculate.Guess{Key: q.Key, Host: j.host, P: of.P, Begin: fetch})
	}
	if refused != "" {
		g.cancel()
		s.count.declined[enrich.Reason(refused)]++
		return
	}
	s.offered.begun[exact{of.Tool, of.Arguments}] = true
	s.dollars += j.model.Cost.Dollars
	c := s.count.tool(of.Tool)
	c.Issued++
	c.upstream++
	if s.begun != nil {
		s.begun(s.t.turns, of.Tool, of.Arguments)
	}
	s.send(g, of)
}

// send puts a guess that has begun on its way.
func (s *seat) send(g *guess, of *forecast.Guess) {
	s.p.tick++
	g.id = s.p.tick
	g.answer = s.t.s.next(exact{of.Tool, of.Arguments}, s.t.turns-1)
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
	s.arm.desk.Began(upstreamID, g.id<<1, of.Tool, true, s.at())
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
			s.choose(false)
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
