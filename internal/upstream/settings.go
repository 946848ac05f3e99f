package upstream

import (
	"context"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
)

// What the sessions want of a server beside answers, the log level and updates of
// resources, is told to each of its connections.

// defaultLevel is the log level of a session that named none, once another session of
// the instance has: the level that the server had before cannot be asked for.
const defaultLevel = "info"

// KnownLevel reports whether a log level is one of MCP's.
func KnownLevel(level string) bool {
	return mcp.LoggingLevel(level).ShouldSendTo(mcp.LoggingLevelDebug)
}

// MostVerbose returns the level of those that asks for most, "" if none is known.
func MostVerbose(levels ...string) (most string) {
	for _, level := range levels {
		if KnownLevel(level) && (most == "" || mcp.LoggingLevel(most).ShouldSendTo(mcp.LoggingLevel(level))) {
			most = level
		}
	}
	return most
}

// SetLevel asks the server for log messages from level on, now and after a
// restart. On a shared instance the server is told the most verbose level that a
// session wants.
func (l *Lease) SetLevel(level string) {
	if KnownLevel(level) {
		l.in.holders.setLevel(l, level)
		l.in.levelChanged()
	}
}

// Admits reports whether a log message with these params is for a client that wants
// those from level on; "": what it last set. The server of a single session is taken
// at its word, and nothing is kept back for a level that is none of MCP's.
func (l *Lease) Admits(level string, params []byte) bool {
	if !l.mixed {
		return true
	}
	if level == "" {
		level = l.in.holders.levelOf(l)
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

// sentLevel is the log level that a server was told over one connection.
type sentLevel struct {
	mu      sync.Mutex
	level   string // the last one; "": none
	telling bool   // over HTTP: it has not answered that
}

func (t *sentLevel) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.level
}

// levelChanged tells the live connection the level that the sessions want now.
func (in *instance) levelChanged() {
	if c := in.status.live(); c != nil {
		in.sendLevel(c)
	}
}

// sendLevel tells a server the log level, if it is not the one it was told last.
// Over HTTP a later request may arrive earlier: there the next one waits for the
// answer.
func (in *instance) sendLevel(c *conn) {
	if offer := in.offer.Load(); c.stateless() || offer == nil || !offer.Has("logging") {
		return
	}
	t := &c.level
	t.mu.Lock()
	defer t.mu.Unlock()
	level := in.holders.level(t.level != "")
	if level == "" || level == t.level || t.telling {
		return
	}
	t.level, t.telling = level, c.http
	in.sendSetting(c, nil, "logging/setLevel", append(jsonrpc.AppendString([]byte(`{"level":`), level), '}'), func() {
		if c.http {
			t.mu.Lock()
			t.telling = false
			t.mu.Unlock()
			in.sendLevel(c)
		}
	})
}

// Watch asks for updates of a resource, now and after a restart. request says that the server
// is sent a request about it, if its revision has one: else the caller sends that.
func (l *Lease) Watch(uri string, request bool) { l.watch(uri, true, request) }

// Unwatch ends what Watch asked for, and reports whether the server need not send updates any
// more.
func (l *Lease) Unwatch(uri string, request bool) (last bool) { return l.watch(uri, false, request) }

// watch is holders.watch, of which the server is told where it makes a difference: a stateless
// one by its listen request, another one by a request.
func (l *Lease) watch(uri string, on, request bool) (differs bool) {
	differs = l.in.holders.watch(l, uri, on)
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

// Watches returns the URIs that the lease subscribed to.
func (l *Lease) Watches() []string { return l.in.holders.watched(l) }

func uriParams(uri string) []byte {
	return append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}')
}

// restore tells a new connection's server the log level, and the resources to watch
// beside those it was told before, and returns all of these.
func (in *instance) restore(c *conn, told []string) (now []string) {
	now = in.holders.watched(in.holders.list()...)
	in.sendLevel(c)
	if c.stateless() {
		return now // its listen request carries the subscriptions
	}
	for _, uri := range now {
		if !slices.Contains(told, uri) {
			in.sendSetting(c, nil, "resources/subscribe", uriParams(uri), func() {})
		}
	}
	return now
}

// sendSetting sends a setting of a lease, nil for none, to the server. The request has been
// sent when it returns, so that what the session sends next comes after it. answered
// is called when it has an answer or has failed.
func (in *instance) sendSetting(c *conn, of *Lease, method string, params []byte, answered func()) {
	ctx, cancel := context.WithTimeout(context.Background(), in.up.spec.StartTimeout)
	c.send(&pending{lease: of, own: true, ctx: ctx, req: &Request{Method: method, Params: params}, done: func(a Answer, err error) {
		cancel()
		if _, err = a.result(err); err != nil {
			in.up.log.Debug("upstream did not take a setting", "upstream", in.up.spec.Name, "method", method, "err", err)
		}
		answered()
	}})
}
