package upstream

import (
	"context"
	"maps"
	"slices"
	"sync"

	"mcpschedd/internal/revision"
)

// Lease is a session's access to an instance of an upstream.
type Lease struct {
	in             *instance
	listener       Listener
	queue          queue
	multiplexed    bool // a message from the server may be for another client
	logsPerRequest bool // log messages are sent only for requests that enable them
	state          leaseState
}

// Name returns the name of the upstream.
func (l *Lease) Name() string { return l.in.up.spec.Name }

// Offer returns the last-known offer of the server, or nil if there is none.
func (l *Lease) Offer() *Offer { return l.in.offer.Load() }

// AwaitOffer blocks until lists are available, either last-known or current, or the server is
// down, or ctx ends.
func (l *Lease) AwaitOffer(ctx context.Context) {
	for {
		at := l.in.state.Load()
		if at.down != nil || at.listed {
			return
		}
		select {
		case <-at.changed:
		case <-ctx.Done():
			return
		}
	}
}

// Instance returns the id of the leased instance. Ids are unique across upstreams and start at 1.
// A restart does not change the id.
func (l *Lease) Instance() uint64 { return l.in.id }

// Shared reports whether all sessions share one instance.
func (l *Lease) Shared() bool { return l.in.up.spec.Shared }

// Live reports whether the server has a live connection.
func (l *Lease) Live() bool { return l.in.live() != nil }

// Stateless reports whether the live connection, or else the last one, negotiated a stateless
// revision.
func (l *Lease) Stateless() bool {
	if c := l.in.live(); c != nil {
		return c.stateless()
	}
	offer := l.Offer()
	return offer != nil && revision.Stateless(offer.Version)
}

// Problem returns the reason why the server is down, or why it does not get ready. It returns nil
// if the server is live or starting normally.
func (l *Lease) Problem() error {
	switch at := l.in.state.Load(); {
	case at.down != nil:
		return l.in.up.unavailable(at.down, at.stderr)
	case at.garbled && at.live == nil:
		return errGarbled
	}
	return nil
}

// Turn returns the next place in the queue of the session's requests to this server. It must be
// called before the next message of the session is read, and its result passed to Start.
func (l *Lease) Turn() Turn { return l.queue.take() }

// Notify sends a notification to the server if there is a live connection.
func (l *Lease) Notify(method string, params []byte) {
	if c := l.in.live(); c != nil && !c.stateless() {
		c.notify(method, params)
	}
}

// TaskStarted records that a task continues after the response that started it: the server may
// send messages about it after the session has ended, or while another client of a pooled session
// makes a call.
func (l *Lease) TaskStarted() {
	if c := l.in.live(); c != nil {
		c.requests.noteUnfinished(l.in.up.writeSettle())
	}
}

// Close releases the lease. A private instance ends with it. A shared one is unsubscribed from
// resources that no other session watches.
func (l *Lease) Close() {
	in := l.in
	if in.leases.remove(l) > 0 {
		in.sendLevel(in.live())
		for _, uri := range l.Watches() {
			l.Unwatch(uri, true)
		}
	}
	in.up.release(in)
}

// leaseSet is the set of leases on one instance, with the server settings of their sessions,
// which outlive restarts of the server. Its mutex guards the state of every lease, so that the
// combined settings are computed from one snapshot.
type leaseSet struct {
	mu  sync.Mutex
	all []*Lease // copy on write
}

// leaseState is the state of one lease, guarded by the mutex of the leaseSet.
type leaseState struct {
	uris  map[string]bool // subscribed resources
	level string          // log level requested by the client; empty if none
}

// list returns the leases.
func (s *leaseSet) list() []*Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

func (s *leaseSet) add(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(slices.Clone(s.all), l)
}

// remove removes a released lease and returns the number of remaining leases.
func (s *leaseSet) remove(l *Lease) (others int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(slices.Clone(s.all), func(m *Lease) bool { return m == l })
	return len(s.all)
}

func (s *leaseSet) setLevel(l *Lease, level string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.state.level = level
}

// level returns the most verbose log level of the sessions, or "" if none has requested any.
func (s *leaseSet) level() (level string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	unset := ""
	for _, l := range s.all {
		level = MostVerbose(level, l.state.level)
		if l.state.level == "" && !l.logsPerRequest {
			unset = defaultLevel
		}
	}
	if level == "" {
		return ""
	}
	return MostVerbose(level, unset)
}

// watch sets whether a session watches a resource. When a watch starts, it reports whether that
// is a change for the session; when one ends, whether no other session watches the resource.
func (s *leaseSet) watch(l *Lease, uri string, on bool) (differs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uris := l.state.uris
	if uris[uri] == on {
		return false
	}
	if on {
		uris[uri] = true
		return true
	}
	delete(uris, uri)
	return !slices.ContainsFunc(s.all, func(m *Lease) bool { return m.state.uris[uri] })
}

// watched returns the resources watched by the sessions of the given leases.
func (s *leaseSet) watched(of ...*Lease) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]bool)
	for _, l := range of {
		maps.Copy(all, l.state.uris)
	}
	return slices.Collect(maps.Keys(all))
}

// watching returns the leases of the sessions that watch a resource.
func (s *leaseSet) watching(uri string) []*Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.all), func(l *Lease) bool {
		for subscribed := range l.state.uris {
			if Covers(subscribed, uri) {
				return false
			}
		}
		return true
	})
}
