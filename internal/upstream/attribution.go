package upstream

import "time"

// Many messages of a server name no request: over stdio and HTTP+SSE none does but
// progress, over streamable HTTP those do not that come on the stream of the
// server's own. On a connection that serves several sessions such a message may be
// about any request that its server could still be working on, and belongs to a
// session only if no other session has such a request.

const (
	// writeSettle is Options.Settle where it is not set.
	writeSettle = time.Minute
	// trailing is how long after an answer more may come about its request: a
	// server logs what it has done, and over HTTP another stream may be slower.
	// It must be longer than lingerTime.
	trailing = 2 * time.Second
)

// account is what one lease has under way over one connection.
type account struct {
	open       int       // requests that are waited for
	unfinished int       // requests given up, without answer so far, and tasks
	until      time.Time // when those given up count no more
	tail       time.Time // until then more may come about a request that was answered
}

// busy reports whether the server may still speak about a request of the lease.
func (a *account) busy(now time.Time) bool {
	return a.open > 0 || a.abandoned(now) || now.Before(a.tail)
}

// abandoned reports whether the server may still work on a request given up.
func (a *account) abandoned(now time.Time) bool { return a.unfinished > 0 && now.Before(a.until) }

// accountLocked returns the account of a lease, nil if all messages are its
// session's anyway.
func (c *conn) accountLocked(l *Lease) *account {
	if l == nil || !l.mixed {
		return nil
	}
	if a := c.accounts[l.number]; a != nil {
		return a
	}
	now := time.Now()
	for number, old := range c.accounts { // leases come and go
		if !old.busy(now) {
			delete(c.accounts, number)
		}
	}
	if c.accounts == nil {
		c.accounts = make(map[uint64]*account)
	}
	a := new(account)
	c.accounts[l.number] = a
	return a
}

// enterLocked notes that p waits for its answer.
func (c *conn) enterLocked(p *pending) {
	c.waiting[p.id] = p
	if p.account = c.accountLocked(p.of); p.account != nil {
		p.account.open++
	}
}

// leaveLocked notes that p waits no more.
func (c *conn) leaveLocked(p *pending) {
	delete(c.waiting, p.id)
	if p.account != nil {
		p.account.open--
		p.account.tail = time.Now().Add(trailing)
	}
}

// noteUnfinishedLocked notes that the server may go on with a request that does not wait
// any more.
func (c *conn) noteUnfinishedLocked(a *account) {
	if a == nil {
		return
	}
	a.unfinished++
	a.until = time.Now().Add(c.settle())
}

// answered notes that the answer to a request given up has come.
func (a *account) answered() {
	if a != nil {
		a.unfinished--
		a.tail = time.Now().Add(trailing)
	}
}

// ambiguous reports whether a message may be about a request of another lease, or,
// where the clients behind the lease know nothing of each other, about one that
// its client has given up.
func (c *conn) ambiguous(l *Lease) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for number, a := range c.accounts {
		switch {
		case number == l.number && l.listener.Pooled && a.abandoned(now), number != l.number && a.busy(now):
			return true
		}
	}
	return false
}

// touch notes that a message of the lease went out to which there is no answer.
func (c *conn) touch(l *Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.accountLocked(l); a != nil {
		a.tail = time.Now().Add(trailing)
	}
}

// attribute returns the one lease that a message can be for, nil if that cannot be
// told. p is the request on whose stream it came; nil: none that has no answer.
func (in *instance) attribute(c *conn, p *pending) *Lease {
	if p != nil && p.of != nil {
		if p.of.listener.Pooled {
			return nil // it is for one of its clients
		}
		return p.of
	}
	in.mu.Lock()
	leases := in.leases
	in.mu.Unlock()
	if len(leases) != 1 || leases[0].mixed && c.ambiguous(leases[0]) {
		return nil
	}
	return leases[0]
}

// TaskStarted notes that something the session asked for goes on after its answer,
// as a task does: the server may speak about it when the session has ended, or
// while another of the clients behind a pooled session makes a call.
func (l *Lease) TaskStarted() {
	l.in.mu.Lock()
	gone := l.gone
	l.hasTasks = true
	l.in.mu.Unlock()
	if gone || l.listener.Pooled {
		l.noteUnfinished()
	}
}

// noteUnfinished notes that the server goes on with something that no request of the
// session waits for.
func (l *Lease) noteUnfinished() {
	if c := l.in.live.Load(); c != nil {
		c.mu.Lock()
		c.noteUnfinishedLocked(c.accountLocked(l))
		c.mu.Unlock()
	}
}
