package upstream

import (
	"context"
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
			l.Unwatch(uri)
		}
	}
	in.up.release(in)
}
