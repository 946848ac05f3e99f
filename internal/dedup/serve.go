package dedup

import (
	"context"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
)

// Do answers q: from the store, by a flight that began before, or by one
// of its own, for which fetch is called before Do returns. fetch must see to it
// that [Flight.Settle] is called once, on any goroutine; its context ends when
// no call waits any more. If ctx ends first, the waiter is told so, and other
// waiters are not concerned. unsent says that q waits for a prefetch that has not been
// sent yet.
func (s *Store) Do(ctx context.Context, q Query, w *Waiter, fetch func(ctx context.Context, f *Flight)) (unsent bool) {
	var file fileState
	if q.Reuse.File != "" {
		file = statFile(q.Reuse.File) // before sending, and before what is stored is looked at
	}
	seen := s.askPeers(ctx, q.Places) // likewise
	s.mu.Lock()
	now := s.clock()
	s.applyLocked(q.Places, &seen)
	if !seen.clear {
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
		unsent = on.prefetch != nil && !on.isSent
		s.mu.Unlock()
		return unsent
	}
	comparing := s.startComparisonLocked(&q, e, on)
	f, fetching := s.beginLocked(ctx, &q, file, now)
	f.comparing = comparing
	return s.fetchLocked(ctx, f, fetching, q, w, f.throughPeers(seen, w.Sent, fetch))
}

// fetchLocked has w wait for a flight that it leads, and calls fetch. It unlocks the store.
func (s *Store) fetchLocked(ctx context.Context, f *Flight, fetching context.Context, q Query, w *Waiter, fetch func(context.Context, *Flight)) (unsent bool) {
	w.query = q
	s.counts.Fetched++
	f.leader = w
	f.waitLocked(ctx, w)
	s.mu.Unlock()
	f.fetch(fetching, fetch)
	return false
}

// storedLocked returns the answer in the store that may stand for a new one, and
// whether it may only because the client is to back off. What can never be served
// again is forgotten.
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

// servableLocked reports whether a stored answer may stand for a new one, whether it
// may only because the client is to back off, and why it never will again. same
// says that the file is what it was.
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

// hitLocked is the outcome of a call that is served what is stored.
func (s *Store) hitLocked(q *Query, e *entry, backedOff bool, now age.Moment) Outcome {
	o := Outcome{
		Body: e.body, Stateless: e.stateless, How: Hit, Took: e.took,
		Prefetched: e.prefetch != nil, BackedOff: backedOff, Age: now.Since(e.began),
	}
	s.counts.Hits++
	if backedOff {
		s.counts.BackedOff++
	}
	if !e.asked() {
		s.answers.markAsked(e)
		s.usedLocked(&o, e.prefetch, call.Ready)
	}
	e.used = true
	o.Repeated, o.BackOff = q.Delivered.record(&s.epochs, q, e, backedOff, now)
	if !q.Reuse.admits(e.prefetch != nil, e.used, o.Age) && !q.Reuse.backsOff() {
		s.removeLocked(e, consumed)
	}
	return o
}

// joinableLocked returns the flight that q may wait for; nil if there is none.
func (s *Store) joinableLocked(q *Query, file fileState, now age.Moment) *Flight {
	f := s.table[q.Key]
	if f == nil || f.settled {
		return nil
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
