package proxy

import (
	"maps"
	"slices"
	"sync"
)

// subscriptions owns what the client of a session subscribed to beside its requests: the
// listen requests that are open, and, in the handshake era, resources of the proxy's own.
// The upstreams' resources that it subscribed to in that era are kept with the leases.
type subscriptions struct {
	changing sync.Mutex // held while watches of the upstreams change

	mu   sync.Mutex
	open map[*listening]struct{}
	own  map[string]bool // resources of the proxy's own
}

// listening is an open subscriptions/listen request of a stateless client.
type listening struct {
	x       *request
	changes []string // methods of list_changed that it asked for
	uris    []string // resources that it asked for
}

// add notes an open listen request.
func (s *subscriptions) add(l *listening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[*listening]struct{})
	}
	s.open[l] = struct{}{}
}

// remove forgets a listen request.
func (s *subscriptions) remove(l *listening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, l)
}

// listeners are the listen requests that are open.
func (s *subscriptions) listeners() []*listening {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.open))
}

// watchOwn notes whether the client subscribes to a resource of the
// proxy's own.
func (s *subscriptions) watchOwn(uri string, wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own == nil {
		s.own = make(map[string]bool)
	}
	if wanted {
		s.own[uri] = true
	} else {
		delete(s.own, uri)
	}
}

// watchesOwn reports whether it does.
func (s *subscriptions) watchesOwn(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own[uri]
}

// handOver has the successor of an upstream watch what the old one was asked to.
func (s *subscriptions) handOver(old, next *leased) {
	s.changing.Lock()
	defer s.changing.Unlock()
	for _, uri := range old.Watches() {
		next.Watch(uri)
	}
}

// publish sends a notification to every open listen request that wants it, and reports
// whether there was one.
func (s *subscriptions) publish(method string, params []byte, wants func(*listening) bool) (sent bool) {
	for _, l := range s.listeners() {
		if wants(l) {
			l.send(method, params)
			sent = true
		}
	}
	return sent
}

// publishChange sends a list_changed to the listen requests that asked for it.
func (s *subscriptions) publishChange(method string) {
	s.publish(method, nil, func(l *listening) bool { return slices.Contains(l.changes, method) })
}

// watch has the upstreams that may hold the resources of a listen request watch them.
func (s *session) watch(l *listening) {
	s.subscriptions.changing.Lock()
	defer s.subscriptions.changing.Unlock()
	for _, uri := range l.uris {
		if _, own := s.identity.view.ownResource(uri); own {
			continue
		}
		for _, lease := range holders(s.leases.current(), uri) {
			lease.Watch(uri)
		}
	}
}

// unwatch ends that, for a listen request that has been removed, where no other asked for
// the same.
func (s *session) unwatch(l *listening) {
	s.subscriptions.changing.Lock()
	defer s.subscriptions.changing.Unlock()
	others := s.subscriptions.listeners()
	for _, uri := range l.uris {
		if slices.ContainsFunc(others, func(o *listening) bool { return slices.Contains(o.uris, uri) }) {
			continue
		}
		for _, lease := range watching(s.leases.current(), uri) {
			lease.Unwatch(uri)
		}
	}
}

// watching are the leases that are subscribed to a resource.
func watching(leases []*leased, uri string) []*leased {
	return where(leases, func(l *leased) bool { return slices.Contains(l.Watches(), uri) })
}
