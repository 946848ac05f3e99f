package upstream

import (
	"slices"
	"sync"
	"sync/atomic"
)

// queue keeps the requests of one session to one server in the order in which
// they arrived, whatever each of them waits for before it can be sent. A request
// is sent once all before it have been, with one exception: while a read waits
// for the limit of its host, reads for other hosts may go first. A write passes
// nothing, and nothing passes a write.
type queue struct {
	mu     sync.Mutex
	places []*place // of requests that have not been sent, in order of arrival
}

// Turn is the place of one request in the queue of its session. The zero Turn is in
// no queue: it waits for no request, and none waits for it.
type Turn struct{ *place }

// place is an entry of a queue, the mutex of which guards it.
type place struct {
	queue  *queue
	reads  bool          // the request is known to be a read; before it is known, nothing passes it
	host   string        // of a read: the host it counts for
	yields bool          // of a read: it waits for the limit of its host
	turned chan struct{} // closed when its turn has come; nil: nothing waits for that
	held   bool          // only the request that is sent in it gives it up
	left   atomic.Bool   // the request has been sent, or will not be; set with the mutex held
}

func (q *queue) take() Turn {
	p := &place{queue: q}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.places = append(q.places, p)
	return Turn{p}
}

// next yields the places that have their turn, in order.
func (q *queue) next(yield func(*place) bool) {
	var limited []string // hosts with a read further ahead that waits for their limit
	for i, p := range q.places {
		if i > 0 && !p.reads {
			return
		}
		if slices.Contains(limited, p.host) {
			continue // behind a read of the same host, which is to be sent first
		}
		if !yield(p) || !p.yields {
			return
		}
		limited = append(limited, p.host)
	}
}

// turnLocked wakes the waiting requests that may be sent now.
func (q *queue) turnLocked() {
	for p := range q.next {
		if p.turned != nil {
			close(p.turned)
			p.turned = nil
		}
	}
}

// update changes what the queue knows of the request, which may let others go; it
// does nothing to the zero Turn.
func (t Turn) update(change func(*place)) {
	if t.place == nil {
		return
	}
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	change(t.place)
	t.queue.turnLocked()
}

// ask returns nil if req may be sent now, else a channel that is closed when it
// may be, unless its turn is lost again by then: ask once more.
func (t Turn) ask(req *Request) (turned <-chan struct{}) {
	t.update(func(p *place) {
		if p.left.Load() {
			return // it is sent once more
		}
		p.reads, p.host = req.Reads, req.Host // others may pass it now
		for other := range p.queue.next {
			if other == p {
				return
			}
		}
		if p.turned == nil {
			p.turned = make(chan struct{})
		}
		turned = p.turned
	})
	return turned
}

// waits notes whether the request, which has its turn, waits for the limit of its
// host. If it is a read, reads for other hosts are sent meanwhile.
func (t Turn) waits(yields bool) {
	t.update(func(p *place) { p.yields = yields && p.reads })
}

// Follow says that the request, a read, waits for the answer to another one, which is
// in no queue and waits for the limit of a host. Its place is kept until that one has
// been sent; reads for other hosts are sent meanwhile.
func (t Turn) Follow(host string) {
	t.update(func(p *place) { p.reads, p.host, p.yields = true, host, true })
}

// Reclaim returns the turn in which a request is sent after all that was to be answered
// by another one: its own, if it still has that, which [Turn.Release] does not give up any
// more, else a new one. For the zero Turn it is the zero Turn.
func (t Turn) Reclaim() Turn {
	left := false
	t.update(func(p *place) { left, p.held = p.left.Load(), true })
	if left {
		return t.queue.take()
	}
	return t
}

// Release gives up the place, if no request is sent in it. It may be called again, and
// on the zero Turn.
func (t Turn) Release() { t.release(false) }

// leave gives up the place, one that is held only for the request that is sent in it. The
// end of a call leaves the place that its sending has left.
func (t Turn) release(sent bool) {
	if t.place == nil || t.left.Load() {
		return
	}
	t.update(func(p *place) {
		if !p.left.Load() && (sent || !p.held) {
			p.left.Store(true)
			p.queue.places = slices.DeleteFunc(p.queue.places, func(other *place) bool { return other == p })
		}
	})
}
