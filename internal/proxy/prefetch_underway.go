package proxy

import (
	"slices"
	"sync"
)

// underway are the prefetches that are with their servers, or may be: a server over
// stdio does not say which call a question or a log message of its is about.
type underway struct {
	mu sync.Mutex
	at map[uint64][]*underwayPrefetch // upstream instance → the prefetches there
}

// underwayPrefetch is one of them.
type underwayPrefetch struct {
	session *observedSession
	tool    string
	asked   func(certain bool) // is to hear that its server asks the client something
}

// add notes a prefetch until the function it returns is called.
func (u *underway) add(instance uint64, s *observedSession, tool string, asked func(certain bool)) (remove func()) {
	f := &underwayPrefetch{s, tool, asked}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.at == nil {
		u.at = make(map[uint64][]*underwayPrefetch)
	}
	u.at[instance] = append(u.at[instance], f)
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.removeLocked(instance, func(o *underwayPrefetch) bool { return o == f })
	}
}

// drop forgets those of a session that has ended: nothing can be about them any more.
func (u *underway) drop(s *observedSession) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for instance := range u.at {
		u.removeLocked(instance, func(f *underwayPrefetch) bool { return f.session == s })
	}
}

func (u *underway) removeLocked(instance uint64, which func(*underwayPrefetch) bool) {
	left := slices.DeleteFunc(u.at[instance], which)
	if len(left) == 0 {
		delete(u.at, instance)
	} else {
		u.at[instance] = left
	}
}

// of returns one prefetch of a session for each tool that has some at an instance.
func (u *underway) of(instance uint64, s *observedSession) (one []*underwayPrefetch) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, f := range u.at[instance] {
		if f.session == s && !slices.ContainsFunc(one, func(o *underwayPrefetch) bool { return o.tool == f.tool }) {
			one = append(one, f)
		}
	}
	return one
}

// count is how many there are.
func (u *underway) count() (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, all := range u.at {
		n += len(all)
	}
	return n
}

// asksForPrefetch reports whether a question that its transport ties to no request can
// only be about a prefetch. It is not passed on then, and the tool is not prefetched
// any more. A question for the roots is about the session, not about a call.
func (s *session) asksForPrefetch(l *leased, method string) bool {
	there := s.srv.underway.of(l.Instance(), s.observed)
	if len(there) == 0 || method == "roots/list" {
		return false
	}
	if s.asking(l) { // it may be about the client's own call; the store drops the prefetches
		there[0].asked(false)
		return false
	}
	for _, f := range there {
		f.asked(true)
	}
	return true
}

// asks hears that a server asks its client something, of which its transport does not
// say what it is about: no answer under way there may be another client's. Of a server
// that several sessions share no client is asked; if only prefetches are with it, it is
// about one of those.
func (s *Server) asks(instance uint64, method string) {
	s.store.Taint(instance)
	sessions := s.sessions.all()
	var prefetching []*session
	for _, n := range sessions {
		l := n.leases.on(instance)
		if l == nil {
			continue
		}
		if !l.Shared() || method == "roots/list" || n.asking(l) {
			return
		}
		if len(s.underway.of(instance, n.observed)) > 0 {
			prefetching = append(prefetching, n)
		}
	}
	for _, n := range prefetching {
		n.asksForPrefetch(n.leases.on(instance), method)
	}
}

// asking reports whether the session has a request of its own with that upstream.
func (s *session) asking(l *leased) bool { return len(s.requests.at(l, true)) > 0 }
