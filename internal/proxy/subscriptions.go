package proxy

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"mcpschedd/internal/upstream"
)

// subscriptions owns what the client of a session subscribed to beside its requests: the
// listen requests that are open, and, in the handshake era, resources of the proxy's own.
// The upstreams' resources that it subscribed to in that era are kept with the leases.
type subscriptions struct {
	watchers *atomic.Int64 // statsNotices.watchers

	changing sync.Mutex // held while the upstreams are told what to watch

	mu     sync.Mutex
	closed bool
	open   map[*listening]struct{}
	own    map[string]bool // resources of the proxy's own
}

// listening is an open subscriptions/listen request of a stateless client.
type listening struct {
	x       *request
	seen    snapshot // the lists it asked for, as it last knew them; guarded by shownLists.mu
	uris    []string // resources of upstreams that it asked for
	own     []string // those of the proxy's own
	watches []watch  // what the upstreams were asked to watch for it; guarded by subscriptions.changing
}

// watch is one resource that one upstream watches.
type watch struct {
	lease *leased
	uri   string
}

// add notes an open listen request.
func (s *subscriptions) add(l *listening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[*listening]struct{})
	}
	s.open[l] = struct{}{}
	s.watchers.Add(int64(len(l.own)))
}

// remove forgets a listen request.
func (s *subscriptions) remove(l *listening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, l)
	s.watchers.Add(-int64(len(l.own)))
}

// listeners are the listen requests that are open.
func (s *subscriptions) listeners() []*listening {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.open))
}

// watchOwn notes that the client wants to be told of changes of a resource of the
// proxy's own. One that never changes by itself is left out.
func (s *subscriptions) watchOwn(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.own[uri] || uri != statsURI && uri != summaryURI {
		return
	}
	if s.own == nil {
		s.own = make(map[string]bool)
	}
	s.own[uri] = true
	s.watchers.Add(1)
}

// unwatchOwn notes that it no longer does.
func (s *subscriptions) unwatchOwn(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own[uri] {
		delete(s.own, uri)
		s.watchers.Add(-1)
	}
}

// watchersOfOwn are the listen requests that asked for a resource of the proxy's own, and
// whether the client subscribed to it.
func (s *subscriptions) watchersOfOwn(uri string) (streams []*listening, client bool) {
	streams = slices.DeleteFunc(s.listeners(), func(l *listening) bool { return !slices.Contains(l.own, uri) })
	s.mu.Lock()
	defer s.mu.Unlock()
	return streams, s.own[uri]
}

// close forgets what the client subscribed to of the proxy's own. Listen requests end by
// themselves.
func (s *subscriptions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.watchers.Add(-int64(len(s.own)))
	clear(s.own)
}

// watch asks the upstreams that may hold the resources of a listen request to watch them.
func (s *subscriptions) watch(l *listening, offers []offered) {
	s.changing.Lock()
	defer s.changing.Unlock()
	for _, uri := range l.uris {
		for _, lease := range holders(offers, uri) {
			lease.Watch(uri)
			l.watches = append(l.watches, watch{lease, uri})
		}
	}
}

// unwatch ends that, for a listen request that has been removed, where no other asked for
// the same.
func (s *subscriptions) unwatch(l *listening) {
	s.changing.Lock()
	defer s.changing.Unlock()
	others := s.listeners()
	for _, w := range l.watches {
		if !slices.ContainsFunc(others, func(o *listening) bool { return slices.Contains(o.uris, w.uri) }) {
			w.lease.Unwatch(w.uri)
		}
	}
}

// handOver has the successor of an upstream watch what the old one was asked to.
func (s *subscriptions) handOver(old, next *leased) {
	s.changing.Lock()
	defer s.changing.Unlock()
	for _, uri := range old.Watches() {
		next.Watch(uri)
	}
	for _, l := range s.listeners() {
		for i := range l.watches {
			if l.watches[i].lease.Lease == old.Lease {
				l.watches[i].lease = next
			}
		}
	}
}

// publish sends a notification about an upstream's resource to every open listen request
// that asked for it, and reports whether there was one.
func (s *subscriptions) publish(method, uri string, params []byte) (sent bool) {
	for _, l := range s.listeners() {
		if slices.ContainsFunc(l.uris, func(u string) bool { return upstream.Covers(u, uri) }) {
			l.send(method, params)
			sent = true
		}
	}
	return sent
}
