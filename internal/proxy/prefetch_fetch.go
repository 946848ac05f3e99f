package proxy

import (
	"context"
	"errors"
	"slices"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// What the prefetcher is given: mayPrefetch says what stands in the way of a candidate,
// fetch makes its call. Both go by the same rules, store and limits as any other call.

// candidate is a call that a client may make next.
type candidate struct {
	lease       *leased
	tool        string
	arguments   []byte
	free        bool          // no argument was read off a result or learned, so that third parties may be told
	joinTimeout time.Duration // how long a call waits for the prefetch, from its sending
}

// call is the candidate's call, of that number in the record.
func (c *candidate) call(s *session, number call.Number) *upstreamCall {
	params := jsonrpc.Set(jsonrpc.Set(nil, "name", jsonrpc.AppendString(nil, c.tool)), "arguments", c.arguments)
	return &upstreamCall{s: s, policy: s.srv.policy.Load(), method: "tools/call", lease: c.lease, tool: c.tool, params: indexed(params), record: &callRecord{number: number, prefetch: true}}
}

// mayPrefetch classifies a candidate, and says why it may not be made early at this
// moment; "": it may.
func (s *session) mayPrefetch(c *candidate) (callClass, enrich.Reason) {
	srv := s.srv
	p := srv.policy.Load()
	class := c.call(s, call.Number{}).classify(p)
	why := srv.forbids(p, c, &class)
	if why != "" {
		return class, why
	}
	switch refused := srv.store.Refuses(class.query); {
	case refused == "in_flight":
		why = enrich.InFlight
	case refused == "stored" || refused == "delivered":
		why = enrich.Stored
	case refused != "":
		why = enrich.Reason(refused)
	case srv.limits.MayGuess(class.host) != nil:
		why = enrich.RateLimited
	case p.Enrichment.Mode == "shadow":
		why = enrich.Shadow
	}
	return class, why
}

// forbids says why a candidate may not be made early, whatever it is worth. It is asked
// when candidates are weighed, when one is made, and once more when it has waited for
// its host, for the rules may have changed.
func (s *Server) forbids(p *policy, c *candidate, class *callClass) enrich.Reason {
	m, learned := s.catalog.model(p, c.lease, c.tool), s.prefetcher.learned.tool(c.lease, c.tool)
	switch {
	case !class.storable():
		return enrich.NotSpeculatable
	case !steady(c.lease, m, class):
		return enrich.Unsteady
	case !c.lease.Live(), !c.lease.member.allows(c.tool), learned.barred, learned.crashesServer,
		m.Speculate == nil, !*m.Speculate, m.Volatile != nil && *m.Volatile, p.Enrichment.off():
		return enrich.NotSpeculatable
	case m.Cost.Dollars > p.Enrichment.Dollars:
		return enrich.Dollars
	case m.Disclosure != valuemodel.SameService && !c.free:
		return enrich.Disclosure
	}
	return ""
}

// steady reports whether what the call reads changes only through this proxy, or in
// ways that are noticed: on this machine any program may change a file.
func steady(l *leased, m *valuemodel.Model, class *callClass) bool {
	if l.member.Exclusive || class.query.Use.File != "" || class.query.Use.Pure {
		return true
	}
	return !slices.ContainsFunc(m.Domains, func(d valuemodel.Domain) bool { return !d.Remote })
}

// prefetch is a candidate's call that has been begun.
type prefetch struct {
	record *callRecord
	class  callClass
	guess  *dedup.Guess // what became of it
}

// prefetchHooks hear of a prefetch, on whatever goroutine.
type prefetchHooks struct {
	asked  func(certain bool)                      // its server asks the client something, for this call or, if that is not certain, for another
	landed func(answer upstream.Answer, err error) // it has come back, or will not
}

// purposePrefetch is said in the _meta of a request that no client made.
const purposePrefetch = `{"mcpschedd/purpose":"prefetch"}`

// fetch makes a candidate's call: its answer goes into the store, and to the client only
// if that makes the same call. It returns at once, and says why if nothing was begun.
// observed is how the prefetcher knows the call. It lives while ctx does, or while a
// client's call waits for it.
func (s *session) fetch(ctx context.Context, c *candidate, number call.Number, observed *callFacts, hooks prefetchHooks) (f *prefetch, why string) {
	srv, j := s.srv, c.call(s, number)
	j.seen.facts = observed
	j.arrive()
	defer func() {
		if f == nil { // nothing was begun, be it because something panicked
			j.drop()
		}
	}()
	p := srv.policy.Load()
	if srv.limits.MayGuess(j.class.host) != nil {
		return nil, "rate_limited"
	}
	if p.Enrichment.Mode != "on" || srv.forbids(p, c, &j.class) != "" {
		return nil, "not_speculatable"
	}
	j.class.query.Use.JoinTimeout = c.joinTimeout
	guess, why := srv.store.Prefetch(ctx, j.class.query, func(ctx context.Context, flight *dedup.Flight) {
		srv.work.Go(func() {
			answer, err := c.send(ctx, j, flight, hooks)
			flight.Worth(j.worth())
			flight.Settle(answer.Result, answer.Stateless, err == nil && shareable(answer))
			srv.prefetcher.faults.recovering(func() { hooks.landed(answer, err) })
		})
	})
	if guess == nil {
		return nil, why
	}
	return &prefetch{record: j.record, class: j.class, guess: guess}, ""
}

var errForbidden = errors.New("the call may no longer be made early")

// send sends the candidate's call j behind every call of a client. It takes no turn:
// nothing may wait for it, and what it could overtake keeps it from being stored.
func (c *candidate) send(ctx context.Context, j *upstreamCall, flight *dedup.Flight, hooks prefetchHooks) (upstream.Answer, error) {
	srv, l, client := j.s.srv, c.lease, j.s.client.facts()
	j.late = srv.prefetcher.underway.add(l.Instance(), j.s.observed, j.tool, hooks.asked)
	req := &upstream.Request{
		Method: "tools/call", Params: jsonrpc.Set(j.params.Raw(), "_meta", []byte(purposePrefetch)),
		Token: true, Alone: true, Timeout: l.member.Timeout, Notify: flight.Notify, Sent: flight.Sent,
		Hop: revision.Hop{Version: revision.Latest, Info: client.Info, Capabilities: client.Capabilities},
		Ask: func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) {
			flight.Taint()
			hooks.asked(true)
			return nil, cannotBeAsked("a prefetch")
		},
	}
	done := make(chan outcome, 1)
	j.sendPaced(ctx, upstream.Turn{}, req, func(ctx context.Context, j *upstreamCall, wait bool) (*limit.Slot, error) {
		if !wait {
			return nil, nil
		}
		slot, err := srv.limits.Guess(ctx, j.class.host, flight.Promoted())
		if err != nil {
			return nil, err
		}
		stands := false
		srv.prefetcher.faults.recovering(func() { stands = joined(flight) || c.stands(j) })
		if !stands {
			slot.Leave(notSent)
			return nil, errForbidden
		}
		if joined(flight) {
			req.Index = j.params // a client has made the call meanwhile
		}
		return slot, nil
	}, func(o outcome) { done <- o })
	o := <-done
	if o.err != nil && o.answer.Sent && l.Live() {
		time.AfterFunc(aWhile, j.late) // its server may still be at it
	} else {
		j.late()
	}
	return o.answer, o.err
}

// stands reports whether the prefetch may still be made as its call j was begun.
func (c *candidate) stands(j *upstreamCall) bool {
	srv := j.s.srv
	p := srv.policy.Load()
	now := c.call(j.s, j.record.number).classify(p)
	return now.query.Key == j.class.query.Key && p.Enrichment.Mode == "on" && srv.forbids(p, c, &now) == ""
}

// joined reports whether a client has made the call that is being fetched early.
func joined(f *dedup.Flight) bool {
	select {
	case <-f.Promoted():
		return true
	default:
		return false
	}
}
