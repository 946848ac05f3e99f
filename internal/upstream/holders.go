package upstream

import (
	"maps"
	"slices"
	"sync"
)

// holders are the leases on one instance, and what their sessions want of its server for as
// long as they last, restarts of the server included. Its mutex guards the wants of every
// lease, so that what the server is to be told is found from all of them at one moment.
type holders struct {
	mu  sync.Mutex
	all []*Lease // replaced and never changed
}

// wants is what the session of one lease wants, guarded by the mutex of its holders.
type wants struct {
	uris     map[string]bool // subscribed
	level    string          // log level its client wants; "": it did not say
	hasTasks bool            // a task was started, which goes on after its answer
	closed   bool            // the lease was given back
}

// list returns the leases.
func (h *holders) list() []*Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all
}

func (h *holders) add(l *Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(slices.Clone(h.all), l)
}

// remove takes out a lease that is given back, and returns how many others there are, and
// whether tasks of its session go on.
func (h *holders) remove(l *Lease) (others int, hasTasks bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = slices.DeleteFunc(slices.Clone(h.all), func(m *Lease) bool { return m == l })
	l.wants.closed = true
	return len(h.all), l.wants.hasTasks
}

// taskStarted notes that a session has a task, and reports whether its lease was given back.
func (h *holders) taskStarted(l *Lease) (closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.wants.hasTasks = true
	return l.wants.closed
}

func (h *holders) setLevel(l *Lease, level string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.wants.level = level
}

// levelOf is the log level that a session wants; "": it did not say.
func (h *holders) levelOf(l *Lease) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return l.wants.level
}

// level returns the level to send a server, "" to leave it as it is. told says that it
// was told one before.
func (h *holders) level(told bool) (wanted string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.all {
		if level := l.wants.level; level != "" {
			told = true
			wanted = MostVerbose(wanted, level)
		} else if !l.mute {
			wanted = MostVerbose(wanted, defaultLevel)
		}
	}
	switch {
	case !told:
		return ""
	case wanted == "":
		return defaultLevel
	}
	return wanted
}

// watch notes whether a session watches a resource, and reports whether that makes a
// difference: to the session, or, where it ends, to any.
func (h *holders) watch(l *Lease, uri string, on bool) (differs bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	uris := l.wants.uris
	if uris[uri] == on {
		return false
	}
	if on {
		uris[uri] = true
		return true
	}
	delete(uris, uri)
	return !slices.ContainsFunc(h.all, func(m *Lease) bool { return m.wants.uris[uri] })
}

// watched returns what the sessions of these leases watch.
func (h *holders) watched(of ...*Lease) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[string]bool)
	for _, l := range of {
		maps.Copy(all, l.wants.uris)
	}
	return slices.Collect(maps.Keys(all))
}

// watching returns the leases of the sessions that watch a resource.
func (h *holders) watching(uri string) []*Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.all), func(l *Lease) bool {
		for subscribed := range l.wants.uris {
			if Covers(subscribed, uri) {
				return false
			}
		}
		return true
	})
}
