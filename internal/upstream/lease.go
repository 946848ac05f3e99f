package upstream

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// Lease is a session's access to an instance of an upstream.
type Lease struct {
	in             *instance
	listener       Listener
	queue          queue
	logsPerRequest bool // log messages are sent only for requests that enable them

	// Settings of the session, which outlive restarts of the server; guarded by in.mu.
	uris  map[string]bool // subscribed resources
	level string          // log level requested by the client; empty if none
}

// Name returns the name of the upstream.
func (l *Lease) Name() string { return l.in.up.spec.Name }

// Offer returns the last-known offer of the server, or nil if there is none.
func (l *Lease) Offer() *Offer { return l.in.offer.Load() }

// AwaitOffer blocks until lists are available, either last-known or current, or the server is
// down, or ctx ends.
func (l *Lease) AwaitOffer(ctx context.Context) {
	for {
		at := l.in.state.Load()
		if at.down != nil || at.listed {
			return
		}
		select {
		case <-at.changed:
		case <-ctx.Done():
			return
		}
	}
}

// Listed reports whether lists are available, either last-known or current.
func (l *Lease) Listed() bool { return l.in.state.Load().listed }

// Instance returns the id of the leased instance. Ids are unique across upstreams and start at 1.
// A restart does not change the id.
func (l *Lease) Instance() uint64 { return l.in.id }

// Shared reports whether all sessions share one instance.
func (l *Lease) Shared() bool { return l.in.up.spec.Shared }

// severalClients reports whether a message from the server may be for another client.
func (l *Lease) severalClients() bool { return l.Shared() || l.listener.Multiplexed }

// Live reports whether the server has a live connection.
func (l *Lease) Live() bool { return l.in.live() != nil }

// Stateless reports whether the live connection, or else the last one, negotiated a stateless
// revision.
func (l *Lease) Stateless() bool {
	if c := l.in.live(); c != nil {
		return c.stateless()
	}
	offer := l.Offer()
	return offer != nil && revision.Stateless(offer.Version)
}

// Problem returns the reason why the server is down, why it does not get ready, or why none of its
// tools is known. It returns nil if the server is live or starting normally.
func (l *Lease) Problem() error {
	at := l.in.state.Load()
	if at.down != nil {
		return l.in.up.unavailable(at.down, at.stderr)
	}
	return l.in.up.mask.Error(at.problem(l.Offer()))
}

// Turn returns the next place in the queue of the session's requests to this server. It must be
// called before the next message of the session is read, and its result passed to Send.
func (l *Lease) Turn() *Turn { return l.queue.take() }

// Notify sends a notification to the server if there is a live connection of the handshake era.
func (l *Lease) Notify(method string, params []byte) {
	if c := l.in.live(); c != nil && !c.stateless() {
		l.in.wrote.Store(true) // it may change anything
		c.notify(method, params)
	}
}

// TaskStarted records that a task continues after the response that started it: the server may
// send messages about it after the session has ended, or while another client of a multiplexed session
// makes a call.
func (l *Lease) TaskStarted() {
	if c := l.in.live(); c != nil {
		c.requests.noteUnfinished(l)
	}
}

// ForwardProgress passes the progress of an answered request, named by the raw id of its answer, to
// notify, as a task that it started continues. notify is called on the reader and must not block.
func (l *Lease) ForwardProgress(id []byte, notify func(params []byte)) {
	if c := l.in.live(); c != nil {
		c.requests.addTask(requestID(id), notify)
	}
}

// Close releases the lease. A private instance ends with it. A shared one that has other sessions is
// unsubscribed from resources that none of them watches.
func (l *Lease) Close() {
	in := l.in
	in.mu.Lock()
	in.leases = slices.DeleteFunc(slices.Clone(in.leases), func(other *Lease) bool { return other == l })
	shared, uris := len(in.leases) > 0, slices.Collect(maps.Keys(l.uris))
	in.mu.Unlock()
	if shared {
		in.sendLevel(in.live())
		in.sendWatches(in.live(), uris)
	}
	in.up.release(in)
}

// The log level and the resource subscriptions of the sessions are sent to each connection.

// defaultLevel is the log level of a session that requested none, once another session of the
// instance has requested one: the server's initial level is not known.
const defaultLevel = "info"

// KnownLevel reports whether level is one of MCP's log levels.
func KnownLevel(level string) bool {
	return mcp.LoggingLevel(level).ShouldSendTo(mcp.LoggingLevelDebug)
}

