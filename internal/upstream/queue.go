package upstream

import (
	"slices"
	"sync"
	"sync/atomic"
)

// queue orders the requests of one session to one server by arrival, whatever each of them waits
// for. A request is sent once all earlier ones have been sent or dropped.
type queue struct {
	mu    sync.Mutex
	turns []*Turn // unsent requests in order of arrival
}

// Turn is the place of one request in the queue of its session, and guarded by the queue's mutex.
// A nil Turn is in no queue: it neither waits for other requests nor delays them.
type Turn struct {
	queue     *queue
	wake      chan struct{} // closed when the turn is the first; nil if nothing waits
	reclaimed bool          // released only when its request was sent or has failed
	released  atomic.Bool   // the request was sent or dropped; written with the mutex held
}

func (q *queue) take() *Turn {
	t := &Turn{queue: q}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turns = append(q.turns, t)
	return t
}

// ready returns nil if the request may be sent now, and a channel that is closed when it may be
// otherwise.
func (t *Turn) ready() <-chan struct{} {
	if t == nil {
		return nil
	}
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if t.released.Load() || t.queue.turns[0] == t { // a released turn is that of a retry
		return nil
	}
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return t.wake
}

// Reclaim returns the turn for a request that is to be sent: its own turn, or a new one if it has released that, as
// another request's answer was expected to serve it. [Turn.Release] no longer releases a reclaimed turn. A nil Turn
// returns nil.
func (t *Turn) Reclaim() *Turn {
	if t == nil {
		return nil
	}
	t.queue.mu.Lock()
	released := t.released.Load()
	t.reclaimed = true
	t.queue.mu.Unlock()
	if released {
		return t.queue.take()
	}
	return t
}

// Release releases the turn unless it was reclaimed. It may be called repeatedly, and on a nil
// Turn.
func (t *Turn) Release() { t.release(false) }

// release releases the turn. A reclaimed turn is released only if finished is true: its request was sent
// or has failed.
func (t *Turn) release(finished bool) {
	if t == nil || t.released.Load() {
		return
	}
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.released.Load() || t.reclaimed && !finished {
		return
	}
	t.released.Store(true)
	q.turns = slices.DeleteFunc(q.turns, func(other *Turn) bool { return other == t })
	if len(q.turns) > 0 && q.turns[0].wake != nil {
		close(q.turns[0].wake)
		q.turns[0].wake = nil
	}
}
