package record

import "sync"

// queued is an event on its way to the writer.
type queued struct {
	event Event
	full  bool // its arguments are recorded
}

// queue holds the events that the writer has not taken yet. It is a slice and no channel,
// of which each send would wake the writer: that costs a call of 1 KB more than all else
// that is done for it. The writer is woken by the first event, to look a moment later, and
// when there are many.
type queue struct {
	wake chan struct{} // capacity 1

	mu      sync.Mutex
	events  []queued
	waiting int // bytes of their arguments
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// put adds an event, if there is room.
func (q *queue) put(e queued) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	size := len(e.event.RawArguments)
	if len(q.events) >= maxQueued || size > 0 && q.waiting+size > maxWaiting {
		return false
	}
	q.events = append(q.events, e)
	q.waiting += size
	if len(q.events) == 1 || q.crowdedLocked() {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// crowdedLocked reports whether so many events wait that more are not to be waited for.
func (q *queue) crowdedLocked() bool { return len(q.events) >= batch || q.waiting >= batch<<10 }

func (q *queue) crowded() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.crowdedLocked()
}

// take returns the events that wait, in order, and uses the memory of those that were taken
// before for the next ones.
func (q *queue) take(done []queued) []queued {
	if cap(done) > 2*batch {
		done = nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.events
	q.events, q.waiting = done[:0], 0
	return taken
}
