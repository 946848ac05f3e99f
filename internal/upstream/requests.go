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
)

// requests is the table of one connection's requests: the ones without an answer, and the most
// recently cancelled ones, whose answers may still arrive. Each request is removed exactly once,
// and the remover reports its outcome.
type requests struct {
	mu           sync.Mutex
	closed       bool
	newest       int64 // the highest id so far
	waiting      map[int64]*pending
	abandoned    *simplelru.LRU[int64, func()] // Request.Late by id
	unclearUntil time.Time                     // until then messages may be about a request without a client
}

func newRequests() *requests {
	lru, _ := simplelru.NewLRU[int64, func()](maxAbandoned, nil) // fails only for a size below 1
	return &requests{waiting: make(map[int64]*pending), abandoned: lru}
}

// unclear reports whether a message that names no request may concern another client than that of
// l: another session has a request in flight, or a request was given up recently.
func (r *requests) unclear(l *Lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.waiting {
		if p.lease != nil && p.lease != l {
			return true
		}
	}
	return time.Now().Before(r.unclearUntil)
}

// noteUnfinished records that for the given time the server may work on something that no client
// waits for.
func (r *requests) noteUnfinished(wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unclearUntil = time.Now().Add(wait)
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

// remove removes and returns the pending request with this id, or nil.
func (r *requests) remove(id int64) *pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.waiting[id]
	delete(r.waiting, id)
	return p
}

// abandon removes a request that is cancelled, and keeps its late func if an answer may still
// arrive. It returns false if the request already has an outcome.
func (r *requests) abandon(p *pending, mayAnswer bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[p.id] == nil {
		return false
	}
	delete(r.waiting, p.id)
	if mayAnswer && p.req.Late != nil {
		r.abandoned.Add(p.id, p.req.Late)
	}
	return true
}

// lateAnswer handles the answer to a cancelled request.
func (r *requests) lateAnswer(id int64) {
	r.mu.Lock()
	late, ok := r.abandoned.Peek(id)
	r.abandoned.Remove(id)
	r.mu.Unlock()
	if ok {
		late()
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
