package upstream

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// maxAbandoned is how many cancelled requests a connection remembers; the oldest are evicted.
	maxAbandoned = 4096
	// writeSettle is the default of Options.WriteSettle.
	writeSettle = time.Minute
	// trailing is how long after an answer the server may still send messages about its request:
	// a server may log afterwards, and over HTTP another stream may be slower. It must exceed
	// streamLinger.
	trailing = 2 * time.Second
)

// requests is the table of one connection's requests: the ones without an answer, and the most
// recently cancelled ones, whose answers may still arrive. Each request is removed exactly once,
// and the remover reports its outcome.
//
// Most messages from a server do not name a request: over stdio and HTTP+SSE only progress does,
// and over streamable HTTP messages on the server's own stream do not. On a connection that
// several sessions share, such a message may concern any request that the server could still be
// working on. So the table also counts the activity of each lease, and the message goes to a
// session only if no other has any activity.
type requests struct {
	mu        sync.Mutex
	closed    bool
	newest    int64 // the highest id so far
	waiting   map[int64]*pending
	abandoned *simplelru.LRU[int64, abandoned]
	activity  map[*Lease]*activity // only leases that share the connection
}

// abandoned is a cancelled request.
type abandoned struct {
	late     func()    // Request.Late; may be nil
	activity *activity // may be nil
}

// activity counts one lease's work at the server.
type activity struct {
	inFlight        int       // requests without an answer
	unfinished      int       // cancelled requests without an answer, and tasks
	unfinishedUntil time.Time // when unfinished stops counting
	trailingUntil   time.Time // until then messages about answered requests may arrive
}

func newRequests() *requests {
	lru, _ := simplelru.NewLRU[int64, abandoned](maxAbandoned, nil) // fails only for a size below 1
	return &requests{waiting: make(map[int64]*pending), abandoned: lru, activity: make(map[*Lease]*activity)}
}

// busy reports whether the server may still send messages about a request of the lease.
func (a *activity) busy(now time.Time) bool {
	return a.inFlight > 0 || a.hasUnfinished(now) || now.Before(a.trailingUntil)
}

// hasUnfinished reports whether the server may still be working on a cancelled request or a task.
func (a *activity) hasUnfinished(now time.Time) bool {
	return a.unfinished > 0 && now.Before(a.unfinishedUntil)
}

// activityLocked returns the activity of a lease, or nil if the lease does not share the
// connection.
func (r *requests) activityLocked(l *Lease) *activity {
	if l == nil || !l.multiplexed {
		return nil
	}
	a := r.activity[l]
	if a == nil {
		now := time.Now()
		for other, old := range r.activity { // remove idle leases
			if !old.busy(now) {
				delete(r.activity, other)
			}
		}
		a = new(activity)
		r.activity[l] = a
	}
	return a
}

// note updates the activity of a lease, if it has one.
func (r *requests) note(l *Lease, change func(*activity)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.activityLocked(l); a != nil {
		change(a)
	}
}

// ambiguous reports whether a message may be about a request of another lease, or, for a pooled
// lease, about a request that one of its clients has cancelled.
func (r *requests) ambiguous(l *Lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for other, a := range r.activity {
		if other == l && l.listener.Pooled && a.hasUnfinished(now) || other != l && a.busy(now) {
			return true
		}
	}
	return false
}

// add assigns an id to a request and adds it to the table. It returns false if the connection has
// ended.
func (r *requests) add(p *pending) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.newest++
	p.id = r.newest
	r.waiting[p.id] = p
	if p.activity = r.activityLocked(p.lease); p.activity != nil {
		p.activity.inFlight++
	}
	return true
}

// lastID returns the id of the most recent request.
func (r *requests) lastID() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}

// find returns the pending request with this id, or nil.
func (r *requests) find(id int64) *pending {
	if id == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[id]
}

// remove removes and returns the pending request with this id, or nil. unfinishedFor is how long
// the server may continue to work on the request, or zero.
func (r *requests) remove(id int64, unfinishedFor time.Duration) *pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.removeLocked(id, unfinishedFor)
}

func (r *requests) removeLocked(id int64, unfinishedFor time.Duration) *pending {
	p := r.waiting[id]
	if p == nil {
		return nil
	}
	delete(r.waiting, id)
	if a := p.activity; a != nil {
		a.inFlight--
		a.trailingUntil = time.Now().Add(trailing)
		if unfinishedFor > 0 {
			a.unfinished++
			a.unfinishedUntil = time.Now().Add(unfinishedFor)
		}
	}
	return p
}

// setLimited records that the HTTP status of a request was a rate limit.
func (r *requests) setLimited(id int64, retryAfter string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.waiting[id]; p != nil {
		p.limited, p.retryAfter = true, retryAfter
	}
}

// abandon removes a request that is cancelled, and remembers it if an answer may still arrive. It
// returns false if the request already has an outcome.
func (r *requests) abandon(p *pending, unfinishedFor time.Duration, mayAnswer bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.removeLocked(p.id, unfinishedFor) == nil {
		return false
	}
	if mayAnswer && (p.req.Late != nil || p.activity != nil) {
		r.abandoned.Add(p.id, abandoned{p.req.Late, p.activity})
	}
	return true
}

// lateAnswer handles the answer to a cancelled request.
func (r *requests) lateAnswer(id int64) {
	r.mu.Lock()
	a, _ := r.abandoned.Peek(id)
	r.abandoned.Remove(id)
	if a.activity != nil {
		a.activity.unfinished--
		a.activity.trailingUntil = time.Now().Add(trailing)
	}
	r.mu.Unlock()
	if a.late != nil {
		a.late()
	}
}

// close removes and returns all pending requests, and rejects later ones.
func (r *requests) close() (waiting map[int64]*pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting = r.waiting
	r.closed, r.waiting = true, nil
	r.abandoned.Purge()
	return waiting
}
