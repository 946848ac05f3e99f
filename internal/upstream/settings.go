package upstream

import (
	"context"
	"maps"
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
		l.in.mu.Lock()
		l.level = level
		l.in.mu.Unlock()
		l.in.sendLevel(l.in.live())
	}
}

// Admits reports whether a log message with these params should be sent to a client that asked for
// a level. Messages and clients without a known level are always admitted.
func Admits(level string, params []byte) bool {
	said := text(jsonrpc.Get(params, "level"))
	return !KnownLevel(said) || !KnownLevel(level) || mcp.LoggingLevel(said).ShouldSendTo(mcp.LoggingLevel(level))
}

// sendLevel sends the most verbose level of all sessions, if there is one and it differs from the
// last one sent. c may be nil.
func (in *instance) sendLevel(c *conn) {
	if c == nil || c.stateless() || !in.offer.Load().Has("logging") {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	level, unset := "", ""
	in.mu.Lock()
	for _, l := range in.leases {
		level = MostVerbose(level, l.level)
		if l.level == "" && !l.logsPerRequest {
			unset = defaultLevel
		}
	}
	in.mu.Unlock()
	if level == "" {
		return
	}
	if level = MostVerbose(level, unset); level != c.level {
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
	in := l.in
	in.mu.Lock()
	differs = l.uris[uri] != on
	if on {
		l.uris[uri] = true
	} else {
		delete(l.uris, uri)
		differs = differs && !slices.ContainsFunc(in.leases, func(other *Lease) bool { return other.uris[uri] })
	}
	in.mu.Unlock()
	switch c := in.live(); {
	case c == nil:
	case c.stateless():
		if differs {
			in.listen(c)
		}
	case request && on:
		in.sendSetting(c, "resources/subscribe", uriParams(uri))
	case request && differs:
		in.sendSetting(c, "resources/unsubscribe", uriParams(uri))
	}
	return differs
}

// Watches returns the URIs that the session subscribed to.
func (l *Lease) Watches() []string { return l.in.watched(l) }

// watched returns the resources watched by the sessions of the given leases, sorted.
func (in *instance) watched(of ...*Lease) []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	all := make(map[string]bool)
	for _, l := range of {
		maps.Copy(all, l.uris)
	}
	return slices.Sorted(maps.Keys(all))
}

// watching returns the leases of the sessions that watch a resource.
func (in *instance) watching(uri string) []*Lease {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(in.leases), func(l *Lease) bool {
		for subscribed := range l.uris {
			if Covers(subscribed, uri) {
				return false
			}
		}
		return true
	})
}

func uriParams(uri string) []byte {
	return append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}')
}

// restore sends the log level and the subscriptions to a new connection, without the
// subscriptions in sent. It returns all current subscriptions.
func (in *instance) restore(c *conn, sent []string) (now []string) {
	now = in.watched(in.sessions()...)
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
