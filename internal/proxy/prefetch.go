package proxy

import (
	"bytes"
	"context"
	"errors"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/forecast"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
)

// purposePrefetch is said in the _meta of a request that no client made.
const purposePrefetch = `{"mcpschedd/purpose":"prefetch"}`

// guessed is a call that nobody has made.
func guessed(s *session, tool string, arguments []byte) *job {
	params := jsonrpc.Set(jsonrpc.Set(nil, "name", jsonrpc.AppendString(nil, tool)), "arguments", arguments)
	return &job{s: s, method: "tools/call", tool: tool, params: params}
}

// started is a guess that has been begun.
type started struct {
	forecast.Guess
	j     *job
	ended <-chan struct{} // closed when its answer is there, or will not be
}

// start begins a guess that was chosen. It ends with its session, unless a real
// call waits for it.
func (w *foresight) start(v *watched, o *outlook, f *side, g forecast.Guess, j *job, now time.Time) (started, bool) {
	l, key, id := o.at, j.query.Key, w.ids.Add(1)
	ended := make(chan struct{})
	refused := v.desk.Start(v.s.ctx, now, speculate.Guess{
		Key: key, Host: j.hostOn(l), P: g.P,
		Begin: func(ctx context.Context) (func() call.Fate, string) {
			j.id, j.early, j.chosen = id, true, g.Model
			w.overdue.Store(key, time.Now().Add(slowest(&g)))
			fate, why := v.s.prefetch(ctx, l, j, func(answer upstream.Answer, err error) {
				defer close(ended)
				w.overdue.Delete(key)
				v.desk.Done(key, time.Now())
				w.landed(v, l, g, j, answer, err)
			})
			if fate == nil {
				w.overdue.Delete(key)
				return nil, why
			}
			return fate.Fate, ""
		},
	})
	if refused != "" {
		w.tally.decline(enrich.Reason(refused))
		return started{}, false
	}
	if g.Depth > 0 {
		f.chained[key] = true
	}
	v.dollars += g.Model.Cost.Dollars
	return started{Guess: g, j: j, ended: ended}, true
}

// landed tells of the answer to a guess, on the goroutine that fetched it: what
// it says may make a further call likely.
func (w *foresight) landed(v *watched, l *leased, g forecast.Guess, j *job, answer upstream.Answer, err error) {
	switch {
	case verdict(answer, err).Limited:
		w.desk.Harm(j.hostOn(l), v.desk, speculate.RateLimited, 0)
	case answer.Stateless && revision.InputRequired(answer.Result):
		w.bar(v.s, l, g.Tool, "it asked the client when it was run early")
	case err == nil && goesOn(answer):
		w.bar(v.s, l, g.Tool, "it made a task of a call that was run early")
	}
	var result []byte
	size := len(answer.Result)
	if n := min(size, mostRead); g.Depth == 0 && err == nil && shareable(answer) && w.room(n) {
		result = bytes.Clone(answer.Result[:n])
	}
	w.tell(len(result), func(w *foresight) { w.onward(v, l, g, j, result, size) })
}

// onward goes on once a guess is back: with what waits for a slot, and what
// follows from its answer, if that is to be looked at.
func (w *foresight) onward(v *watched, l *leased, g forecast.Guess, j *job, result []byte, size int) {
	if w.watched[v.s] != v {
		return // its session has ended
	}
	o, now := w.outlookOn(l), time.Now()
	f := v.on(o)
	delete(f.chained, j.query.Key)
	if result != nil {
		r := read(result, size)
		r.At = now
		follows := f.Suppose(g, r, now)
		w.tally.found(len(follows))
		f.offer.Add(follows)
	}
	if f.offer.Open() > 0 {
		w.choose(v, o, f, now)
	}
}

// goesOn reports whether the answer says that the call goes on as a task.
func goesOn(answer upstream.Answer) bool {
	return jsonrpc.Get(answer.Result, "task") != nil || string(jsonrpc.Get(answer.Result, "resultType")) == `"task"`
}

// prefetch makes a tools/call on a guess: its answer goes into the store, and to
// the client only if that makes the same call. It returns at once, and says why
// if nothing was begun; else landed hears the outcome. The guess lives while ctx
// does, or while a real call waits for it.
func (s *session) prefetch(ctx context.Context, l *leased, j *job, landed func(upstream.Answer, error)) (g *dedup.Guess, why string) {
	p := s.srv.policy.Load()
	m := s.srv.model(p, l, j.tool)
	switch {
	case !l.Live() || !l.member.allows(j.tool),
		m.Speculate == nil || !*m.Speculate,
		m.Cost.Dollars > p.Enrichment.Dollars:
		return nil, "not_speculatable"
	}
	if s.srv.limits.MayGuess(j.hostOn(l)) != nil {
		return nil, "rate_limited"
	}
	j.arrive([]*leased{l})
	if !j.storable() {
		j.drop()
		return nil, "not_speculatable"
	}
	g, why = s.srv.store.Prefetch(ctx, j.query, func(ctx context.Context, f *dedup.Flight) {
		s.srv.work.Go(func() {
			answer, err := j.guess(ctx, l, f, jsonrpc.Set(j.params, "_meta", []byte(purposePrefetch)))
			f.Settle(answer.Result, answer.Stateless, err == nil && shareable(answer))
			landed(answer, err)
		})
	})
	if g == nil {
		j.drop()
	}
	return g, why
}

var errForbidden = errors.New("the call may no longer be made on a guess")

// stands reports whether the guess may still be made as it was chosen. Its rules
// may have changed while it waited for its host.
func (j *job) stands(l *leased) bool {
	p := j.s.srv.policy.Load()
	return j.chosen == nil || p.Enrichment.Mode == "on" && j.s.srv.model(p, l, j.tool) == j.chosen
}

// asked reports whether somebody has asked for what was guessed.
func asked(f *dedup.Flight) bool {
	select {
	case <-f.Promoted():
		return true
	default:
		return false
	}
}

// guess asks the upstream behind every real call. It takes no turn: nothing may
// wait for it, and what it could overtake keeps it from being stored.
func (j *job) guess(ctx context.Context, l *leased, f *dedup.Flight, params []byte) (upstream.Answer, error) {
	j.s.mu.Lock()
	client := j.s.client
	j.s.mu.Unlock()
	defer j.s.guessing.begin(l.Instance(), j.tool)()
	req := &upstream.Request{
		Method: "tools/call", Params: params, Token: true, Timeout: l.member.Timeout, Notify: f.Notify,
		Hop: revision.Hop{Version: revision.Latest, Info: client.Info, Capabilities: client.Capabilities},
		Ask: func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) {
			f.Taint()
			j.s.srv.foresight.bar(j.s, l, j.tool, "it asked the client when it was run early")
			return nil, cannotBeAsked("a prefetch")
		},
	}
	return j.paced(ctx, l, upstream.Turn{}, req, func(ctx context.Context) (*limit.Slot, error) {
		slot, err := j.s.srv.limits.Guess(ctx, j.hostOn(l), f.Promoted())
		if err != nil {
			return nil, err
		}
		if asked(f) {
			req.Params = j.params // a client has made the call meanwhile
		} else if !j.stands(l) {
			slot.Leave(notSent)
			return nil, errForbidden
		}
		f.Sent()
		return slot, nil
	})
}
