package upstream

import (
	"maps"
	"slices"

	"mcpschedd/internal/jsonrpc"
)

// What a session tells a server once and expects to hold, a restart of the
// server included: the log level, and the resources it watches.

// Subscribe asks for updates of a resource, now and after a restart.
func (l *Lease) Subscribe(uri string) {
	in := l.in
	in.mu.Lock()
	fresh := !l.uris[uri]
	if fresh {
		l.uris[uri] = true
		in.watched[uri]++
	}
	in.mu.Unlock()
	if c := in.live.Load(); c != nil && fresh && c.stateless() {
		in.listen(c)
	}
}

// Watch is Subscribe for a session that has no request of its own to make: the
// server is asked as its revision has it.
func (l *Lease) Watch(uri string) {
	l.Subscribe(uri)
	if c := l.in.live.Load(); c != nil && !c.stateless() {
		l.in.tell(c, l, "resources/subscribe", append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}'), func() {})
	}
}

// Unwatch ends what Watch asked for.
func (l *Lease) Unwatch(uri string) {
	last := l.Unsubscribe(uri)
	if c := l.in.live.Load(); c != nil && last && !c.stateless() {
		l.in.tell(c, l, "resources/unsubscribe", append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}'), func() {})
	}
}

// Unsubscribe ends what Subscribe asked for and reports whether the server
// need not send updates any more.
func (l *Lease) Unsubscribe(uri string) (last bool) {
	in := l.in
	in.mu.Lock()
	if l.uris[uri] {
		delete(l.uris, uri)
		if in.watched[uri]--; in.watched[uri] <= 0 {
			delete(in.watched, uri)
			last = true
		}
	}
	in.mu.Unlock()
	if c := in.live.Load(); c != nil && last && c.stateless() {
		in.listen(c)
	}
	return last
}

// Watches returns the URIs that the lease subscribed to.
func (l *Lease) Watches() []string {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	return slices.Collect(maps.Keys(l.uris))
}

// resume tells a server that was started anew what the old one knew and it was
// not told before, and returns the resources that it watches now.
func (in *instance) resume(c *conn, told []string) (now []string) {
	in.mu.Lock()
	now = slices.Collect(maps.Keys(in.watched))
	in.mu.Unlock()
	in.tellLevelTo(c)
	if c.stateless() {
		return now // its listen request carries the subscriptions
	}
	for _, uri := range now {
		if !slices.Contains(told, uri) {
			in.tell(c, nil, "resources/subscribe", append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}'), func() {})
		}
	}
	return now
}
