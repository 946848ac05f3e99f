package upstream

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"mcpschedd/internal/revision"
)

// Lease is one session's hold on an instance of an upstream.
type Lease struct {
	in       *instance
	listener Listener
	queue    queue
	mixed    bool // what the server says may be for others than this lease's client
	mute     bool // its client gets log messages only with requests that ask for them
	wants    wants
}

// Name is the upstream's.
func (l *Lease) Name() string { return l.in.up.spec.Name }

// Offer is what the server was last known to have; nil if it never answered.
func (l *Lease) Offer() *Offer { return l.in.offer.Load() }

// AwaitOffer waits until there are lists to offer, last-known ones or those of the
// server, or it is known to be away, or ctx has ended.
func (l *Lease) AwaitOffer(ctx context.Context) {
	for {
		at := l.in.status.now()
		if at.away != nil || at.listed {
			return
		}
		select {
		case <-at.changed:
		case <-ctx.Done():
			return
		}
	}
}

// Instance identifies what the lease is on. No other instance of any upstream
// ever has the same number, the first of which is 1; a restart keeps it.
func (l *Lease) Instance() uint64 { return l.in.id }

// Shared reports whether all sessions have the same instance.
func (l *Lease) Shared() bool { return l.in.up.spec.Shared }

// Live reports whether the server can be asked at once.
func (l *Lease) Live() bool { return l.in.status.live() != nil }

// Stateless reports whether the live connection, or else the last one, speaks
// a stateless revision.
func (l *Lease) Stateless() bool {
	if c := l.in.status.live(); c != nil {
		return c.stateless()
	}
	offer := l.Offer()
	return offer != nil && revision.Stateless(offer.Version)
}

// Problem says why the server cannot be asked now, nil if it can or is starting.
func (l *Lease) Problem() error {
	at := l.in.status.now()
	if at.away == nil {
		return nil
	}
	return l.in.up.unavailable(at.away, at.stderr)
}

// Garbled says of a server that is starting that it has written what is no MCP message;
// nil: it has not.
func (l *Lease) Garbled() error { return l.in.status.now().garble() }

// Turn takes the next place in the order in which this session's requests are
// sent to this server. It is taken before the next message of the session is
// read, and must be handed to Start.
func (l *Lease) Turn() Turn { return l.queue.take() }

// Notify sends a notification to the server if it is there.
func (l *Lease) Notify(method string, params []byte) {
	if c := l.in.status.live(); c != nil && !c.stateless() {
		c.requests.note(l, func(a *activity) { a.tail = time.Now().Add(trailing) }) // the server may say something about it
		c.notify(method, params)
	}
}

// TaskStarted notes that a task of the session goes on after the answer that started
// it: the server may send messages about it when the session has ended, or while
// another client of a pooled session makes a call.
func (l *Lease) TaskStarted() {
	if l.in.holders.taskStarted(l) || l.listener.Pooled {
		l.goesOn()
	}
}

// goesOn notes that the server goes on with a task of the session.
func (l *Lease) goesOn() {
	if c := l.in.status.live(); c != nil {
		c.requests.note(l, func(a *activity) {
			a.unfinished++
			a.until = time.Now().Add(l.in.up.writeSettle())
		})
	}
}

// Close gives the lease back; a private instance ends with it, a shared one is
// told what no session watches any more.
func (l *Lease) Close() {
	in := l.in
	others, hasTasks := in.holders.remove(l)
	if hasTasks {
		l.goesOn()
	}
	if in.up.spec.Shared {
		in.levelChanged()
	}
	if others > 0 {
		for _, uri := range l.Watches() {
			l.Unwatch(uri, true)
		}
	}
	in.up.release(in)
}

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
