package upstream

import (
	"context"
	"maps"
	"slices"

	"mcpschedd/internal/jsonrpc"
)

// What a session tells a server once and expects to hold, a restart of the
// server included: the log level, and the resources it watches.

// SetLevel asks the server for log messages from level on, now and after a
// restart.
func (l *Lease) SetLevel(level string) {
	l.in.mu.Lock()
	same := l.in.level == level
	l.in.level = level
	l.in.mu.Unlock()
	if c := l.in.live.Load(); c != nil && !same {
		l.in.tellLevel(c)
	}
}

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
		l.in.tell(c, "resources/subscribe", append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}'))
	}
}

// Unwatch ends what Watch asked for.
func (l *Lease) Unwatch(uri string) {
	last := l.Unsubscribe(uri)
	if c := l.in.live.Load(); c != nil && last && !c.stateless() {
		l.in.tell(c, "resources/unsubscribe", append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}'))
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

// settings is what a server has been told.
type settings struct {
	level string
	uris  []string
}

// resume tells a server that was started anew what the old one knew and it was
// not told before, and returns what it knows now.
func (in *instance) resume(c *conn, told settings) settings {
	in.mu.Lock()
	now := settings{in.level, slices.Collect(maps.Keys(in.watched))}
	in.mu.Unlock()
	if now.level != told.level {
		in.tellLevel(c)
	}
	if c.stateless() {
		return now // its listen request carries the subscriptions
	}
	for _, uri := range now.uris {
		if !slices.Contains(told.uris, uri) {
			in.tell(c, "resources/subscribe", append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}'))
		}
	}
	return now
}

func (in *instance) tellLevel(c *conn) {
	in.mu.Lock()
	level := in.level
	in.mu.Unlock()
	if offer := in.offer.Load(); level == "" || c.stateless() || offer == nil || !offer.Has("logging") {
		return
	}
	in.tell(c, "logging/setLevel", append(jsonrpc.AppendString([]byte(`{"level":`), level), '}'))
}

// tell sends a request whose answer changes nothing here, before it returns:
// what the session sends next must come after it.
func (in *instance) tell(c *conn, method string, params []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), in.up.spec.StartTimeout)
	p, err := c.start(ctx, &Request{Method: method, Params: params}, nil)
	if err != nil || !c.spawn(func() {
		defer cancel()
		a := c.wait(ctx, p)
		if a.err == nil && a.msg.Error != nil {
			a.err = readError(a.msg.Error)
		}
		if a.err != nil {
			in.up.log.Debug("upstream did not take a setting", "upstream", in.up.spec.Name, "method", method, "err", a.err)
		}
	}) {
		cancel()
	}
}
