package proxy

import (
	"bytes"
	"context"
	"errors"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/events"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
)

// joinTimeout is how long a call waits for a prefetch: what nine calls of ten take, and
// some more, as far as that is known.
func joinTimeout(g *predict.Candidate) time.Duration {
	if p90 := g.Latency.P90; p90 > 0 {
		return p90 + p90/4 + 100*time.Millisecond
	}
	return 4 * g.Model.Cost.Latency
}

// started is a prefetch that has been begun.
type started struct {
	predict.Candidate
	query  dedup.Query
	timing *timing
	ended  <-chan struct{} // closed when its answer is there, or will not be
}

// start begins a prefetch that was chosen, or says why not. It ends with its session,
// unless a call of a client waits for it.
func (w *prefetchWorker) start(v *sessionState, o *upstreamState, f *pairState, g predict.Candidate, class *callClass, now time.Time) (s started, refused string) {
	l, key := o.at, class.query.Key
	c := newCandidate(o.at, &g)
	facts := &callFacts{id: w.p.ids.Add(1), session: v.s, lease: l, tool: g.Key.Tool, class: class.kind, host: class.host, early: true}
	s = started{Candidate: g, query: class.query}
	ended, entry := make(chan struct{}), &prefetchEntry{}
	s.ended = ended
	hooks := prefetchHooks{
		asked: func(certain bool) { w.asked(v, l, g.Key.Tool, certain) },
		landed: func(answer upstream.Answer, err error) {
			defer close(ended)
			entry.land(answer, err)
			v.desk.Done(key, time.Now())
			w.landed(v, l, g, class, answer, err)
		},
	}
	refused = v.desk.Start(v.s.ctx, now, speculate.Guess{
		Key: key, Host: class.host, P: g.P,
		Begin: func(ctx context.Context) (func() call.Fate, string) {
			begun, why := v.s.fetch(ctx, c, v.s.next(), facts, hooks)
			if begun == nil {
				return nil, why
			}
			s.timing, entry.prefetch = &begun.record.timing, begun
			w.srv.recorder.log.AddWhen(f.event(l, &g, begun, now), entry.known)
			return begun.guess.Fate, ""
		},
	})
	if refused != "" {
		return started{}, refused
	}
	if g.Why.Depth > 0 {
		f.chained[key] = true
	}
	v.dollars += g.Model.Cost.Dollars
	return s, ""
}

// newCandidate is a guess as a call that could be made.
func newCandidate(l *leased, g *predict.Candidate) *candidate {
	return &candidate{lease: l, tool: g.Key.Tool, arguments: []byte(g.Key.Arguments), free: g.Why.Free, joinTimeout: joinTimeout(g)}
}

// event is what the record says of a prefetch that has been begun.
func (f *pairState) event(l *leased, g *predict.Candidate, begun *prefetch, now time.Time) events.Event {
	e := events.Event{
		Kind: events.Prefetch, At: now, Session: begun.record.number.Session, Seq: begun.record.number.Seq,
		Upstream: l.Name(), Tool: clipped(g.Key.Tool), Class: string(begun.class.kind), Host: begun.class.host,
		RawArguments: []byte(g.Key.Arguments), PredictedP: g.P, Predicted: estimate(g.Bytes),
		Edge: g.Why.Edge, Configured: g.Why.Configured,
	}
	if f.round != nil {
		e.After = f.round.after
	}
	return e
}

// landed notes what came of a prefetch, on the goroutine that fetched it: what its
// answer says may make a further call likely.
func (w *prefetchWorker) landed(v *sessionState, l *leased, g predict.Candidate, class *callClass, answer upstream.Answer, err error) {
	switch {
	case verdict(answer, err).Limited:
		w.scheduler.Harm(class.host, v.desk, speculate.RateLimited, 0)
	case answer.Stateless && revision.InputRequired(answer.Result):
		w.bar(v, l, g.Key.Tool, "it asked the client when it was run early")
	case answer.Sent && l.member.Spec.URL == "" && diedOf(err):
		w.p.learned.update(l, g.Key.Tool, func(t *learnedTool) { t.crashesServer = true })
		w.srv.log.Warn("server ended while a prefetch was with it; its tool is not prefetched any more", "upstream", l.Name(), "tool", g.Key.Tool)
	case err == nil && goesOn(answer.Result):
		w.bar(v, l, g.Key.Tool, "it made a task of a call that was run early")
	}
	var result []byte
	size := len(answer.Result)
	if n := min(size, mostRead); g.Why.Depth == 0 && err == nil && shareable(answer) && w.p.queue.hasRoom(n) {
		result = bytes.Clone(answer.Result[:n])
	}
	w.p.queue.enqueue(len(result), func() { w.onward(v, l, g, class, result, size) })
}

// asked notes that the server of a prefetch asks the client something, on any goroutine.
// Where that may be about another call, it is held against the session alone.
func (w *prefetchWorker) asked(v *sessionState, l *leased, tool string, certain bool) {
	if certain {
		w.bar(v, l, tool, "it asked the client when it was run early")
		return
	}
	w.p.queue.enqueueAlways(func() { w.scheduler.Harm(w.hostOf(l), v.desk, speculate.Question, 0) })
}

// bar sees to it that a tool is never run early again, on any goroutine.
func (w *prefetchWorker) bar(v *sessionState, l *leased, tool, why string) {
	w.p.queue.enqueueAlways(func() {
		o := w.upstreamOn(l)
		o.forecast.Bar(tool, why)
		w.prove(o, tool)
		w.keepOne(l.member.key, o) // at once: it must not be lost
		w.scheduler.Harm(w.hostOf(l), v.desk, speculate.Question, 0)
		w.srv.log.Warn("tool barred from being run early", "upstream", l.Name(), "tool", tool, "reason", why)
	})
}

// hostOf is the host of an upstream's calls in general.
func (w *prefetchWorker) hostOf(l *leased) string {
	return w.srv.catalog.model(w.srv.policy.Load(), l, "").Host
}

// onward goes on once a prefetch is back: with what waits for a slot, and what
// follows from its answer, if that is to be looked at.
func (w *prefetchWorker) onward(v *sessionState, l *leased, g predict.Candidate, class *callClass, result []byte, size int) {
	now := time.Now()
	if w.sessions[v.s] != v { // its session has ended
		w.wake(now)
		return
	}
	w.of = v.s
	o := w.upstreamOn(l)
	f := v.on(o)
	delete(f.chained, class.query.Key)
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
	w.wake(now)
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
