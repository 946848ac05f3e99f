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
	number   uint64 // of the instance's leases
	mixed    bool   // what the server says may be for others than this lease's client
	mute     bool   // its client gets log messages only with requests that ask for them
	wishes   wishes
}

// Name is the upstream's.
func (l *Lease) Name() string { return l.in.up.spec.Name }

// Offer is what the server was last known to have; nil if it never answered.
func (l *Lease) Offer() *Offer { return l.in.offer.Load() }

// AwaitOffer waits until the offer is known or the server is known to be away.
func (l *Lease) AwaitOffer(ctx context.Context) { l.in.awaitOffer(ctx) }

// Instance identifies what the lease is on. No other instance of any upstream
// ever has the same number, the first of which is 1; a restart keeps it.
func (l *Lease) Instance() uint64 { return l.in.id }

// Shared reports whether all sessions have the same instance.
func (l *Lease) Shared() bool { return l.in.up.spec.Shared }

// Live reports whether the server can be asked at once.
func (l *Lease) Live() bool { return l.in.live() != nil }

// Stateless reports whether the live connection, or else the last one, speaks
// a stateless revision.
func (l *Lease) Stateless() bool {
	if c := l.in.live(); c != nil {
		return c.stateless()
	}
	offer := l.Offer()
	return offer != nil && revision.Stateless(offer.Version)
}

// Problem says why the server cannot be asked now, nil if it can or is starting.
func (l *Lease) Problem() error {
	_, at, _ := l.in.status.now()
	if at.away == nil {
		return nil
	}
	return l.in.up.unavailable(at.away, at.stderr)
}

// Garbled reports whether the server has written what is no MCP message.
func (l *Lease) Garbled() bool { return l.in.status.garbled.Load() }

// Turn takes the next place in the order in which this session's requests are
// sent to this server. It is taken before the next message of the session is
// read, and must be handed to Start.
func (l *Lease) Turn() Turn { return l.queue.take() }

// Notify sends a notification to the server if it is there.
func (l *Lease) Notify(method string, params []byte) {
	if c := l.in.live(); c != nil && !c.stateless() {
		c.requests.note(l, func(a *activity) { a.tail = time.Now().Add(trailing) }) // the server may say something about it
		c.notify(method, params)
	}
}

// TaskStarted notes that a task of the session goes on after the answer that started
// it: the server may send messages about it when the session has ended, or while
// another client of a pooled session makes a call.
func (l *Lease) TaskStarted() {
	now := l.in.leases.update(l, func(w *wishes) { w.hasTasks = true })
	if now.closed || l.listener.Pooled {
		l.goesOn()
	}
}

// goesOn notes that the server goes on with a task of the session.
func (l *Lease) goesOn() {
	if c := l.in.live(); c != nil {
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
	others := in.leases.remove(l)
	if in.leases.update(l, func(w *wishes) { w.closed = true }).hasTasks {
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
