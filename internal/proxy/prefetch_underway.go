package proxy

import (
	"slices"
	"sync"
)

// prefetches are the prefetches of one lease that are with its upstream, or may be: a
// server over stdio does not say which call a question or a log message of its is about.
type prefetches struct {
	mu  sync.Mutex
	all []*underwayPrefetch
}

// underwayPrefetch is one of them.
type underwayPrefetch struct {
	tool  string
	asked func(certain bool) // is to hear that its server asks the client something
}

// add notes a prefetch until the function it returns is called.
func (p *prefetches) add(tool string, asked func(certain bool)) (remove func()) {
	one := &underwayPrefetch{tool, asked}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, one)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all = slices.DeleteFunc(p.all, func(o *underwayPrefetch) bool { return o == one })
	}
}

// oneOfEach returns one prefetch of each tool that has some.
func (p *prefetches) oneOfEach() (one []*underwayPrefetch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.all {
		if !slices.ContainsFunc(one, func(o *underwayPrefetch) bool { return o.tool == c.tool }) {
			one = append(one, c)
		}
	}
	return one
}

// asksForPrefetch reports whether a question that its transport ties to no request can
// only be about a prefetch. It is not passed on then, and the tool is not prefetched
// any more. A question for the roots is about the session, not about a call.
func (s *session) asksForPrefetch(l *leased, method string) bool {
	there := l.prefetches.oneOfEach()
	if len(there) == 0 || method == "roots/list" {
		return false
	}
	if s.asking(l) { // it may be about the client's own call; the store drops the prefetches
		there[0].asked(false)
		return false
	}
	for _, c := range there {
		c.asked(true)
	}
	return true
}

// asks hears that a server asks its client something, of which its transport does not
// say what it is about: no answer under way there may be another client's. Of a server
// that several sessions share no client is asked; if only prefetches are with it, it is
// about one of those.
func (s *Server) asks(instance uint64, method string) {
	s.store.Taint(instance)
	prefetching := make(map[*session]*leased)
	for _, n := range s.sessions.all() {
		l := n.leases.on(instance)
		if l == nil {
			continue
		}
		if !l.Shared() || method == "roots/list" || n.asking(l) {
			return
		}
		prefetching[n] = l
	}
	for n, l := range prefetching {
		n.asksForPrefetch(l, method)
	}
}

// asking reports whether the session has a call of its own with that upstream, be it that
// the client fetches replies for it.
func (s *session) asking(l *leased) bool {
	return len(s.requests.at(l, true)) > 0 || len(s.suspended.at(l.Lease)) > 0
}
