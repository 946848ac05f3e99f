package upstream

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// abandonedKept is how many requests of one connection are remembered that were
// given up; the oldest go first.
const abandonedKept = 4096

// requests holds the requests of one connection that have no answer yet, and the last
// ones that were given up, because their answers may still come. A request is taken
// out exactly once, and what takes it out tells its outcome.
type requests struct {
	window func() time.Duration // Upstream.writeSettle: how long a request given up may still be spoken of
	last   atomic.Int64         // the id of the last one

	mu        sync.Mutex
	closed    bool
	waiting   map[int64]*pending
	abandoned *simplelru.LRU[int64, abandoned] // nil: none was
	accounts  map[uint64]*account              // Lease.number → what it has under way
}

// abandoned is a request that was given up.
type abandoned struct {
	late    func()   // Request.Late; may be nil
	account *account // may be nil
}

// add numbers a request, which waits from now on; false if the connection has ended.
func (r *requests) add(p *pending) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	if r.waiting == nil {
		r.waiting = make(map[int64]*pending)
	}
	p.id = r.last.Add(1)
	r.waiting[p.id] = p
	if p.lease != nil && p.lease.mixed { // else every message of the server is for the lease's session anyway
		p.account = r.accountLocked(p.lease)
		p.account.open++
	}
	return true
}

// made reports whether there has been a request with that id.
func (r *requests) made(id int64) bool { return id > 0 && id <= r.last.Load() }

// find returns the request that waits under id, nil if none does.
func (r *requests) find(id int64) *pending {
	if id == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[id]
}

// take is find for a request that waits no more. goesOn says that the server may go on
// with it all the same.
func (r *requests) take(id int64, goesOn bool) *pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.waiting[id]
	if p != nil {
		r.removeLocked(p, goesOn)
	}
	return p
}

func (r *requests) removeLocked(p *pending, goesOn bool) {
	delete(r.waiting, p.id)
	if p.account != nil {
		p.account.open--
		p.account.tail = time.Now().Add(trailing)
		if goesOn {
			p.account.goOn(r.window())
		}
	}
}

// limited notes on a request what its HTTP status said.
func (r *requests) limited(id int64, retryAfter string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.waiting[id]; p != nil {
		p.limited, p.retryAfter = true, retryAfter
	}
}

// abandon takes out a request that is given up, and remembers what its answer means
// if that may still come. It is false if the request waits no more: its outcome is
// on the way.
func (r *requests) abandon(p *pending, mayCome bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[p.id] != p {
		return false
	}
	r.removeLocked(p, true)
	if mayCome && (p.req.Late != nil || p.account != nil) {
		if r.abandoned == nil {
			r.abandoned, _ = simplelru.NewLRU[int64, abandoned](abandonedKept, nil) // an error: no size
		}
		r.abandoned.Add(p.id, abandoned{p.req.Late, p.account})
	}
	return true
}

// late takes the answer to a request that was given up.
func (r *requests) late(id int64) {
	r.mu.Lock()
	var a abandoned
	if r.abandoned != nil {
		a, _ = r.abandoned.Peek(id)
		r.abandoned.Remove(id)
	}
	if a.account != nil {
		a.account.unfinished--
		a.account.tail = time.Now().Add(trailing)
	}
	r.mu.Unlock()
	if a.late != nil {
		a.late()
	}
}

// close takes out all requests, after which there are no others.
func (r *requests) close() (waiting map[int64]*pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting = r.waiting
	r.closed, r.waiting, r.abandoned = true, nil, nil
	return waiting
}
