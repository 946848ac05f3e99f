package speculate

import (
	"bytes"
	"context"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// pairState is the state of a session with one upstream. It is the Environment of its chooser.
type pairState struct {
	w         *Worker
	session   *sessionState
	upstream  *upstreamState
	lease     *Upstream // at its last call
	predict   *predict.Session
	choose    Chooser // candidates after its last answer
	trace     Trace   // of the last answered call
	decisions decisions
	begun     []Started // by the choice in progress
}

// offer predicts the next calls, and begins the prefetches that are worth it.
func (p *pairState) offer(now time.Time, after int64) []Started {
	rules := p.w.Rules()
	found := p.predict.Candidates(now)
	p.w.figures.found(len(found))
	p.choose.Reprice(now, found, rules.MinProbability)
	p.choose.Offer(now, found, rules.Budget, p)
	p.decisions.begin(
		Decision{At: now, Session: p.session.client.Name, Upstream: p.lease.Name, After: after, Candidates: len(found)},
		now.Add(rules.Age(p.lease.Exclusive)), rules.Pick(),
	)
	return p.decide(now)
}

// decide chooses from the waiting candidates and begins them. Candidates that lack only a slot wait
// until the session's next prefetch has returned.
func (p *pairState) decide(now time.Time) []Started {
	w, s, rules := p.w, p.session, p.w.Rules()
	w.current = s.client
	if rules.Off() {
		p.choose.DropWaiting(p)
		return nil
	}
	host := p.lease.Host()
	w.Scheduler.Waited(host, w.Waited(host))
	s.slots.Review(now)
	o := ChooseOptions{Options: rules.Pick(), Host: host, Shadow: rules.Mode == "shadow", Keep: rules.Age(p.lease.Exclusive)}
	o.Keywords, o.Dollars = s.intentWords(), rules.Dollars-s.dollars
	p.begun = nil
	p.decisions.slots(p.choose.Choose(now, o, p))
	return p.begun
}

// MayPrefetch returns the reason why a candidate must not be prefetched now, if any. Its tool may
// have been barred since it was predicted, or its model or schema may have changed.
func (p *pairState) MayPrefetch(c *predict.Candidate) Verdict {
	if why := p.predict.Recheck(c); why != "" && why != enrich.Shadow {
		return Verdict{Reason: why}
	}
	return p.lease.MayPrefetch(c)
}

// Declined counts a candidate that is dropped.
func (p *pairState) Declined(c *predict.Candidate, why enrich.Reason) {
	p.w.figures.decline(why)
	p.decisions.consider(c, why, nil)
}

// Begin begins a prefetch, or returns why not. The prefetch ends with its session, unless a call has
// joined it.
func (p *pairState) Begin(c *predict.Candidate, v *Verdict) (refused string) {
	w, s, up, key := p.w, p.session, p.lease, v.Query.Key
	g := *c
	ended := make(chan struct{})
	fetch := &Fetch{
		Candidate: &g, JoinTimeout: joinTimeout(c), Trace: p.trace, After: p.decisions.after(),
		Call:          &Call{ID: w.ids.Add(1), Client: s.client, Upstream: up, Tool: c.Key.Tool, Host: v.Host, Prefetch: true},
		ClientRequest: func(certain bool) { w.clientRequested(s, up, c.Key.Tool, certain) },
	}
	var begun *Begun
	fetch.Done = func(l FetchResult) {
		defer close(ended)
		w.fetched(s, up, &g, v, l)
	}
	refused = s.slots.Start(s.client.Context, Prefetch{
		Key: key, Host: v.Host, Chained: c.Why.Depth > 0,
		Begin: func(ctx context.Context) (fate func() call.Fate, why string) {
			if begun, why = up.Fetch(ctx, fetch); begun == nil {
				return nil, why
			}
			return begun.Fate, ""
		},
	})
	if refused != "" {
		return refused
	}
	if up.Tool(c.Key.Tool).UntrustedHint && !w.Tool(up.Key, c.Key.Tool).Proven {
		w.upstreams.save(p.upstream) // another process may have compared it meanwhile, which makes this prefetch an ordinary one
	}
	s.dollars += c.Model.Cost.Dollars
	p.decisions.consider(c, "", begun)
	p.begun = append(p.begun, Started{Candidate: g, Query: v.Query, Ended: ended})
	return ""
}

// joinTimeout is how long a call waits for a prefetch: the 90th percentile of its latency and a
// margin, or four times the configured latency.
func joinTimeout(g *predict.Candidate) time.Duration {
	if p90 := g.Latency.P90; p90 > 0 {
		return p90 + p90/4 + 100*time.Millisecond
	}
	return 4 * g.Model.Cost.Latency
}

// fetched handles the result of a prefetch, on the goroutine that fetched it. The answer may lead to
// a follow-up prefetch.
func (w *Worker) fetched(s *sessionState, up *Upstream, g *predict.Candidate, v *Verdict, l FetchResult) {
	if l.Displaced {
		w.harm(s, v.Host, Eviction, 0)
	}
	switch {
	case l.Limited:
		w.harm(s, v.Host, RateLimited, 0)
	case l.Bar != "":
		w.bar(s, up, g.Key.Tool, l.Bar)
	case l.Crashed:
		w.upstreams.tools.update(up.Key, g.Key.Tool, func(t *ToolState) { t.CrashesServer = true })
		w.Log.Warn("server ended during a prefetch; the tool is not prefetched any more", "upstream", up.Name, "tool", g.Key.Tool)
	}
	s.slots.Done(v.Query.Key) // after the bar, as a candidate waiting for the slot may be of the same tool
	var result []byte
	size := len(l.Body)
	if n := min(size, maxRead); g.Why.Depth == 0 && l.Good && w.queue.hasRoom(n) {
		result = bytes.Clone(l.Body[:n])
	}
	w.queue.add(task{bytes: len(result), do: func() { w.resume(s, up, g, result, size) }})
}

// clientRequested records that the server of a prefetch sent the client a request, on any goroutine.
// If the request may belong to another call, only the session loses a level.
func (w *Worker) clientRequested(s *sessionState, up *Upstream, tool string, certain bool) {
	if certain {
		w.bar(s, up, tool, "its prefetch asked the client a question")
		return
	}
	w.queue.add(task{required: true, do: func() { w.harm(s, up.Host(), Question, 0) }})
}

// bar bars a tool from prefetching, on any goroutine. It takes effect at once, as waiting candidates
// may be sent at any moment.
func (w *Worker) bar(s *sessionState, up *Upstream, tool, why string) {
	w.upstreams.tools.update(up.Key, tool, func(t *ToolState) { t.Barred = true })
	w.queue.add(task{required: true, do: func() {
		o := w.upstreams.state(up)
		o.model.Bar(tool, why)
		w.upstreams.prove(o, tool)
		w.upstreams.save(o) // at once, so that it is not lost
		w.harm(s, up.Host(), Question, 0)
		w.Log.Warn("tool barred from prefetching", "upstream", up.Name, "tool", tool, "reason", why)
	}})
}

// resume continues after a prefetch has returned: with the candidates that wait for its slot, and
// the follow-ups of its answer.
func (w *Worker) resume(s *sessionState, up *Upstream, g *predict.Candidate, result []byte, size int) {
	now := time.Now()
	if w.sessions[s.client] != s { // the session has ended
		return
	}
	w.current = s.client
	p := w.pair(s, w.upstreams.state(up))
	if result != nil {
		r := read(result, size)
		r.At = now
		follows := p.predict.Suppose(*g, r, now)
		w.figures.found(len(follows))
		p.choose.Add(follows)
		p.decisions.found(len(follows))
	}
	if p.choose.Open() > 0 {
		p.decide(now)
	}
}
