package speculate

import (
	"bytes"
	"context"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// pairState is what a session has with one upstream. It is the world of its chooser.
type pairState struct {
	w         *Worker
	session   *sessionState
	of        *upstreamState
	at        *Upstream // as of its last call
	predict   *predict.Session
	choose    Chooser // what its last answer made likely
	trace     Trace   // of the call whose answer came last
	decisions decisions
	begun     []Started // by the choice that is being made
}

// offer finds what comes next, and begins what is worth it.
func (p *pairState) offer(now time.Time, after int64) []Started {
	rules := p.w.Rules()
	found := p.predict.Guesses(now)
	p.w.figures.found(len(found))
	p.choose.Reprice(now, found, rules.MinProbability)
	p.choose.Offer(now, found, rules.Budget, p)
	p.decisions.begin(
		Decision{At: now, Session: p.session.client.Name, Upstream: p.at.Name, After: after, Candidates: len(found)},
		now.Add(rules.Age(p.at.Exclusive)), rules.Pick(),
	)
	return p.decide(now)
}

// decide picks from what the last answer made likely, and begins it. What only lacks a slot
// waits for the next prefetch of the session to end.
func (p *pairState) decide(now time.Time) []Started {
	w, s, rules := p.w, p.session, p.w.Rules()
	w.current = s.client
	if rules.Off() {
		p.choose.DropWaiting(p)
		return nil
	}
	host := p.at.Host()
	w.Scheduler.Waited(host, w.Waited(host))
	s.slots.Review(now)
	o := ChooseOptions{Options: rules.Pick(), Host: host, Shadow: rules.Mode == "shadow", Keep: rules.Age(p.at.Exclusive)}
	o.Keywords, o.Dollars = s.intentWords(), rules.Dollars-s.dollars
	p.begun = nil
	p.decisions.slots(p.choose.Choose(now, o, p))
	return p.begun
}

// MayPrefetch says what stands in the way of a candidate at this moment: its tool may have
// been barred since it was found, or its model or schema may have changed.
func (p *pairState) MayPrefetch(c *predict.Candidate) Verdict {
	if why := p.predict.Again(c); why != "" && why != enrich.Shadow {
		return Verdict{Reason: why}
	}
	return p.at.MayPrefetch(c)
}

// Declined counts a candidate that is given up.
func (p *pairState) Declined(c *predict.Candidate, why enrich.Reason) {
	p.w.figures.decline(why)
	p.decisions.consider(c, why, nil)
}

// Begin begins a prefetch, or says why not. It ends with its session, unless a call of a
// client waits for it.
func (p *pairState) Begin(c *predict.Candidate, v *Verdict) (refused string) {
	w, s, up, key := p.w, p.session, p.at, v.Query.Key
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
	if up.Tool(c.Key.Tool).Hearsay && !w.Tool(up.Key, c.Key.Tool).Proven {
		w.upstreams.save(p.of) // another process may have tried it meanwhile: then this is no trial any more
	}
	s.dollars += c.Model.Cost.Dollars
	p.decisions.consider(c, "", begun)
	p.begun = append(p.begun, Started{Candidate: g, Query: v.Query, Ended: ended})
	return ""
}

// joinTimeout is how long a call waits for a prefetch: what nine calls of ten take, and
// some more, as far as that is known.
func joinTimeout(g *predict.Candidate) time.Duration {
	if p90 := g.Latency.P90; p90 > 0 {
		return p90 + p90/4 + 100*time.Millisecond
	}
	return 4 * g.Model.Cost.Latency
}

// landed notes what came of a prefetch, on the goroutine that fetched it: what its
// answer says may make a further call likely.
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
		w.Log.Warn("server ended while a prefetch was with it; its tool is not prefetched any more", "upstream", up.Name, "tool", g.Key.Tool)
	}
	s.slots.Done(v.Query.Key) // after that: what waits for its slot may be of the same tool
	var result []byte
	size := len(l.Body)
	if n := min(size, maxRead); g.Why.Depth == 0 && l.Good && w.queue.hasRoom(n) {
		result = bytes.Clone(l.Body[:n])
	}
	w.queue.add(task{bytes: len(result), do: func() { w.resume(s, up, g, result, size) }})
}

// asked notes that the server of a prefetch asks the client something, on any goroutine.
// Where that may be about another call, it is held against the session alone.
func (w *Worker) clientRequested(s *sessionState, up *Upstream, tool string, certain bool) {
	if certain {
		w.bar(s, up, tool, "its prefetch asked the client a question")
		return
	}
	w.queue.add(task{required: true, do: func() { w.harm(s, up.Host(), Question, 0) }})
}

// bar sees to it that a tool is never run early again, on any goroutine: from now on, as what waits
// for a place may be sent at any moment.
func (w *Worker) bar(s *sessionState, up *Upstream, tool, why string) {
	w.upstreams.tools.update(up.Key, tool, func(t *ToolState) { t.Barred = true })
	w.queue.add(task{required: true, do: func() {
		o := w.upstreams.at(up)
		o.model.Bar(tool, why)
		w.upstreams.prove(o, tool)
		w.upstreams.save(o) // at once: it must not be lost
		w.harm(s, up.Host(), Question, 0)
		w.Log.Warn("tool barred from being run early", "upstream", up.Name, "tool", tool, "reason", why)
	}})
}

// onward goes on once a prefetch is back: with what waits for its slot, and what
// follows from its answer, if that is to be looked at.
func (w *Worker) resume(s *sessionState, up *Upstream, g *predict.Candidate, result []byte, size int) {
	now := time.Now()
	if w.sessions[s.client] != s { // its session has ended
		return
	}
	w.current = s.client
	p := w.pair(s, w.upstreams.at(up))
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
