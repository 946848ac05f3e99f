package proxy

import (
	"bytes"
	"context"
	"errors"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/events"
	"mcpschedd/internal/forecast"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// purposePrefetch is said in the _meta of a request that no client made.
const purposePrefetch = `{"mcpschedd/purpose":"prefetch"}`

// guessed is a call that nobody has made.
func guessed(s *session, tool string, arguments []byte) *upstreamCall {
	params := jsonrpc.Set(jsonrpc.Set(nil, "name", jsonrpc.AppendString(nil, tool)), "arguments", arguments)
	return &upstreamCall{s: s, method: "tools/call", tool: tool, params: params}
}

// joinTimeout is how long a call waits for a guess: what nine calls of ten take, and
// some more, as far as that is known.
func joinTimeout(g *forecast.Guess) time.Duration {
	if p90 := g.Latency.P90; p90 > 0 {
		return p90 + p90/4 + 100*time.Millisecond
	}
	return 4 * g.Model.Cost.Latency
}

// started is a guess that has been begun.
type started struct {
	forecast.Guess
	j     *upstreamCall
	ended <-chan struct{} // closed when its answer is there, or will not be
}

// start begins a guess that was chosen, or says why not. It ends with its session,
// unless a real call waits for it.
func (w *prefetchWorker) start(v *sessionState, o *upstreamState, f *pairState, g forecast.Guess, j *upstreamCall, now time.Time) (s started, refused string) {
	l, key := o.at, j.query.Key
	ended := make(chan struct{})
	j.observed = &callFacts{instance: l.Instance(), id: w.p.ids.Add(1), tool: g.Tool, host: j.host, early: true}
	j.free, j.joinTimeout = g.Free(), joinTimeout(&g)
	j.number = v.s.next()
	rec := &guessEntry{upstreamCall: j}
	refused = v.desk.Start(v.s.ctx, now, speculate.Guess{
		Key: key, Host: j.host, P: g.P,
		Begin: func(ctx context.Context) (func() call.Fate, string) {
			fate, why := v.s.prefetch(ctx, l, j, func(answer upstream.Answer, err error) {
				defer close(ended)
				rec.land(answer, err)
				v.desk.Done(key, time.Now())
				w.landed(v, l, g, j, answer, err)
			})
			if fate == nil {
				return nil, why
			}
			rec.guess = fate
			w.srv.events.AddWhen(f.event(l, &g, j, now), rec.known)
			return fate.Fate, ""
		},
	})
	if refused != "" {
		return started{}, refused
	}
	if g.Depth > 0 {
		f.chained[key] = true
	}
	v.dollars += g.Model.Cost.Dollars
	return started{Guess: g, j: j, ended: ended}, ""
}

// event is what the record says of a guess that has been begun.
func (f *pairState) event(l *leased, g *forecast.Guess, j *upstreamCall, now time.Time) events.Event {
	e := events.Event{
		Kind: events.Prefetch, At: now, Session: j.number.Session, Seq: j.number.Seq,
		Upstream: l.Name(), Tool: clipped(g.Tool), Class: string(j.class), Host: j.host,
		RawArguments: []byte(g.Arguments), PredictedP: g.P, Predicted: estimate(g.Bytes),
		Edge: g.Edge, Configured: g.Configured,
	}
	if f.round != nil {
		e.After = f.round.after
	}
	return e
}

// landed tells of the answer to a guess, on the goroutine that fetched it: what
// it says may make a further call likely.
func (w *prefetchWorker) landed(v *sessionState, l *leased, g forecast.Guess, j *upstreamCall, answer upstream.Answer, err error) {
	switch {
	case verdict(answer, err).Limited:
		w.scheduler.Harm(j.host, v.desk, speculate.RateLimited, 0)
	case answer.Stateless && revision.InputRequired(answer.Result):
		w.p.bar(v.s, l, g.Tool, "it asked the client when it was run early")
	case answer.Sent && l.member.Spec.URL == "" && diedOf(err):
		w.p.learned.update(l, g.Tool, func(t *learnedTool) { t.crashesServer = true })
		w.srv.log.Warn("server ended while a guess was with it; its tool is not guessed at any more", "upstream", l.Name(), "tool", g.Tool)
	case err == nil && goesOn(answer.Result):
		w.p.bar(v.s, l, g.Tool, "it made a task of a call that was run early")
	}
	var result []byte
	size := len(answer.Result)
	if n := min(size, mostRead); g.Depth == 0 && err == nil && shareable(answer) && w.p.queue.hasRoom(n) {
		result = bytes.Clone(answer.Result[:n])
	}
	w.p.queue.enqueue(len(result), func() { w.onward(v, l, g, j, result, size) })
}

// onward goes on once a guess is back: with what waits for a slot, and what
// follows from its answer, if that is to be looked at.
func (w *prefetchWorker) onward(v *sessionState, l *leased, g forecast.Guess, j *upstreamCall, result []byte, size int) {
	now := time.Now()
	if w.sessions[v.s] != v { // its session has ended
		w.feed(now)
		return
	}
	w.of = v.s
	o := w.upstreamOn(l)
	f := v.on(o)
	delete(f.chained, j.query.Key)
	if result != nil {
		r := read(result, size)
		r.At = now
		follows := f.Suppose(g, r, now)
		w.p.tally.found(len(follows))
		f.offer.Add(follows)
		if f.round != nil {
			f.round.count += len(follows)
		}
	}
	if f.offer.Open() > 0 {
		w.choose(v, o, f, now)
	}
	w.feed(now)
}

// diedOf reports whether a call failed because its server's process ended.
func diedOf(err error) bool {
	_, away := errors.AsType[*upstream.Unavailable](err)
	return away
}

// goesOn reports whether a result says that the call goes on as a task.
func goesOn(result []byte) bool {
	return jsonrpc.Get(result, "task") != nil || string(jsonrpc.Get(result, "resultType")) == `"task"`
}

// prefetch makes a tools/call on a guess: its answer goes into the store, and to
// the client only if that makes the same call. It returns at once, and says why
// if nothing was begun; else landed hears the outcome. The guess lives while ctx
// does, or while a real call waits for it.
func (s *session) prefetch(ctx context.Context, l *leased, j *upstreamCall, landed func(upstream.Answer, error)) (g *dedup.Guess, why string) {
	if s.srv.limits.MayGuess(j.host) != nil {
		return nil, "rate_limited"
	}
	j.arrive(l)
	defer func() {
		if g == nil { // nothing was begun, be it because something panicked
			j.drop()
		}
	}()
	j.query.Use.JoinTimeout = j.joinTimeout
	if s.srv.prefetcher.forbids(s.srv.policy.Load(), l, j) {
		return nil, "not_speculatable"
	}
	g, why = s.srv.store.Prefetch(ctx, j.query, func(ctx context.Context, f *dedup.Flight) {
		s.srv.work.Go(func() {
			answer, err := j.guess(ctx, l, f, jsonrpc.Set(j.params, "_meta", []byte(purposePrefetch)))
			f.Worth(j.worth(l))
			f.Settle(answer.Result, answer.Stateless, err == nil && shareable(answer))
			s.srv.prefetcher.faults.recovering(func() { landed(answer, err) })
		})
	})
	return g, why
}

// forbids reports whether a call may not be made on a guess, whatever it is worth.
// It is asked when guesses are chosen, when one is begun, and once more when it has
// waited for its host, for the rules may have changed.
func (w *prefetcher) forbids(p *policy, l *leased, j *upstreamCall) bool {
	m, learned := w.srv.catalog.model(p, l, j.tool), w.learned.tool(l, j.tool)
	return !j.storable() || !l.Live() || !l.member.allows(j.tool) || learned.barred || learned.crashesServer ||
		m.Speculate == nil || !*m.Speculate || m.Volatile != nil && *m.Volatile ||
		m.Cost.Dollars > p.Enrichment.Dollars && (j.observed != nil || !j.early) || // when it is chosen, what is spent counts too
		j.early && (p.Enrichment.Mode != "on" && p.Enrichment.Mode != "shadow" || !steady(l, m, &j.callClass)) ||
		j.early && j.observed != nil && (p.Enrichment.Mode != "on" || m.Disclosure != valuemodel.SameService && !j.free)
}

// stands reports whether the guess may still be made as it was chosen.
func (j *upstreamCall) stands(l *leased) bool {
	p, w := j.s.srv.policy.Load(), j.s.srv.prefetcher
	now := &upstreamCall{s: j.s, method: j.method, tool: j.tool, params: j.params, observed: j.observed, early: j.early, free: j.free}
	now.callClass = now.classifyCall(p, l, j.s.srv.catalog.model(p, l, j.tool))
	return now.query.Key == j.query.Key && !w.forbids(p, l, now)
}

var errForbidden = errors.New("the call may no longer be made on a guess")

// joined reports whether somebody has asked for what was guessed.
func joined(f *dedup.Flight) bool {
	select {
	case <-f.Promoted():
		return true
	default:
		return false
	}
}

// guess asks the upstream behind every real call. It takes no turn: nothing may
// wait for it, and what it could overtake keeps it from being stored.
func (j *upstreamCall) guess(ctx context.Context, l *leased, f *dedup.Flight, params []byte) (upstream.Answer, error) {
	client := j.s.client.facts()
	w := j.s.srv.prefetcher
	j.late = j.s.guessing.begin(l.Instance(), j.tool)
	req := &upstream.Request{
		Method: "tools/call", Params: params, Token: true, Alone: true, Timeout: l.member.Timeout, Notify: f.Notify, Sent: f.Sent,
		Hop: revision.Hop{Version: revision.Latest, Info: client.Info, Capabilities: client.Capabilities},
		Ask: func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) {
			f.Taint()
			w.bar(j.s, l, j.tool, "it asked the client when it was run early")
			return nil, cannotBeAsked("a prefetch")
		},
	}
	done := make(chan outcome, 1)
	j.sendPaced(ctx, l, upstream.Turn{}, req, func(ctx context.Context, wait bool) (*limit.Slot, error) {
		if !wait {
			return nil, nil
		}
		slot, err := j.s.srv.limits.Guess(ctx, j.host, f.Promoted())
		if err != nil {
			return nil, err
		}
		stands := false
		w.faults.recovering(func() { stands = joined(f) || j.stands(l) })
		if !stands {
			slot.Leave(notSent)
			return nil, errForbidden
		}
		if joined(f) {
			req.Params = j.params // a client has made the call meanwhile
		}
		return slot, nil
	}, func(o outcome) { done <- o })
	o := <-done
	answer, err := o.answer, o.err
	if err != nil && answer.Sent && l.Live() {
		time.AfterFunc(aWhile, j.late) // its server may still be at it
	} else {
		j.late()
	}
	return answer, err
}
