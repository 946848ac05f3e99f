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

// prefetch is a call that an arm makes before it is asked for.
type prefetch struct {
	sent   uint64 // the moment, which tells it from the others
	key    call.Key
	answer *made // the call of the session that has the same; nil: there is none
	run    *speculate.Run

	flight   *dedup.Flight
	fetching context.Context // ends when the answer is wanted no more
	ctx      context.Context // of its own claim
	cancel   context.CancelFunc
	joined   bool // a real call waits for it
	used     bool
	over     bool // its call has returned, or was given up
}

// prefetched is the prefetch whose answer a body is: the store keeps its number behind the
// answer.
func (s *armSession) prefetched(body []byte) *prefetch {
	sent := binary.BigEndian.Uint64(body[len(body)-8:])
	at := slices.IndexFunc(s.prefetches, func(g *prefetch) bool { return g.sent == sent })
	return s.prefetches[at]
}

// body is the recorded answer as it is stored.
func (m *made) body() []byte { return []byte(m.recorded.Text) }

// consider takes what is likely after a turn: gives up what is not worth it any more, and
// chooses.
func (s *armSession) consider(found []predict.Candidate) {
	if !s.arm.rules.Free {
		s.chooser.Reprice(s.at(), found, s.arm.rules.Pick.MinProbability)
		s.reap()
	}
	s.chooser.Offer(s.at(), found, s.arm.rules.Pick.Budget, s)
	s.choose()
}

// choose picks from what waits, and starts it.
func (s *armSession) choose() {
	if s.chooser.Open() == 0 {
		return
	}
	if !s.arm.rules.Free {
		s.slots.Review(s.at())
	}
	o := speculate.ChooseOptions{Options: s.arm.rules.Pick, Host: s.t.p.o.Model("").Host, Shadow: s.arm.rules.Watch, Keep: s.t.p.o.MaxAge}
	o.Dollars = s.arm.rules.Dollars - s.dollars
	s.chooser.Choose(s.at(), o, s)
}

// MayPrefetch says what stands in the way of a candidate.
func (s *armSession) MayPrefetch(g *predict.Candidate) speculate.Verdict {
	if s.arm.rules.Source == Forecast {
		if why := s.t.learner.Again(g); why != "" && why != enrich.Shadow {
			return speculate.Verdict{Reason: why}
		}
	}
	c := exact{g.Key.Tool, g.Key.Arguments}
	class := s.t.class(c)
	v := speculate.Verdict{Query: s.query(class), Host: class.host}
	if !class.storable() {
		v.Reason = enrich.NotSpeculatable
		return v
	}
	switch why := s.arm.store.PrefetchRefusal(v.Query); {
	case why == "stored" || why == "delivered", s.t.p.o.KeepTurns > 0 && s.t.asked[c]:
		v.Reason = enrich.Stored
	case why != "":
		v.Reason = enrich.Reason(why) // "in_flight" is the same in both
	}
	return v
}

// Declined counts a candidate that is given up.
func (s *armSession) Declined(_ *predict.Candidate, why enrich.Reason) { s.count.declined[why]++ }

// Begin starts a prefetch, and puts it on its way.
func (s *armSession) Begin(of *predict.Candidate, v *speculate.Verdict) (refused string) {
	g := &prefetch{key: v.Query.Key}
	fetch := func(ctx context.Context) (func() call.Fate, string) {
		begun, why := s.arm.store.Prefetch(ctx, v.Query, func(fetching context.Context, f *dedup.Flight) { g.flight, g.fetching = f, fetching })
		if begun == nil {
			return nil, why
		}
		g.ctx = ctx
		return begun.Fate, ""
	}
	var own context.Context
	own, g.cancel = context.WithCancel(s.ctx)
	if s.arm.rules.Free {
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
	if s.arm.begun != nil {
		s.arm.begun(s.t.turns, of.Key.Tool, of.Key.Arguments)
	}
	s.send(g, of)
	return ""
}

// send asks the upstream: that takes as long as the call of the session did, or what the
// tool's calls usually take.
func (s *armSession) send(g *prefetch, of *predict.Candidate) {
	s.clock.tick++
	g.sent = s.clock.tick
	g.answer = s.t.s.next(exact{of.Key.Tool, of.Key.Arguments}, s.t.turns-1)
	takes := cmp.Or(of.Latency.P50, of.Model.Cost.Latency, usualLatency)
	if g.answer != nil {
		takes = g.answer.end - g.answer.start
	}
	s.prefetches = append(s.prefetches, g)
	g.run = s.arm.scheduler.Began(upstreamID, of.Key.Tool, true, s.at())
	if !s.arm.rules.Free && takes > s.arm.deadline {
		s.clock.after(s.arm.deadline, func() { s.overdue(g) })
	}
	s.clock.after(takes, func() { s.land(g) })
}

// overdue frees the slot of a prefetch, and gives it up unless a call waits for it.
func (s *armSession) overdue(g *prefetch) {
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

// join notes that a real call waits for the prefetch of that key that is under way.
func (s *armSession) join(k call.Key) {
	for _, g := range s.prefetches {
		if g.key == k && !g.over {
			g.joined = true
		}
	}
}

// land is the return of a prefetch's call.
func (s *armSession) land(g *prefetch) {
	if g.over {
		return
	}
	var body []byte
	good := true
	if g.answer != nil {
		body, good = g.answer.body(), !g.answer.recorded.Failed
	}
	g.flight.Settle(binary.BigEndian.AppendUint64(body, g.sent), false, good)
	g.run.Ended(s.at())
	s.done(g)
	if !s.arm.rules.Free {
		s.choose()
	}
}

// giveUp ends a prefetch that no call waits for. Its server goes on with it, and does not say
// for how long.
func (s *armSession) giveUp(g *prefetch) {
	if g.over {
		return
	}
	g.cancel()
	<-g.fetching.Done() // the store lets go of it on another goroutine
	g.flight.Settle(nil, false, false)
	g.run.Cut(s.at())
	s.done(g)
}

func (s *armSession) done(g *prefetch) {
	g.over = true
	s.slots.Done(g.key)
	g.cancel()
}

// reap ends the prefetches that the throttles have given up.
func (s *armSession) reap() {
	for _, g := range s.prefetches {
		if !g.joined && g.ctx.Err() != nil {
			s.giveUp(g)
		}
	}
}
