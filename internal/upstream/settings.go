package upstream

import (
	"context"
	"slices"

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
		l.in.sendLevel(l.in.live())
	}
}

// Admits reports whether a log message with these params should be sent to a client that asked for
// a level. Messages and clients without a known level are always admitted.
func Admits(level string, params []byte) bool {
	said := text(jsonrpc.Get(params, "level"))
	return !KnownLevel(said) || !KnownLevel(level) || mcp.LoggingLevel(said).ShouldSendTo(mcp.LoggingLevel(level))
}

// sendLevel sends the most verbose level of all sessions, if it differs from the last one sent. c
// may be nil.
func (in *instance) sendLevel(c *conn) {
	if c == nil || c.stateless() || !in.offer.Load().Has("logging") {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if level := in.leases.level(); level != "" && level != c.level {
		c.level = level
		in.sendSetting(c, "logging/setLevel", append(jsonrpc.AppendString([]byte(`{"level":`), level), '}'))
	}
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
	switch c := l.in.live(); {
	case c == nil:
	case c.stateless():
		if differs {
			l.in.listen(c)
		}
	case request && on:
		l.in.sendSetting(c, "resources/subscribe", uriParams(uri))
	case request && differs:
		l.in.sendSetting(c, "resources/unsubscribe", uriParams(uri))
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
			in.sendSetting(c, "resources/subscribe", uriParams(uri))
		}
	}
	return now
}

// sendSetting sends a setting. It returns when the request was sent, so that later requests of
// the session follow it.
func (in *instance) sendSetting(c *conn, method string, params []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), in.up.spec.StartTimeout)
	c.send(&pending{ctx: ctx, req: &Request{Method: method, Params: params}, done: func(a Answer, err error) {
		cancel()
		if _, err = a.result(err); err != nil {
			in.up.log.Debug("upstream rejected a setting", "upstream", in.up.spec.Name, "method", method, "err", err)
		}
	}})
}
