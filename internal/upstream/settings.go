package upstream

import (
	"context"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
)

// The log level and the resource subscriptions of the sessions are sent to each connection.

// defaultLevel is the log level of a session that requested none, once another session of the
// instance has requested one: the server's initial level is not known.
const defaultLevel = "info"

// KnownLevel reports whether level is one of MCP's log levels.
func KnownLevel(level string) bool {
	return mcp.LoggingLevel(level).ShouldSendTo(mcp.LoggingLevelDebug)
}

// MostVerbose returns the most verbose of the levels, or "" if none is known.
func MostVerbose(levels ...string) (most string) {
	for _, level := range levels {
		if KnownLevel(level) && (most == "" || mcp.LoggingLevel(most).ShouldSendTo(mcp.LoggingLevel(level))) {
			most = level
		}
	}
	return most
}

// SetLevel requests log messages of this level and above, also after restarts. A shared server
// gets the most verbose level that a session requested.
func (l *Lease) SetLevel(level string) {
	if KnownLevel(level) {
		l.in.leases.setLevel(l, level)
		l.in.levelChanged()
	}
}

// Admits reports whether a log message with these params should be sent to a client with this
// level; an empty level means the last one set by SetLevel. Messages of a private instance and
// those with unknown levels are always admitted.
func (l *Lease) Admits(level string, params []byte) bool {
	if !l.multiplexed {
		return true
	}
	if level == "" {
		level = l.in.leases.levelOf(l)
	}
	if level == "" {
		if c := l.in.status.live(); c == nil || c.level.last() == "" {
			return true
		}
		level = defaultLevel
	}
	own := text(jsonrpc.Get(params, "level"))
	return !KnownLevel(own) || !KnownLevel(level) || mcp.LoggingLevel(own).ShouldSendTo(mcp.LoggingLevel(level))
}

// sentLevel is the log level that was sent over one connection.
type sentLevel struct {
	mu       sync.Mutex
	level    string // the last one sent; empty if none
	inFlight bool   // over HTTP: the request has no answer yet
}

func (t *sentLevel) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.level
}

// levelChanged sends the combined level to the live connection.
func (in *instance) levelChanged() {
	if c := in.status.live(); c != nil {
		in.sendLevel(c)
	}
}

// sendLevel sends the log level if it differs from the last one sent. HTTP does not preserve the
// order of requests, so there the next level is sent after the answer.
func (in *instance) sendLevel(c *conn) {
	if c.stateless() || !in.offer.Load().Has("logging") {
		return
	}
	t := &c.level
	t.mu.Lock()
	defer t.mu.Unlock()
	level := in.leases.level(t.level != "")
	if level == "" || level == t.level || t.inFlight {
		return
	}
	t.level, t.inFlight = level, c.http
	in.sendSetting(c, nil, "logging/setLevel", append(jsonrpc.AppendString([]byte(`{"level":`), level), '}'), func() {
		if c.http {
			t.mu.Lock()
			t.inFlight = false
			t.mu.Unlock()
			in.sendLevel(c)
		}
	})
}

// Watch subscribes the session to a resource, also after restarts. request means that Watch sends
// resources/subscribe, if the revision has that method; otherwise the caller sends it.
func (l *Lease) Watch(uri string, request bool) { l.watch(uri, true, request) }

// Unwatch ends the subscription, and reports whether it was the last one of the instance.
func (l *Lease) Unwatch(uri string, request bool) (last bool) { return l.watch(uri, false, request) }

// watch updates the subscriptions and notifies the server of a change: a stateless server by a
// new listen request, another one by a request if request is true.
func (l *Lease) watch(uri string, on, request bool) (differs bool) {
	differs = l.in.leases.watch(l, uri, on)
	switch c := l.in.status.live(); {
	case c == nil:
	case c.stateless():
		if differs {
			l.in.listen(c)
		}
	case request && on:
		l.in.sendSetting(c, l, "resources/subscribe", uriParams(uri), func() {})
	case request && differs:
		l.in.sendSetting(c, l, "resources/unsubscribe", uriParams(uri), func() {})
	}
	return differs
}

// Watches returns the URIs that the session subscribed to.
func (l *Lease) Watches() []string { return l.in.leases.watched(l) }

func uriParams(uri string) []byte {
	return append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}')
}

// restore sends the log level and the subscriptions to a new connection, without the
// subscriptions in sent. It returns all current subscriptions.
func (in *instance) restore(c *conn, sent []string) (now []string) {
	now = in.leases.watched(in.leases.list()...)
	in.sendLevel(c)
	if c.stateless() {
		return now // sent in its listen request
	}
	for _, uri := range now {
		if !slices.Contains(sent, uri) {
			in.sendSetting(c, nil, "resources/subscribe", uriParams(uri), func() {})
		}
	}
	return now
}

// sendSetting sends a setting for a lease, which may be nil. It returns when the request was
// sent, so that later requests of the session follow it. answered is called when the request has
// been answered or has failed.
func (in *instance) sendSetting(c *conn, of *Lease, method string, params []byte, answered func()) {
	ctx, cancel := context.WithTimeout(context.Background(), in.up.spec.StartTimeout)
	c.send(&pending{lease: of, internal: true, ctx: ctx, req: &Request{Method: method, Params: params}, done: func(a Answer, err error) {
		cancel()
		if _, err = a.result(err); err != nil {
			in.up.log.Debug("upstream rejected a setting", "upstream", in.up.spec.Name, "method", method, "err", err)
		}
		answered()
	}})
}
