package upstream

import (
	"sync"
	"time"
)

// Most messages of a server do not name the request they belong to: over stdio and
// HTTP+SSE only progress does, over streamable HTTP the messages on the server's own
// stream do not. On a connection that serves several sessions such a message may be
// about any request that the server could still be working on. It is given to a
// session only if no other session has such a request.

const (
	// writeSettle is Options.WriteSettle where it is not set.
	writeSettle = time.Minute
	// trailing is how long after an answer more may come about its request: a
	// server logs what it has done, and over HTTP another stream may be slower.
	// It must be longer than lingerTime.
	trailing = 2 * time.Second
)

// activity counts what the leases of an instance have under way over one connection.
type activity struct {
	window func() time.Duration // Upstream.writeSettle: how long a request given up counts

	mu       sync.Mutex
	accounts map[uint64]*account // Lease.number → what it has under way
}

// account is what one lease has under way. A nil account counts nothing.
type account struct {
	open       int       // requests that have no answer yet
	unfinished int       // requests given up, without answer so far, and tasks
	until      time.Time // when those given up stop counting
	tail       time.Time // until then more may come about a request that was answered
}

// busy reports whether the server may still speak about a request of the lease.
func (a *account) busy(now time.Time) bool {
	return a.open > 0 || a.goesOn(now) || now.Before(a.tail)
}

// goesOn reports whether the server may still work on a request given up.
func (a *account) goesOn(now time.Time) bool { return a.unfinished > 0 && now.Before(a.until) }

// accountLocked returns the account of a lease.
func (y *activity) accountLocked(l *Lease) *account {
	if a := y.accounts[l.number]; a != nil {
		return a
	}
	now := time.Now()
	for number, old := range y.accounts { // leases come and go
		if !old.busy(now) {
			delete(y.accounts, number)
		}
	}
	if y.accounts == nil {
		y.accounts = make(map[uint64]*account)
	}
	a := new(account)
	y.accounts[l.number] = a
	return a
}

// sending counts a request of a lease, and returns the account it is counted in. That
// is nil if every message of the server is for the lease's session anyway.
func (y *activity) sending(l *Lease) *account {
	if l == nil || !l.mixed {
		return nil
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	a := y.accountLocked(l)
	a.open++
	return a
}

// answered notes that a request has been answered, or certainly will not be.
func (y *activity) answered(a *account) {
	if a != nil {
		y.mu.Lock()
		defer y.mu.Unlock()
		a.open--
		a.tail = time.Now().Add(trailing)
	}
}

// givenUp notes that the server may go on with a request that does not wait any more.
func (y *activity) givenUp(a *account) {
	if a != nil {
		y.mu.Lock()
		defer y.mu.Unlock()
		a.open--
		a.tail = time.Now().Add(trailing)
		a.unfinished++
		a.until = time.Now().Add(y.window())
	}
}

// late notes that the answer to a request given up has come.
func (y *activity) late(a *account) {
	if a != nil {
		y.mu.Lock()
		defer y.mu.Unlock()
		a.unfinished--
		a.tail = time.Now().Add(trailing)
	}
}

// goesOn counts something that the server goes on with after its answer.
func (y *activity) goesOn(l *Lease) {
	if l.mixed {
		y.mu.Lock()
		defer y.mu.Unlock()
		a := y.accountLocked(l)
		a.unfinished++
		a.until = time.Now().Add(y.window())
	}
}

// notified notes that the lease has sent a notification, about which the server may
// say something.
func (y *activity) notified(l *Lease) {
	if l.mixed {
		y.mu.Lock()
		defer y.mu.Unlock()
		y.accountLocked(l).tail = time.Now().Add(trailing)
	}
}

// ambiguous reports whether a message may be about a request of another lease, or,
// where the clients behind the lease know nothing of each other, about one that
// its client has given up.
func (y *activity) ambiguous(l *Lease) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	now := time.Now()
	for number, a := range y.accounts {
		if number == l.number && l.listener.Pooled && a.goesOn(now) || number != l.number && a.busy(now) {
			return true
		}
	}
	return false
}

// attribute returns the only lease that a message can be for, nil if there are several.
// p is the request on the stream of which it came; nil: none that is unanswered.
func (in *instance) attribute(c *conn, p *pending) *Lease {
	if p != nil && p.lease != nil {
		if p.lease.listener.Pooled {
			return nil // it is for one of its clients
		}
		return p.lease
	}
	leases := in.leases.list()
	if len(leases) != 1 || leases[0].mixed && c.activity.ambiguous(leases[0]) {
		return nil
	}
	return leases[0]
}
