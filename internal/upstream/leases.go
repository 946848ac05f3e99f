package upstream

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// leases holds the leases of an instance, and what each session wants of the server
// for as long as it lasts, restarts of the server included: the log level, and the
// resources it watches.
type leases struct {
	mu      sync.Mutex
	all     []*Lease // replaced and never changed
	made    uint64   // how many there have been
	watched map[string]int
}

// wishes are what one session wants of the server. leases.mu guards them.
type wishes struct {
	uris     map[string]bool // subscribed by this lease
	level    string          // log level its client wants; "": it did not say
	hasTasks bool            // a task was started, which goes on after its answer
	closed   bool            // the lease was given back
}

// add numbers a lease, which counts from now on.
func (s *leases) add(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	l.number = s.made
	s.all = append(slices.Clone(s.all), l)
}

// remove takes out a lease, and returns how many others there are, and whether its
// session has started a task.
func (s *leases) remove(l *Lease) (others int, hasTasks bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(slices.Clone(s.all), func(m *Lease) bool { return m == l })
	l.wishes.closed = true
	return len(s.all), l.wishes.hasTasks
}

func (s *leases) list() []*Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// watch notes that a session watches a resource; false if it did already.
func (s *leases) watch(l *Lease, uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.wishes.uris[uri] {
		return false
	}
	l.wishes.uris[uri] = true
	s.watched[uri]++
	return true
}

// unwatch is watch's opposite; true if no session watches the resource any more.
func (s *leases) unwatch(l *Lease, uri string) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !l.wishes.uris[uri] {
		return false
	}
	delete(l.wishes.uris, uri)
	if s.watched[uri]--; s.watched[uri] > 0 {
		return false
	}
	delete(s.watched, uri)
	return true
}

// watchedBy returns what one session watches; nil: what all of them do.
func (s *leases) watchedBy(l *Lease) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l == nil {
		return slices.Collect(maps.Keys(s.watched))
	}
	return slices.Collect(maps.Keys(l.wishes.uris))
}

// watching returns the leases of the sessions that watch a resource.
func (s *leases) watching(uri string) (to []*Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.all {
		for subscribed := range l.wishes.uris {
			if Covers(subscribed, uri) {
				to = append(to, l)
				break
			}
		}
	}
	return to
}

// Covers reports whether an update of uri is one for a client that subscribed to
// another: the same, or one above it.
func Covers(subscribed, uri string) bool {
	return subscribed == uri || strings.HasPrefix(uri, strings.TrimSuffix(subscribed, "/")+"/")
}

// update changes what a session wants, and returns it.
func (s *leases) update(l *Lease, change func(*wishes)) wishes {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&l.wishes)
	return l.wishes
}

// levelOf returns the log level that a session wants; "": it did not say.
func (s *leases) levelOf(l *Lease) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.wishes.level
}

// level returns the level to tell a server, "" to leave it as it is. changed says
// that it was told one before.
func (s *leases) level(changed bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var wanted []string
	for _, l := range s.all {
		if l.wishes.level != "" {
			changed = true
			wanted = append(wanted, l.wishes.level)
		} else if !l.mute {
			wanted = append(wanted, defaultLevel)
		}
	}
	switch {
	case !changed:
		return ""
	case len(wanted) == 0:
		return defaultLevel
	}
	return MostVerbose(wanted...)
}
