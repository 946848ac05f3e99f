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

// prefetch is a prefetch of an arm.
type prefetch struct {
	sent   uint64 // tick at which it was sent, which identifies it
	key    call.Key
	answer *playedCall // the next equal call of the session, which has the answer; nil if there is none
	run    speculate.Run
	claim  *speculate.Claim // nil if time counts in turns

	flight   *dedup.Flight
	fetching context.Context // of the flight, done when nothing waits for it any more
	ctx      context.Context // ends the prefetch's wait for the flight
	cancel   context.CancelFunc
	used     bool
	ended    bool // it has completed or was cancelled
}

// prefetchOf returns the prefetch that fetched a stored body. Its tick is appended to the body.
func (s *armSession) prefetchOf(body []byte) *prefetch {
	sent := binary.BigEndian.Uint64(body[len(body)-8:])
	at := slices.IndexFunc(s.prefetches, func(g *prefetch) bool { return g.sent == sent })
	return s.prefetches[at]
}

// body returns the recorded answer as it is stored.
func (m *playedCall) body() []byte { return []byte(m.recorded.Text) }

// consider handles the candidates after a turn: it cancels prefetches that are no longer worth
// it, and starts new ones.
func (s *armSession) consider(found []predict.Candidate) {
	s.chooser.Replace(s.at(), found, &s.arm.Rules)
	s.endCancelled()
	s.choose()
}

// choose chooses among the waiting candidates and starts prefetches.
func (s *armSession) choose() {
	s.slots.Review(s.at())
	at := speculate.Situation{Host: s.t.p.o.Model("").Host, Spent: s.dollars, Think: s.t.p.o.Think}
	s.chooser.Choose(s.at(), &s.arm.Rules, at)
}

// MayPrefetch returns the query for a candidate, and the reason if it must not be prefetched.
func (s *armSession) MayPrefetch(g *predict.Candidate) speculate.Eligibility {
	if s.arm.Source == Forecast {
		if why := s.t.learner.Check(g); why != "" {
			return speculate.Eligibility{Reason: why}
		}
	}
	c := callKey{g.Key.Tool, g.Key.Arguments}
	class := s.t.class(c)
	v := speculate.Eligibility{Query: s.query(class), Host: class.host}
	if !class.storable() {
		v.Reason = enrich.NotSpeculatable
		return v
	}
	v.Reason = enrich.Reason(s.arm.store.PrefetchRefusal(v.Query))
	if s.t.p.o.KeepTurns > 0 && s.begun[c] > 0 {
		v.Reason = enrich.Delivered
	}
	return v
}

// Declined counts a declined candidate.
func (s *armSession) Declined(_ *predict.Candidate, why enrich.Reason) { s.count.Declined[why]++ }

// Begin starts a prefetch, or returns the reason why it was refused.
func (s *armSession) Begin(cand *predict.Candidate, v *speculate.Eligibility) (refused enrich.Reason) {
	g := &prefetch{key: v.Query.Key}
	begin := func(claim *speculate.Claim) (func() call.Fate, enrich.Reason) {
		ctx := s.ctx
		if g.claim = claim; claim != nil {
			ctx = claim.Context
		}
		g.ctx, g.cancel = context.WithCancel(ctx)
		begun, refused := s.arm.store.Prefetch(g.ctx, v.Query, func(fetching context.Context, f *dedup.Flight) { g.flight, g.fetching = f, fetching })
		if begun == nil {
			g.cancel()
			return nil, enrich.Reason(refused)
		}
		return begun.Fate, ""
	}
	if s.chooser.Claims == nil {
		_, refused = begin(nil)
	} else {
		refused = s.slots.Start(s.ctx, theLease, g.key, v.Host, false, begin)
	}
	if refused != "" {
		return refused
	}
	s.dollars += cand.Model.Cost.Dollars
	c := s.count.tool(cand.Key.Tool)
	c.Issued++
	c.upstream++
	if s.arm.onPrefetch != nil {
		s.arm.onPrefetch(s.t.turns, cand.Key.Tool, cand.Key.Arguments)
	}
	s.send(g, cand)
	return ""
}

// send sends a prefetch upstream. It takes as long as the recorded call, or else as long as
// calls of the tool usually take.
func (s *armSession) send(g *prefetch, cand *predict.Candidate) {
	s.clock.tick++
	g.sent = s.clock.tick
	c := callKey{cand.Key.Tool, cand.Key.Arguments}
	if equal := s.t.s.byCall[c][s.begun[c]:]; len(equal) > 0 {
		g.answer = equal[0] // only the simulated upstream may look ahead
	}
	takes := cmp.Or(cand.Latency.P50, cand.Model.Cost.Latency, defaultLatency)
	if g.answer != nil {
		takes = g.answer.end - g.answer.start
	}
	s.prefetches = append(s.prefetches, g)
	s.arm.scheduler.Sent(&g.run, theLease, cand.Key.Tool, g.claim, s.at())
	s.clock.after(takes, func() { s.complete(g) })
}

// complete stores the answer of a prefetch.
func (s *armSession) complete(g *prefetch) {
	if g.ended {
		return
	}
	var body []byte
	good := true
	if g.answer != nil {
		body, good = g.answer.body(), !g.answer.recorded.Failed
	}
	g.flight.Finish(binary.BigEndian.AppendUint64(body, g.sent), false, good)
	s.arm.scheduler.Answered(&g.run, s.at())
	s.finish(g)
	s.choose()
}

// cancel cancels a prefetch. Its server may continue to work on it for an unknown time.
func (s *armSession) cancel(g *prefetch) {
	if g.ended {
		return
	}
	g.cancel()
	<-g.fetching.Done() // the store ends the wait on another goroutine
	g.flight.Finish(nil, false, false)
	s.arm.scheduler.Abandoned(&g.run, true, s.at())
	s.finish(g)
}

func (s *armSession) finish(g *prefetch) {
	g.ended = true
	if g.claim != nil {
		g.claim.Done()
	}
	g.cancel()
}

// endCancelled ends the prefetches that the throttles have cancelled, which no call has joined.
func (s *armSession) endCancelled() {
	for _, g := range s.prefetches {
		if g.ctx.Err() != nil {
			s.cancel(g)
		}
	}
}
