package upstream

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// leases holds the leases of an instance, and guards what each session wants of the server
// for as long as it lasts, restarts of the server included: the log level, and the
// resources it watches.
type leases struct {
	mu   sync.Mutex
	all  []*Lease // replaced and never changed
	made uint64   // how many there have been
}

// wishes are what one session wants of the server.
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

// remove takes out a lease, and returns how many others there are.
func (s *leases) remove(l *Lease) (others int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(slices.Clone(s.all), func(m *Lease) bool { return m == l })
	return len(s.all)
}

func (s *leases) list() []*Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// update changes what a session wants, and returns it.
func (s *leases) update(l *Lease, change func(*wishes)) wishes {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&l.wishes)
	return l.wishes
}

// watch notes whether a session watches a resource, and reports whether that makes a
// difference: to the session, or, where it ends, to any.
func (s *leases) watch(l *Lease, uri string, on bool) (differs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.wishes.uris[uri] == on {
		return false
	}
	if on {
		l.wishes.uris[uri] = true
		return true
	}
	delete(l.wishes.uris, uri)
	return !slices.ContainsFunc(s.all, func(m *Lease) bool { return m.wishes.uris[uri] })
}

// watched returns what the sessions of these leases watch; nil: of all.
func (s *leases) watched(of ...*Lease) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of == nil {
		of = s.all
	}
	all := make(map[string]bool)
	for _, l := range of {
		maps.Copy(all, l.wishes.uris)
	}
	return slices.Collect(maps.Keys(all))
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

// level returns the level to tell a server, "" to leave it as it is. changed says
// that it was told one before.
func (s *leases) level(changed bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := ""
	for _, l := range s.all {
		if l.wishes.level != "" {
			changed = true
			wanted = MostVerbose(wanted, l.wishes.level)
		} else if !l.mute {
			wanted = MostVerbose(wanted, defaultLevel)
		}
	}
	switch {
	case !changed:
		return ""
	case wanted == "":
		return defaultLevel
	}
	return wanted
}
