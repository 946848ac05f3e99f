package dedup

import (
	"context"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
)

// Do answers q from the store, by a flight in progress, or by a new one, for which it calls
// fetch before it returns, unless another replica has shared the answer. fetch must ensure that
// [Flight.Finish] is called once, on any goroutine; its context ends when no call is waiting any
// more. If ctx ends first, only this waiter is completed, with the cause. unsent reports that q
// joined a prefetch that has not been sent yet.
func (s *Store) Do(ctx context.Context, q Query, w *Waiter, fetch func(ctx context.Context, f *Flight)) (unsent bool) {
	file := q.fileState()                // before the request is sent, and before the store is read
	seen := s.lookUpPeers(ctx, q.Places) // likewise
	w.query = q
	s.mu.Lock()
	now := s.clock()
	s.bumpChangedLocked(q.Places, &seen)
	if !seen.valid {
		f, fetching := s.beginLocked(ctx, &q, file, now)
		f.notKept = invalidated
		f.fetchLocked(ctx, fetching, w, fetch)
		return false
	}
	e, backedOff := s.storedLocked(&q, file, now)
	if e != nil && !q.comparesOnly(e.prefetch) {
		o := s.hitLocked(&q, e, backedOff, now)
		s.mu.Unlock()
		w.Done(o)
		return false
	}
	on := s.joinableLocked(&q, file, now)
	if on != nil && !q.comparesOnly(on.prefetch) {
		on.joinLocked(ctx, w, now)
		unsent = on.prefetch != nil && !on.prefetch.sent
		s.mu.Unlock()
		return unsent
	}
	s.startComparisonLocked(&q, e, on)
	f, fetching := s.beginLocked(ctx, &q, file, now)
	f.compareTo, f.compareToFlight = e, on
	f.fetchLocked(ctx, fetching, w, f.throughPeers(seen, w.Sent, fetch))
	return false
}

// fetchLocked makes w the leader of the flight, unlocks the store and calls fetch.
func (f *Flight) fetchLocked(ctx, fetching context.Context, w *Waiter, fetch func(context.Context, *Flight)) {
	f.leader = w
	f.waitLocked(ctx, w)
	f.store.mu.Unlock()
	f.fetch(fetching, fetch)
}

// storedLocked returns the stored answer that q may be served, or nil, and whether it may
// be only because the client must back off. An answer that can never be served again is
// removed.
func (s *Store) storedLocked(q *Query, file fileState, now age.Moment) (e *entry, backedOff bool) {
	e, ok := s.answers.entries.Get(q.Key)
	if !ok {
		return nil, false
	}
	serves, backedOff, never := s.servableLocked(q, e, &file, now)
	if never != "" {
		s.removeLocked(e, never)
	}
	if !serves {
		return nil, false
	}
	return e, backedOff
}

// servableLocked reports whether q may be served a stored answer, whether it may be only
// because the client must back off, and why, by these rules, no call will be again. A file of unknown
// state (nil) is taken as unchanged.
func (s *Store) servableLocked(q *Query, e *entry, file *fileState, now age.Moment) (serves, backedOff bool, never cause) {
	current := s.epochs.current(e.epoch, e.places, q.Places)
	switch {
	case !current || file != nil && !file.matches(e.file):
		return false, false, invalidated
	case q.Reuse.admits(e.prefetch != nil, e.asked, now.Since(e.began)):
		return true, false, ""
	case !q.Reuse.backsOff() || q.comparesOnly(e.prefetch):
		return false, false, expired
	}
	backedOff = q.Delivered.holdsBack(q, e.id, now)
	return backedOff, backedOff, ""
}

// hitLocked returns the outcome of a call that is served a stored answer.
func (s *Store) hitLocked(q *Query, e *entry, backedOff bool, now age.Moment) Outcome {
	o := Outcome{
		Body: e.body, Stateless: e.stateless, How: Hit, Took: e.took,
		Prefetched: e.prefetch != nil, BackedOff: backedOff, Age: now.Since(e.began),
	}
	if !e.asked {
		s.answers.unasked.Remove(e)
		s.usedLocked(&o, e.prefetch, q.Number, call.Ready)
	}
	e.asked = true
	o.Repeated, o.BackOff = q.Delivered.record(&s.epochs, q, e, backedOff, now)
	if !q.Reuse.admits(e.prefetch != nil, e.asked, o.Age) && !q.Reuse.backsOff() {
		s.removeLocked(e, consumed)
	}
	return o
}

// joinableLocked returns the flight that q may join, or nil.
func (s *Store) joinableLocked(q *Query, file fileState, now age.Moment) *Flight {
	f := s.byKey[q.Key]
	if f == nil || f.finished || f.notKept != "" || f.prefetch != nil && f.prefetch.overdue {
		return nil // also if a remote write was settling when it began
	}
	current := s.epochs.current(f.epoch, f.query.Places, q.Places)
	switch {
	case !current || !file.matches(f.file):
		return nil
	case !q.Reuse.mayJoin(f.prefetch != nil, now.Since(f.began), f.askedLocked(now)):
		return nil
	}
	return f
}

// Peek returns the answer that a call would be served now, or false if there is none, or if
// the call needs its file's state or a comparison. It does not count as use. The caller must not
// modify the body.
func (s *Store) Peek(ctx context.Context, q Query) (body []byte, ok bool) {
	if q.Reuse.File != "" || q.Reuse.CompareOnly {
		return nil, false
	}
	seen := s.lookUpPeers(ctx, q.Places)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bumpChangedLocked(q.Places, &seen)
	e, ok := s.answers.entries.Peek(q.Key)
	if !ok || !seen.valid {
		return nil, false
	}
	if serves, backedOff, _ := s.servableLocked(&q, e, nil, s.clock()); !serves || backedOff {
		return nil, false
	}
	return e.body, true
}

// MarkShown records that the client of q was given the answer as part of another answer,
// shortened or in another form. It is then not prefetched again, and a call that asks for
// it gets it in full. It counts as one of q's Repeats.
func (s *Store) MarkShown(q Query) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.answers.entries.Peek(q.Key); ok {
		q.Delivered.record(&s.epochs, &q, e, false, s.clock())
		q.Delivered.Referenced(q.Key)
	}
}
