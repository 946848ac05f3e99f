package upstream

import (
	"slices"
	"sync"
)

// queue keeps the requests of one session to one server in the order in which
// they arrived, whatever each of them waits for before it can be sent. A request
// is sent once all before it have been, with one exception: while a read waits
// for its host's limit, reads for other hosts may go first. A write passes
// nothing, and nothing passes a write.
type queue struct {
	mu     sync.Mutex
	places []*place // of requests that have not been sent, in order of arrival
}

// Turn is one place in a queue. The zero Turn stands in none: nothing is ahead of
// it, and nothing waits for it.
type Turn struct{ *place }

// place is where a request stands. The mutex of the queue guards it.
type place struct {
	queue  *queue
	reads  bool          // the request is a read that asks for its turn; what is not known yet is not passed
	host   string        // if it is: the host whose limit it goes by
	yields bool          // if it is: it waits for that limit
	turned chan struct{} // closed when its turn has come; nil: it does not wait for that
	held   bool          // what is sent in it gives it up, and nothing else
	left   bool          // it has been sent, or will not be
}

func (q *queue) take() Turn {
	p := &place{queue: q}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.places = append(q.places, p)
	return Turn{p}
}

// next yields the places whose turn has come, in order.
func (q *queue) next(yield func(*place) bool) {
	var limited []string // hosts for whose limits reads further ahead wait
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

// turnLocked tells the waiting requests whose turn has come.
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
		if p.left {
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

// waits notes whether the request, whose turn has come, waits for the limit of its
// host. If it is a read, reads for other hosts are sent meanwhile.
func (t Turn) waits(yields bool) {
	t.update(func(p *place) { p.yields = yields && p.reads })
}

// Follow says that the request, a read, is to be answered by another that waits for
// the limit of a host and stands in no queue: its place is kept until that has been
// sent, and reads for other hosts are sent meanwhile.
func (t Turn) Follow(host string) {
	t.update(func(p *place) { p.reads, p.host, p.yields = true, host, true })
}

// Hold keeps the place for a request that will be sent in it and may outlive its
// caller: Leave does nothing any more.
func (t Turn) Hold() {
	t.update(func(p *place) { p.held = true })
}

// Again returns the turn of a request that another was to answer and that is sent
// after all: its own if it has kept that, held, else the next. The zero Turn has no
// other.
func (t Turn) Again() Turn {
	left := false
	t.update(func(p *place) { left, p.held = p.left, true })
	if left {
		return t.queue.take()
	}
	return t
}

// Leave gives up the place, if no request is sent in it. It may be called again, and
// on the zero Turn.
func (t Turn) Leave() { t.leave(false) }

// leave gives up the place, one that is held only for the request that is sent in it.
func (t Turn) leave(sent bool) {
	t.update(func(p *place) {
		if !p.left && (sent || !p.held) {
			p.left = true
			p.queue.places = slices.DeleteFunc(p.queue.places, func(other *place) bool { return other == p })
		}
	})
}
