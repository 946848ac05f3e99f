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
	run      *speculate.Run
	joined   bool // a real call waits for it
	used     bool
}

// stampSize (bytes) is what a guess's answer has in the end: its number, by which
// it is told again when the store hands it out.
const stampSize = 8

func stamp(body []byte) uint64 { return binary.BigEndian.Uint64(body[len(body)-stampSize:]) }

// body is the recorded answer as it is stored.
func (m *made) body() []byte { return []byte(m.Text) }

// consider takes what is foreseen after a turn: gives up what is not worth it any
// more, and chooses.
func (s *seat) consider(found []predict.Candidate) {
	if !s.Free {
		s.chooser.Reprice(s.at(), found, s.Pick.MinProbability, func(call.Key) bool { return false })
		s.reap()
	}
	s.chooser.Offer(found, s.Pick.Budget, s)
	s.choose()
}

// choose picks from what waits, and starts it.
func (s *seat) choose() {
	if s.chooser.Open() == 0 {
		return
	}
	if !s.Free {
		s.desk.Review(s.at())
	}
	o := speculate.ChooseOptions{Options: s.Pick, Host: s.p.o.Model("").Host, Shadow: s.Watch, Keep: s.p.o.MaxAge}
	o.Dollars = s.Dollars - s.dollars
	s.chooser.Choose(s.at(), o, s)
}

// A seat is the world of its chooser.

// MayPrefetch says what stands in the way of a candidate.
func (s *seat) MayPrefetch(g *predict.Candidate) speculate.Verdict {
	if s.Source == Forecast {
		if why := s.t.learner.Again(g); why != "" && why != enrich.Shadow {
			return speculate.Verdict{Reason: why}
		}
	}
	c := exact{g.Key.Tool, g.Key.Arguments}
	j := s.t.judge(c)
	v := speculate.Verdict{Query: s.query(j), Host: j.host}
	if !j.storable() {
		v.Reason = enrich.NotSpeculatable
		return v
	}
	switch why := s.store.Refuses(v.Query); {
	case why == "stored" || why == "delivered", s.p.o.KeepTurns > 0 && s.t.asked[c]:
		v.Reason = enrich.Stored
	case why != "":
		v.Reason = enrich.Reason(why) // "in_flight" is the same in both
	}
	return v
}

// Declined counts a candidate that is given up.
func (s *seat) Declined(_ *predict.Candidate, why enrich.Reason) { s.count.declined[why]++ }

// Begin starts a guess.
func (s *seat) Begin(of *predict.Candidate, v *speculate.Verdict) (refused string) {
	g := &guess{key: v.Query.Key}
	fetch := func(ctx context.Context) (func() call.Fate, string) {
		made, why := s.store.Prefetch(ctx, v.Query, func(fetching context.Context, f *dedup.Flight) { g.flight, g.fetching = f, fetching })
		if made == nil {
			return nil, why
		}
		g.ctx = ctx
		return made.Fate, ""
	}
	var own context.Context
	own, g.cancel = context.WithCancel(s.ctx)
	if s.Free {
		_, refused = fetch(own)
	} else {
		refused = s.desk.Start(own, speculate.Prefetch{Key: g.key, Host: v.Host, Begin: fetch})
	}
	if refused != "" {
		g.cancel()
		return refused
	}
	s.dollars += of.Model.Cost.Dollars
	c := s.count.tool(of.Key.Tool)
	c.Issued++
	c.upstream++
	if s.begun != nil {
		s.begun(s.t.turns, of.Key.Tool, of.Key.Arguments)
	}
	s.send(g, of)
	return ""
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
	g.run = s.arm.desk.Began(upstreamID, of.Key.Tool, true, s.at())
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
			s.desk.Done(g.key)
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
	s.desk.Done(g.key)
	g.run.Ended(s.at())
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
