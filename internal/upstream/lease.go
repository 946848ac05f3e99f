package upstream

import (
	"context"
	"slices"

	"mcpschedd/internal/revision"
)

// Lease is a session's access to an instance of an upstream.
type Lease struct {
	in             *instance
	listener       Listener
	queue          queue
	multiplexed    bool // a message from the server may be for another client
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

// Instance returns the id of the leased instance. Ids are unique across upstreams and start at 1.
// A restart does not change the id.
func (l *Lease) Instance() uint64 { return l.in.id }

// Shared reports whether all sessions share one instance.
func (l *Lease) Shared() bool { return l.in.up.spec.Shared }

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

// Problem returns the reason why the server is down, or why it does not get ready. It returns nil
// if the server is live or starting normally.
func (l *Lease) Problem() error {
	switch at := l.in.state.Load(); {
	case at.down != nil:
		return l.in.up.unavailable(at.down, at.stderr)
	case at.garbled && at.live == nil:
		return errGarbled
	}
	return nil
}

// Turn returns the next place in the queue of the session's requests to this server. It must be
// called before the next message of the session is read, and its result passed to Start.
func (l *Lease) Turn() Turn { return l.queue.take() }

// Notify sends a notification to the server if there is a live connection.
func (l *Lease) Notify(method string, params []byte) {
	if c := l.in.live(); c != nil && !c.stateless() {
		c.notify(method, params)
	}
}

// TaskStarted records that a task continues after the response that started it: the server may
// send messages about it after the session has ended, or while another client of a pooled session
// makes a call.
func (l *Lease) TaskStarted() {
	if c := l.in.live(); c != nil {
		c.requests.noteUnfinished(l.in.up.writeSettle())
	}
}

// Close releases the lease. A private instance ends with it. A shared one is unsubscribed from
// resources that no other session watches.
func (l *Lease) Close() {
	in := l.in
	in.mu.Lock()
	in.leases = slices.DeleteFunc(slices.Clone(in.leases), func(other *Lease) bool { return other == l })
	shared := len(in.leases) > 0
	in.mu.Unlock()
	if shared {
		in.sendLevel(in.live())
		for _, uri := range l.Watches() {
			l.Unwatch(uri, true)
		}
	}
	in.up.release(in)
}
