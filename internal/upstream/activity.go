package upstream

import "time"

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

// account is what one lease has under way over one connection. requests.mu guards it.
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

// goOn counts something that the server goes on with.
func (a *account) goOn(window time.Duration) {
	a.unfinished++
	a.until = time.Now().Add(window)
}

// accountLocked returns the account of a lease.
func (r *requests) accountLocked(l *Lease) *account {
	if a := r.accounts[l.number]; a != nil {
		return a
	}
	now := time.Now()
	for number, old := range r.accounts { // leases come and go
		if !old.busy(now) {
			delete(r.accounts, number)
		}
	}
	if r.accounts == nil {
		r.accounts = make(map[uint64]*account)
	}
	a := new(account)
	r.accounts[l.number] = a
	return a
}

// note changes the account of a lease, if it has one.
func (r *requests) note(l *Lease, change func(*account)) {
	if l.mixed {
		r.mu.Lock()
		defer r.mu.Unlock()
		change(r.accountLocked(l))
	}
}

// ambiguous reports whether a message may be about a request of another lease, or,
// where the clients behind the lease know nothing of each other, about one that
// its client has given up.
func (r *requests) ambiguous(l *Lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for number, a := range r.accounts {
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
	if len(leases) != 1 || leases[0].mixed && c.requests.ambiguous(leases[0]) {
		return nil
	}
	return leases[0]
}
