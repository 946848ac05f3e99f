package dedup

import (
	"context"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
)

// Do answers q from the store, by a flight in progress, or by a new one, for which it calls
// fetch before it returns. fetch must ensure that [Flight.Settle] is called once, on any
// goroutine; its context ends when no call is waiting any more. If ctx ends first, only
// this waiter is completed, with the cause. unsent reports that q joined a prefetch whose
// request has not been sent yet.
func (s *Store) Do(ctx context.Context, q Query, w *Waiter, fetch func(ctx context.Context, f *Flight)) (unsent bool) {
	var file fileState
	if q.Reuse.File != "" {
		file = statFile(q.Reuse.File) // before the request is sent, and before the store is read
	}
	seen := s.askPeers(ctx, q.Places) // likewise
	s.mu.Lock()
	now := s.clock()
	s.applyLocked(q.Places, &seen)
	if !seen.valid {
		f, fetching := s.beginLocked(ctx, &q, file, now)
		f.notKept = invalidated
		f.unlistLocked()
		return s.fetchLocked(ctx, f, fetching, q, w, fetch)
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
		w.query = q
		on.joinLocked(ctx, w, now)
		unsent = on.prefetch != nil && !on.prefetch.sent
		s.mu.Unlock()
		return unsent
	}
	comparing := s.startComparisonLocked(&q, e, on)
	f, fetching := s.beginLocked(ctx, &q, file, now)
	f.comparing = comparing
	return s.fetchLocked(ctx, f, fetching, q, w, f.throughPeers(seen, w.Sent, fetch))
}

// fetchLocked makes w the leader of the flight, unlocks the store and calls fetch.
func (s *Store) fetchLocked(ctx context.Context, f *Flight, fetching context.Context, q Query, w *Waiter, fetch func(context.Context, *Flight)) (unsent bool) {
	w.query = q
	f.leader = w
	f.waitLocked(ctx, w)
	s.mu.Unlock()
	f.fetch(fetching, fetch)
	return false
}

// storedLocked returns the stored answer that q may be served, or nil, and whether it may
// be only because the client must back off. An answer that can never be served again is
// removed.
func (s *Store) storedLocked(q *Query, file fileState, now age.Moment) (e *entry, backedOff bool) {
	e, ok := s.answers.entries.Get(q.Key)
	if !ok {
		return nil, false
	}
	serves, backedOff, never := s.servableLocked(q, e, q.Reuse.File == "" || file.matches(e.file), now)
	if never != "" {
		s.removeLocked(e, never)
	}
	if !serves {
		return nil, false
	}
	return e, backedOff
}

// servableLocked reports whether q may be served a stored answer, whether it may be only
// because the client must back off, and why no call ever will be again. same reports
// whether the file is unchanged.
func (s *Store) servableLocked(q *Query, e *entry, same bool, now age.Moment) (serves, backedOff bool, never cause) {
	current := s.epochs.current(e.epoch, e.places, q.Places) // the check when served
	switch {
	case !current || !same:
		return false, false, invalidated
	case q.Reuse.admits(e.prefetch != nil, e.used, now.Since(e.began)):
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
	if backedOff {
		s.counts.BackedOff++
	}
	if !e.asked() {
		s.answers.unasked.Remove(e)
		s.usedLocked(&o, e.prefetch, q.Number, call.Ready)
	}
	e.used = true
	o.Repeated, o.BackOff = q.Delivered.record(&s.epochs, q, e, backedOff, now)
	if !q.Reuse.admits(e.prefetch != nil, e.used, o.Age) && !q.Reuse.backsOff() {
		s.removeLocked(e, consumed)
	}
	return o
}

// joinableLocked returns the flight that q may join, or nil.
func (s *Store) joinableLocked(q *Query, file fileState, now age.Moment) *Flight {
	f := s.table[q.Key]
	if f == nil || f.settled || f.notKept != "" || f.prefetch != nil && f.prefetch.overdue {
		return nil // also if a remote write was settling when it began
	}
	current := s.epochs.current(f.epoch, f.query.Places, q.Places) // the check when joined
	switch {
	case !current || q.Reuse.File != "" && !file.matches(f.file):
		return nil
	case !q.Reuse.mayJoin(f.prefetch != nil, now.Since(f.began), f.askedLocked(now)):
		return nil
	}
	return f
}
