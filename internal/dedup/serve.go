package dedup

import (
	"cmp"
	"context"
	"time"
)

// Do answers q: from the store, by a flight that somebody else began, or by one
// of its own, for which fetch is called before Do returns. fetch must see to it
// that [Flight.Settle] is called once, on any goroutine; its context ends when
// nobody waits any more. If ctx ends first, the waiter is told so, and whoever
// else waits is not concerned.
func (s *Store) Do(ctx context.Context, q Query, w *Waiter, fetch func(ctx context.Context, f *Flight)) {
	var file fileState
	if q.Use.File != "" {
		file = look(q.Use.File) // before sending, and before what is stored is looked at
	}
	s.mu.Lock()
	now := s.clock()
	if e, backedOff := s.storedLocked(&q, file, now); e != nil {
		o := s.hitLocked(&q, e, backedOff, now)
		s.mu.Unlock()
		w.Done(o)
		return
	}
	w.query = q
	if f := s.joinableLocked(&q, file, now); f != nil {
		f.joinLocked(ctx, w)
		s.mu.Unlock()
		return
	}
	f, fetching := s.beginLocked(ctx, &q, file, now)
	s.counts.Fetched++
	f.leader = w
	f.waitLocked(ctx, w)
	s.mu.Unlock()
	fetch(fetching, f)
}

// storedLocked returns the answer in the store that may stand for a new one, and
// whether it may only because the client is to back off. What can never be served
// again is forgotten.
func (s *Store) storedLocked(q *Query, file fileState, now time.Duration) (e *entry, backedOff bool) {
	e, ok := s.entries.Get(q.Key)
	if !ok {
		return nil, false
	}
	current := s.epochs.current(e.epoch, e.places, q.Places) // the check when served
	switch {
	case !current || q.Use.File != "" && !file.matches(e.file):
		s.removeLocked(e, invalidated)
	case q.Use.admits(e.guessed, e.used, now-e.began):
		return e, false
	case !q.Use.backsOff():
		s.removeLocked(e, expired)
	case q.Delivered.holdsBack(q, e.id, now):
		return e, true
	}
	return nil, false
}

// hitLocked is the outcome of a call that is served what is stored.
func (s *Store) hitLocked(q *Query, e *entry, backedOff bool, now time.Duration) Outcome {
	o := Outcome{
		Body: e.body, Stateless: e.stateless, How: Hit,
		Prefetched: e.guessed, BackedOff: backedOff, Age: now - e.began,
	}
	s.counts.Hits++
	if backedOff {
		s.counts.BackedOff++
	}
	if e.guessed && !e.used {
		s.counts.Prefetch.Used++
	}
	e.used = true
	o.Same, o.BackOff = q.Delivered.given(&s.epochs, q, e, backedOff, now)
	if !q.Use.admits(e.guessed, e.used, o.Age) && !q.Use.backsOff() {
		s.removeLocked(e, consumed)
	}
	return o
}

// joinableLocked returns the flight that q may wait for; nil if there is none.
func (s *Store) joinableLocked(q *Query, file fileState, now time.Duration) *Flight {
	f := s.table[q.Key]
	if f == nil {
		return nil
	}
	current := s.epochs.current(f.epoch, f.query.Places, q.Places) // the check when joined
	switch {
	case !current || q.Use.File != "" && !file.matches(f.file):
		return nil
	case !q.Use.joins(f.guessed, now-f.began, f.askedLocked(now)):
		return nil
	}
	return f
}

// Prefetch fetches the answer to q before anybody asks, unless there is no need
// or no right to: then it says why. fetch must settle the flight as for Do. It
// lives while ctx does, or while somebody waits for it.
func (s *Store) Prefetch(ctx context.Context, q Query, fetch func(ctx context.Context, f *Flight)) (started bool, why string) {
	var file fileState
	if q.Use.File != "" {
		file = look(q.Use.File)
	}
	s.mu.Lock()
	now := s.clock()
	if why := s.refusalLocked(&q, file, now); why != "" || ctx.Err() != nil {
		s.mu.Unlock()
		return false, cmp.Or(why, "closed")
	}
	f, fetching := s.beginLocked(ctx, &q, file, now)
	s.counts.Prefetch.Issued++
	f.guessed, f.held, f.promoted = true, true, make(chan struct{})
	f.stop = context.AfterFunc(ctx, func() { f.letGo(context.Cause(ctx)) })
	s.mu.Unlock()
	fetch(fetching, f)
	return true, ""
}

// refusalLocked says why q is not fetched before anybody asks; "" if it may be.
func (s *Store) refusalLocked(q *Query, file fileState, now time.Duration) string {
	switch {
	case s.closed:
		return "closed"
	case q.Use.Volatile:
		return "volatile"
	case !q.Use.admits(true, false, 0):
		return "max_age"
	case q.Use.File != "" && !file.sound:
		return "file"
	case s.epochs.flying(q.Places):
		return "in_the_air"
	case s.epochs.settling(q.Places, now):
		return "settling"
	}
	if e, _ := s.storedLocked(q, file, now); e != nil {
		return "stored"
	}
	if f := s.table[q.Key]; f != nil && s.epochs.current(f.epoch, f.query.Places, q.Places) {
		return "in_flight"
	}
	if !q.Use.Pure && q.Use.Freshness == 0 && q.Delivered.has(&s.epochs, q) {
		return "delivered"
	}
	return ""
}