// moreVerbose returns the more verbose of two levels. a may be empty, b also unknown.
func moreVerbose(a, b string) string {
	if KnownLevel(b) && (a == "" || mcp.LoggingLevel(a).ShouldSendTo(mcp.LoggingLevel(b))) {
		return b
	}
	return a
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

// LogLevelEnabled reports whether a log message with these params should be sent to a client that
// asked for a level. It is true if the level of either is unknown.
func LogLevelEnabled(level string, params []byte) bool {
	said := jsonrpc.Text(params, "level")
	return !KnownLevel(said) || !KnownLevel(level) || mcp.LoggingLevel(said).ShouldSendTo(mcp.LoggingLevel(level))
}

// logLevel returns the log level for the server: the most verbose one that a session has
// requested, or "" if none has. With asked, a session that has ended may have requested one.
func (in *instance) logLevel(asked bool) (level string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, l := range in.leases {
		wanted := l.level
		asked = asked || wanted != ""
		if wanted == "" && !l.logsPerRequest {
			wanted = defaultLevel
		}
		level = moreVerbose(level, wanted)
	}
	if !asked {
		return ""
	}
	return level
}

// sendSettings sends c the log level and the subscriptions of all sessions, as far as it has not been
// sent them. A stateless server gets the level with each request, and the subscriptions by listen.
func (in *instance) sendSettings(c *conn) {
	if c.stateless() {
		return
	}
	in.sendLevel(c)
	c.mu.Lock()
	sent := slices.Collect(maps.Keys(c.subscribed))
	c.mu.Unlock()
	in.sendWatches(c, append(sent, in.watched()...))
}

// sendLevel sends c the log level of all sessions, if it has not been sent it. c may be nil.
func (in *instance) sendLevel(c *conn) {
	if c == nil || c.stateless() || !in.offer.Load().Has("logging") {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if level := in.logLevel(c.level != ""); level != "" && level != c.level {
		c.level = level
		c.sendSetting("logging/setLevel", "level", level)
	}
}

// sendWatches sends c whether any session watches the given resources, as far as it has not been sent
// that, and returns the answer to each change by its URI. A stateless server gets all subscriptions in a
// new listen request. c may be nil.
func (in *instance) sendWatches(c *conn, uris []string) (answers map[string]<-chan error) {
	switch {
	case c == nil || len(uris) == 0:
		return nil
	case c.stateless():
		in.listen(c)
		return nil
	}
	answers = make(map[string]<-chan error)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, uri := range uris {
		switch wanted := in.isWatched(uri); {
		case wanted && !c.subscribed[uri]:
			c.subscribed[uri] = true
			answers[uri] = c.sendSetting("resources/subscribe", "uri", uri)
		case !wanted && c.subscribed[uri]:
			delete(c.subscribed, uri)
			answers[uri] = c.sendSetting("resources/unsubscribe", "uri", uri)
		}
	}
	return answers
}

// Watch subscribes the session to resources, also after restarts, or ends the subscriptions. It
// returns a channel that receives nil or the server's error for each URI that was sent. None is sent
// without a live connection or to a stateless server, nor if it would repeat what the connection was
// sent last.
func (l *Lease) Watch(on bool, uris ...string) (answers map[string]<-chan error) {
	l.in.mu.Lock()
	for _, uri := range uris {
		if on {
			l.uris[uri] = true
		} else {
			delete(l.uris, uri)
		}
	}
	l.in.mu.Unlock()
	return l.in.sendWatches(l.in.live(), uris)
}

// Watches reports whether the session subscribed to a resource.
func (l *Lease) Watches(uri string) bool {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	return l.uris[uri]
}

// isWatched reports whether any session watches a resource.
func (in *instance) isWatched(uri string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.ContainsFunc(in.leases, func(l *Lease) bool { return l.uris[uri] })
}

// watched returns the resources that any session watches, sorted.
func (in *instance) watched() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	all := make(map[string]bool)
	for _, l := range in.leases {
		maps.Copy(all, l.uris)
	}
	return slices.Sorted(maps.Keys(all))
}

// notifyWatchers notifies each session of all resources that it watches, as changes before the connection were not
// reported. It does so once in stableAfter: if a server ends at each read, clients that then read would keep it
// restarting.
func (in *instance) notifyWatchers() {
	if !in.notified.IsZero() && time.Since(in.notified) < stableAfter {
		return
	}
	for _, l := range in.currentLeases() {
		in.mu.Lock()
		uris := slices.Sorted(maps.Keys(l.uris))
		in.mu.Unlock()
		for _, uri := range uris {
			in.notified = time.Now()
			l.notifyClient("notifications/resources/updated", append(jsonrpc.AppendMember([]byte{'{'}, "uri", jsonrpc.AppendString(nil, uri)), '}'))
		}
	}
}

// watchers returns the leases of the sessions that watch a resource.
func (in *instance) watchers(uri string) []*Lease {
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

// sendSetting sends a setting. It returns when the request was sent, so that later requests of the
// session follow it. The channel receives nil or the server's error.
func (c *conn) sendSetting(method, member, value string) <-chan error {
	answer := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), c.in.up.spec.StartTimeout)
	params := jsonrpc.AppendMember([]byte{'{'}, member, jsonrpc.AppendString(nil, value))
	c.startOwnRequest(ctx, &Request{Method: method, Params: append(params, '}')}, func(_ []byte, err error) {
		cancel()
		if err != nil {
			c.in.up.log.Debug("server rejected a setting", "method", method, "err", err)
		}
		answer <- err
	})
	return answer
}
