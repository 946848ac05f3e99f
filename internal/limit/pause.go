package limit

import "context"

// Pause gives the slot to other calls until Resume, as the call's server waits for its client, and the
// client may make further calls before it replies. A call with several such waits is paused until the
// last one ends. After Leave, Pause and Resume do nothing.
func (s *Slot) Pause() {
	s.hosts.mu.Lock()
	defer s.hosts.mu.Unlock()
	if s.host == nil {
		return
	}
	if s.paused++; s.paused == 1 {
		s.host.paused++
		s.host.stats.InFlight--
		s.host.dispatch()
	}
}

// Resume ends a Pause. If it was the last one, it blocks until the call has a slot again, before calls
// that have not begun. If ctx ends first, the call is in flight all the same, as its server goes on. If
// an earlier Resume still waits for the slot, Resume returns at once.
func (s *Slot) Resume(ctx context.Context) {
	w := s.enqueueResume()
	if w == nil {
		return
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		s.hosts.mu.Lock()
		defer s.hosts.mu.Unlock()
		if w.queue != nil {
			w.resume()
		}
	}
}

// enqueueResume returns a waiter that waits for a slot, or nil if the call needs none.
func (s *Slot) enqueueResume() *waiter {
	s.hosts.mu.Lock()
	defer s.hosts.mu.Unlock()
	if s.host == nil {
		return nil
	}
	if s.paused > 1 {
		s.paused--
		return nil
	}
	w := &waiter{host: s.host, slot: s, done: make(chan struct{})}
	w.enqueue(&s.host.resuming)
	return w
}

// resume ends the wait of a paused call.
func (w *waiter) resume() {
	if w.slot.paused--; w.slot.paused == 0 {
		w.host.paused--
		w.host.stats.InFlight++
	}
	w.end(w.slot, nil)
}

// Paused reports whether the call is paused.
func (s *Slot) Paused() bool {
	s.hosts.mu.Lock()
	defer s.hosts.mu.Unlock()
	return s.paused > 0
}
