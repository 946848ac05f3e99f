package upstream

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// abandonedKept is how many requests of one connection are remembered that were
	// given up; the oldest go first.
	abandonedKept = 4096
	// writeSettle is Options.WriteSettle where it is not set.
	writeSettle = time.Minute
	// trailing is how long after an answer more may come about its request: a
	// server logs what it has done, and over HTTP another stream may be slower.
	// It must be longer than lingerTime.
	trailing = 2 * time.Second
)

// requests is the table of what one connection has under way: the requests that have no
// answer yet, and the last ones that were given up, because their answers may still come.
// A request is taken out exactly once, and what takes it out tells its outcome.
//
// Most messages of a server do not name the request they belong to: over stdio and
// HTTP+SSE only progress does, over streamable HTTP the messages on the server's own
// stream do not. On a connection that serves several sessions such a message may be
// about any request that the server could still be working on. So the table also counts
// what each of them has under way, and such a message is given to a session only if no
// other has anything.
type requests struct {
	mu        sync.Mutex
	closed    bool
	last      int64 // the id of the last request
	waiting   map[int64]*pending
	abandoned *simplelru.LRU[int64, abandoned]
	activity  map[*Lease]*activity // of leases that share the connection
}

// abandoned is a request that was given up.
type abandoned struct {
	late     func()    // Request.Late; may be nil
	activity *activity // may be nil
}

// activity is what one lease has under way.
type activity struct {
	open       int       // requests that have no answer yet
	unfinished int       // requests given up, without answer so far, and tasks
	until      time.Time // when those given up stop counting
	tail       time.Time // until then more may come about a request that was answered
}

func newRequests() *requests {
	lru, _ := simplelru.NewLRU[int64, abandoned](abandonedKept, nil) // an error: no size
	return &requests{waiting: make(map[int64]*pending), abandoned: lru, activity: make(map[*Lease]*activity)}
}

// busy reports whether the server may still speak about a request of the lease.
func (a *activity) busy(now time.Time) bool {
	return a.open > 0 || a.goesOn(now) || now.Before(a.tail)
}

// goesOn reports whether the server may still work on a request given up.
func (a *activity) goesOn(now time.Time) bool { return a.unfinished > 0 && now.Before(a.until) }

// of returns the activity of a lease; nil if it shares the connection with no other, so
// that every message of the server is for its session anyway. mu is held.
func (r *requests) of(l *Lease) *activity {
	if l == nil || !l.mixed {
		return nil
	}
	a := r.activity[l]
	if a == nil {
		now := time.Now()
		for other, old := range r.activity { // leases come and go
			if !old.busy(now) {
				delete(r.activity, other)
			}
		}
		a = new(activity)
		r.activity[l] = a
	}
	return a
}

// note changes the activity of a lease, if it has one.
func (r *requests) note(l *Lease, change func(*activity)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.of(l); a != nil {
		change(a)
	}
}

// ambiguous reports whether a message may be about a request of another lease, or,
// where the clients behind the lease know nothing of each other, about one that
// its client has given up.
func (r *requests) ambiguous(l *Lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for other, a := range r.activity {
		if other == l && l.listener.Pooled && a.goesOn(now) || other != l && a.busy(now) {
			return true
		}
	}
	return false
}

// add numbers a request, which waits from now on; false if the connection has ended.
func (r *requests) add(p *pending) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.last++
	p.id = r.last
	r.waiting[p.id] = p
	if p.activity = r.of(p.lease); p.activity != nil {
		p.activity.open++
	}
	return true
}

// lastID is the id of the last request that was made.
func (r *requests) lastID() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// find returns the request that waits under id, nil if none does.
func (r *requests) find(id int64) *pending {
	if id == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[id]
}

// take is find for a request that waits no more. goesOn says for how long the server may
// go on with it all the same; 0: it does not.
func (r *requests) take(id int64, goesOn time.Duration) *pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.takeLocked(id, goesOn)
}

func (r *requests) takeLocked(id int64, goesOn time.Duration) *pending {
	p := r.waiting[id]
	if p == nil {
		return nil
	}
	delete(r.waiting, id)
	if a := p.activity; a != nil {
		a.open--
		a.tail = time.Now().Add(trailing)
		if goesOn > 0 {
			a.unfinished++
			a.until = time.Now().Add(goesOn)
		}
	}
	return p
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
func (r *requests) abandon(p *pending, goesOn time.Duration, mayCome bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.takeLocked(p.id, goesOn) == nil {
		return false
	}
	if mayCome && (p.req.Late != nil || p.activity != nil) {
		r.abandoned.Add(p.id, abandoned{p.req.Late, p.activity})
	}
	return true
}

// late takes the answer to a request that was given up.
func (r *requests) late(id int64) {
	r.mu.Lock()
	a, _ := r.abandoned.Peek(id)
	r.abandoned.Remove(id)
	if a.activity != nil {
		a.activity.unfinished--
		a.activity.tail = time.Now().Add(trailing)
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
	r.closed, r.waiting = true, nil
	r.abandoned.Purge()
	return waiting
}
