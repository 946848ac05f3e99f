package record

import "sync"

// queued is an event in the writer's queue.
type queued struct {
	event Event
	full  bool // record its arguments in full
}

// queue holds the events that the writer has not taken yet. It is a slice because each send on
// a channel would wake the writer, which costs a call of 1 KB more than the rest of its
// processing. The queue wakes the writer on the first event, so that it takes the events a
// moment later, and when a batch is ready.
type queue struct {
	wake chan struct{} // capacity 1

	mu      sync.Mutex
	events  []queued
	waiting int // bytes of the events' arguments
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// put adds an event and reports whether there was room.
func (q *queue) put(e queued) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	size := len(e.event.RawArguments)
	if len(q.events) >= maxQueued || size > 0 && q.waiting+size > maxQueuedArguments {
		return false
	}
	q.events = append(q.events, e)
	q.waiting += size
	if len(q.events) == 1 || q.batchReadyLocked() {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// batchReadyLocked reports whether enough events are queued to be taken at once.
func (q *queue) batchReadyLocked() bool { return len(q.events) >= batch || q.waiting >= batch<<10 }

func (q *queue) batchReady() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.batchReadyLocked()
}

// take returns the queued events in order. The queue reuses the memory of done, the events
// taken before.
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
