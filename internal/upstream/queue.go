package upstream

import (
	"slices"
	"sync"
	"sync/atomic"
)

// queue orders the requests of one session to one server by arrival, whatever each of them waits
// for. A request is sent once all earlier ones have been sent, with one exception: while a read
// waits for the limit of its host, reads for other hosts may pass it. A write never passes a
// request and is never passed.
type queue struct {
	mu     sync.Mutex
	places []*place // unsent requests in order of arrival
}

// Turn is the place of one request in the queue of its session. The zero Turn is in no queue: it
// neither waits for other requests nor delays them.
type Turn struct{ *place }

// place is a queue entry, guarded by the mutex of the queue.
type place struct {
	queue    *queue
	reads    bool          // known to be a read; until that is known, nothing passes it
	host     string        // for a read: the host whose limit applies
	yielding bool          // for a read: waiting for the limit of its host
	wake     chan struct{} // closed when the request may be sent; nil if nothing waits
	held     bool          // released only when its request is sent
	released atomic.Bool   // the request was sent or dropped; written with the mutex held
}

func (q *queue) take() Turn {
	p := &place{queue: q}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.places = append(q.places, p)
	return Turn{p}
}

// eligible yields the places whose requests may be sent now, in order.
func (q *queue) eligible(yield func(*place) bool) {
	var limited []string // hosts that an earlier read waits for
	for i, p := range q.places {
		if i > 0 && !p.reads {
			return
		}
		if slices.Contains(limited, p.host) {
			continue // an earlier read of this host must go first
		}
		if !yield(p) || !p.yielding {
			return
		}
		limited = append(limited, p.host)
	}
}

// wakeLocked wakes the waiting requests that may be sent now.
func (q *queue) wakeLocked() {
	for p := range q.eligible {
		if p.wake != nil {
			close(p.wake)
			p.wake = nil
		}
	}
}

// update changes the place and wakes requests that may be sent as a result. It does nothing for
// the zero Turn.
func (t Turn) update(change func(*place)) {
	if t.place == nil {
		return
	}
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	change(t.place)
	t.queue.wakeLocked()
}

// ready returns nil if req may be sent now. Otherwise it returns a channel that is closed when
// req may be sent; the caller must then call ready again, as the turn may be lost meanwhile.
func (t Turn) ready(req *Request) (ready <-chan struct{}) {
	t.update(func(p *place) {
		if p.released.Load() {
			return // a retry
		}
		p.reads, p.host = req.Reads, req.Host // others may now pass it
		for other := range p.queue.eligible {
			if other == p {
				return
			}
		}
		if p.wake == nil {
			p.wake = make(chan struct{})
		}
		ready = p.wake
	})
	return ready
}

// yield sets whether the request, which has its turn, waits for the limit of its host. While a
// read waits, reads for other hosts are sent.
func (t Turn) yield(yields bool) {
	t.update(func(p *place) { p.yielding = yields && p.reads })
}

// Follow marks the request as a read that waits for the answer to a prefetch, which is in no
// queue and waits for the limit of host. The place is kept until the prefetch has been sent;
// meanwhile reads for other hosts may pass.
func (t Turn) Follow(host string) {
	t.update(func(p *place) { p.reads, p.host, p.yielding = true, host, true })
}

// Reclaim returns the turn for a request that must be sent after all, although another request's
// answer was expected to serve it: its own turn if it still has that, or else a new one.
// [Turn.Release] no longer releases a reclaimed turn. The zero Turn returns itself.
func (t Turn) Reclaim() Turn {
	released := false
	t.update(func(p *place) { released, p.held = p.released.Load(), true })
	if released {
		return t.queue.take()
	}
	return t
}

// Release releases the place unless it was reclaimed. It may be called repeatedly, and on the
// zero Turn.
func (t Turn) Release() { t.release(false) }

// release releases the place. A held place is released only if sent is true.
func (t Turn) release(sent bool) {
	if t.place == nil || t.released.Load() {
		return
	}
	t.update(func(p *place) {
		if !p.released.Load() && (sent || !p.held) {
			p.released.Store(true)
			p.queue.places = slices.DeleteFunc(p.queue.places, func(other *place) bool { return other == p })
		}
	})
}
