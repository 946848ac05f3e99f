package replay

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"

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
	answer *made // the call of the session that has the same; nil: there is none
	run    *speculate.Run

	flight   *dedup.Flight
	fetching context.Context // ends when the answer is wanted no more
	ctx      context.Context // of its own claim
	cancel   context.CancelFunc
	joined   bool // a real call waits for it
	used     bool
	over     bool // its call has returned
}

// stamp is the number of a guess, which stands behind the answer in the store, by which it
// is told again when the store hands it out.
func stamp(body []byte) uint64 { return binary.BigEndian.Uint64(body[len(body)-8:]) }

// body is the recorded answer as it is stored.
func (m *made) body() []byte { return []byte(m.Text) }

// consider takes what is likely after a turn: gives up what is not worth it any more, and
// chooses.
func (s *seat) consider(found []predict.Candidate) {
	if !s.Free {
		s.chooser.Reprice(s.at(), found, s.Pick.MinProbability, func(call.Key) bool { return false })
		s.reap()
	}
	s.chooser.Offer(s.at(), found, s.Pick.Budget, s)
	s.choose()
}

// choose picks from what waits, and starts it.
func (s *seat) choose() {
	if s.chooser.Open() == 0 {
		return
	}
	if !s.Free {
		s.slots.Review(s.at())
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

// Begin starts a guess, and puts it on its way.
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
		refused = s.slots.Start(own, speculate.Prefetch{Key: g.key, Host: v.Host, Begin: fetch})
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

// send asks the upstream: that takes as long as the call of the session did, or what the
// tool's calls usually take.
func (s *seat) send(g *guess, of *predict.Candidate) {
	s.tick++
	g.id = s.tick
	g.answer = s.t.s.next(exact{of.Key.Tool, of.Key.Arguments}, s.t.turns-1)
	takes := cmp.Or(of.Latency.P50, of.Model.Cost.Latency, usualLatency)
	if g.answer != nil {
		takes = g.answer.end - g.answer.start
	}
	s.guesses[g.id] = g
	s.underWay = append(s.underWay, g)
	g.run = s.scheduler.Began(upstreamID, of.Key.Tool, true, s.at())
	if !s.Free && takes > s.deadline {
		s.after(s.deadline, func() { s.overdue(g) })
	}
	s.after(takes, func() { s.land(g) })
}

// overdue frees the slot of a guess, and gives it up unless a call waits for it.
func (s *seat) overdue(g *guess) {
	switch {
	case g.over:
		return
	case g.joined:
		s.slots.Done(g.key)
	default:
		s.giveUp(g)
	}
	s.choose()
}

// join notes that a real call waits for the newest guess of that key.
func (s *seat) join(k call.Key) {
	for _, g := range slices.Backward(s.underWay) {
		if g.key == k {
			g.joined = true
			return
		}
	}
}

// land is the return of a guess's call.
func (s *seat) land(g *guess) {
	if g.over {
		return
	}
	var body []byte
	good := true
	if g.answer != nil {
		body, good = g.answer.body(), !g.answer.Failed
	}
	g.flight.Settle(binary.BigEndian.AppendUint64(body, g.id), false, good)
	s.returned(g)
	if !s.Free {
		s.choose()
	}
}

// giveUp ends a guess that no call waits for.
func (s *seat) giveUp(g *guess) {
	g.cancel()
	<-g.fetching.Done() // the store lets go of it on another goroutine
	g.flight.Settle(nil, false, false)
	s.returned(g)
}

func (s *seat) returned(g *guess) {
	g.over = true
	s.underWay = slices.DeleteFunc(s.underWay, func(o *guess) bool { return o == g })
	s.slots.Done(g.key)
	g.run.Ended(s.at())
	g.cancel()
}

// reap ends the guesses that the throttles have given up.
func (s *seat) reap() {
	for _, g := range slices.Clone(s.underWay) {
		if !g.joined && g.ctx.Err() != nil {
			s.giveUp(g)
		}
	}
}
