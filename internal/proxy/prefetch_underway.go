package proxy

import (
	"maps"
	"slices"
	"sync"

	"mcpschedd/internal/speculate"
)

// guessing is the guesses of a session that are with their upstreams, for a
// server over stdio does not say which call it asks a question for.
type guessing struct {
	mu    sync.Mutex
	tools map[uint64]map[string]int // upstream instance → tool → guesses
}

// begin notes a guess until the function it returns is called.
func (g *guessing) begin(instance uint64, tool string) (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tools == nil {
		g.tools = make(map[uint64]map[string]int)
	}
	of := g.tools[instance]
	if of == nil {
		of = make(map[string]int)
		g.tools[instance] = of
	}
	of[tool]++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if of[tool]--; of[tool] == 0 {
			delete(of, tool)
		}
		if len(of) == 0 && len(g.tools[instance]) == 0 {
			delete(g.tools, instance)
		}
	})
}

// at returns the tools of the guesses that are with an instance.
func (g *guessing) at(instance uint64) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.tools[instance]))
}

// asksForAGuess reports whether a question that its transport ties to no request
// can only be about a guess. Nobody hears of it then, and the tool is not guessed
// at again. A question for the roots is about the session, not about a call.
func (s *session) asksForAGuess(l *leased, method string) bool {
	tools := s.guessing.at(l.Instance())
	if len(tools) == 0 || method == "roots/list" {
		return false
	}
	w := s.srv.prefetcher
	if s.asking(l) {
		// It may be about the real call. The store drops the guesses; whose question
		// it was nobody can say.
		w.queue.enqueueAlways(func() { w.scheduler.Harm(w.worker.hostOf(l), w.worker.deskOf(s), speculate.Question, 0) })
		return false
	}
	for _, tool := range tools {
		w.bar(s, l, tool, "it asked the client when it was run early")
	}
	return true
}

// asks hears that a server asks its client something, of which its transport does
// not say what it is about: no answer under way there may be another's. Of a server
// that several sessions share nobody is asked; if only guesses are with it, it is
// about one of those.
func (s *Server) asks(instance uint64, method string) {
	s.store.Taint(instance)
	sessions := s.sessions.all()
	var guessing []*session
	for _, n := range sessions {
		l := n.leases.on(instance)
		if l == nil {
			continue
		}
		if !l.Shared() || method == "roots/list" || n.asking(l) {
			return
		}
		if len(n.guessing.at(instance)) > 0 {
			guessing = append(guessing, n)
		}
	}
	for _, n := range guessing {
		n.asksForAGuess(n.leases.on(instance), method)
	}
}

// asking reports whether the session has a request of its own with that upstream.
func (s *session) asking(l *leased) bool {
	return slices.ContainsFunc(s.requests.at(l), func(x *request) bool { return !x.back.Load() })
}

// bar sees to it that a tool is never run early again.
func (p *prefetcher) bar(s *session, l *leased, tool, why string) {
	w := p.worker
	p.queue.enqueueAlways(func() {
		o := w.upstreamOn(l)
		o.forecast.Bar(tool, why)
		w.prove(o, tool)
		w.keepOne(l.member.known, o) // at once: it must not be lost
		w.scheduler.Harm(w.hostOf(l), w.deskOf(s), speculate.Question, 0)
		w.srv.log.Warn("tool barred from being run early", "upstream", l.Name(), "tool", tool, "reason", why)
	})
}

// hostOf is the host of an upstream's calls in general.
func (w *prefetchWorker) hostOf(l *leased) string {
	return w.srv.catalog.model(w.srv.policy.Load(), l, "").Host
}

// deskOf is the throttle of a session; nil if it has ended.
func (w *prefetchWorker) deskOf(s *session) *speculate.Session {
	if v := w.sessions[s]; v != nil {
		return v.desk
	}
	return nil
}
