package dedup

import (
	"context"
	"errors"
	"slices"
	"time"

	"mcpschedd/internal/age"
)

// Flight is one fetch, shared by every call waiting for its answer. It belongs to the
// store: the call that began it may leave it like any other.
//
// It has many fields and methods because joining, leaving, replacing, tainting and
// finishing depend on each other's state: a part split off would be read and written by
// all of them under the same mutex.
type Flight struct {
	store *Store
	id    uint64
	query Query      // of the call or the prefetch that began it
	file  fileState  // before the request was sent
	epoch uint64     // counter when it began
	began age.Moment // on the store's clock; if another replica fetched the answer, when it began

	prefetch *Prefetch // nil if a call began it
	cancel   context.CancelCauseFunc
	share    func(*SharedAnswer) // shares the answer with other replicas; nil if it is not shared

	// Guarded by the store's mutex.
	waiters  []*Waiter
	leader   *Waiter       // the call that fetches; nil if prefetched, or fetched by another replica
	held     bool          // the prefetch continues without a waiting call
	joined   bool          // a call has joined the prefetch
	joinedAt age.Moment    // first join of those that are waiting
	sent     age.Moment    // when the request of a prefetch was sent; began until then, and for a call
	unloaded time.Duration // the fetch's latency without other calls; 0 if not known to be less
	notKept  cause         // why the answer is not stored; "" if it may be
	finished bool

	compareTo       *entry  // the stored prefetch to compare its answer with; nil for none
	compareToFlight *Flight // the prefetch in flight to compare its answer with; nil for none
}

// beginLocked begins a flight, and returns it with the context of its fetch.
func (s *Store) beginLocked(ctx context.Context, q *Query, file fileState, now age.Moment) (*Flight, context.Context) {
	s.lastID++
	f := &Flight{
		store: s, id: s.lastID, query: *q, file: file, epoch: s.epochs.now, began: now, sent: now,
	}
	switch {
	case s.closed:
		f.notKept = neverAsked
	case s.epochs.settling(q.Places, now.Monotonic(s.start)):
		f.notKept = invalidated
	}
	s.sweepLocked(now)
	fetching, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	f.cancel = cancel
	s.flights[f] = struct{}{}
	if !s.closed {
		if old := s.byKey[q.Key]; old != nil {
			old.replacedLocked(q)
		}
		s.byKey[q.Key] = f // replaces a flight that may not be joined any more
	}
	return f, fetching
}

// fetch calls the fetch function. If that panics, the flight is finished without an answer, as
// a call that joins it would block for ever.
func (f *Flight) fetch(ctx context.Context, fetch func(ctx context.Context, f *Flight)) {
	begun := false
	defer func() {
		if !begun {
			f.Finish(nil, false, false)
		}
	}()
	fetch(ctx, f)
	begun = true
}

// unlistLocked prevents further joins.
func (f *Flight) unlistLocked() {
	if f.store.byKey[f.query.Key] == f {
		delete(f.store.byKey, f.query.Key)
	}
}

// waitLocked adds w to the waiters until ctx ends.
func (f *Flight) waitLocked(ctx context.Context, w *Waiter) {
	w.flight = f
	f.waiters = append(f.waiters, w)
	w.stop = context.AfterFunc(ctx, func() { f.leave(w, context.Cause(ctx)) })
}

// askedLocked is the time since a call first asked for the answer; negative if none has, or all have left
// a prefetch.
func (f *Flight) askedLocked(now age.Moment) time.Duration {
	switch {
	case f.prefetch == nil:
		return now.Since(f.began)
	case len(f.waiters) > 0:
		return now.Since(f.joinedAt)
	}
	return -1
}

// joinLocked adds the waiter of a call that did not begin the flight.
func (f *Flight) joinLocked(ctx context.Context, w *Waiter, now age.Moment) {
	if f.prefetch != nil && len(f.waiters) == 0 {
		f.joinedAt = now
		if !f.joined {
			close(f.prefetch.promoted)
			f.joined = true
		}
	}
	f.waitLocked(ctx, w)
}

// leave removes w from the waiters and completes it with an error, unless it has been
// completed.
func (f *Flight) leave(w *Waiter, why error) {
	f.store.mu.Lock()
	if w.flight == nil {
		f.store.mu.Unlock()
		return
	}
	w.flight = nil
	i := slices.Index(f.waiters, w)
	f.waiters = slices.Delete(f.waiters, i, i+1)
	if f.prefetch != nil && !f.prefetch.sent {
		f.held = false // the prefetch was promoted in its host's queue, where it would now be sent as a call
	}
	f.abandonLocked(dropped, why)
	f.store.mu.Unlock()
	w.Done(Outcome{Err: why})
}

// releaseHold runs when the context of the prefetch ends.
func (f *Flight) releaseHold(why error) {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	f.held = false
	f.abandonLocked(dropped, why)
}

// scopeEndedLocked runs when the answer's scope has ended: waiting calls still get it.
func (f *Flight) scopeEndedLocked() {
	f.notKept, f.held = neverAsked, false
	f.abandonLocked(neverAsked, errUnwanted)
}

// replacedLocked runs when a call could not join a prefetch, or another prefetch was made, and began a
// flight in its place. No later call can join it either, nor be served an answer that is older than the
// one the new flight brings.
func (f *Flight) replacedLocked(by *Query) {
	if f.prefetch == nil || f.prefetch.compareOnly {
		return
	}
	why := expired
	if !f.store.epochs.current(f.epoch, f.query.Places, by.Places) {
		why = invalidated
	}
	f.notKept, f.held = why, false
	f.abandonLocked(why, errUnwanted)
}

var errUnwanted = errors.New("store: no call can get the answer")

// abandonLocked cancels the fetch if no call is waiting and nothing holds it. A prefetch
// counts as wasted from then on, however long its fetch takes to end.
func (f *Flight) abandonLocked(why cause, err error) {
	if f.finished || f.held || len(f.waiters) > 0 {
		return
	}
	f.notKept = why // so no call joins it either
	f.store.wastedLocked(f.prefetch, why)
	f.cancel(err) // safe under the mutex: its callbacks run on other goroutines
}

// Sent records that the request of a prefetch has been sent. The time before, when it
// waited for its host, hides no latency. Further calls, and those for other flights, do nothing.
func (f *Flight) Sent() {
	f.store.mu.Lock()
	var waiters []*Waiter
	if g := f.prefetch; g != nil && !g.sent {
		g.sent, f.sent = true, f.store.clock()
		waiters = slices.Clone(f.waiters)
		if limit := f.query.Reuse.JoinTimeout; limit > 0 && !f.finished {
			time.AfterFunc(limit, f.giveUp)
		}
	}
	f.store.mu.Unlock()
	for _, w := range waiters {
		if w.Sent != nil {
			w.Sent()
		}
	}
}

// SetUnloadedLatency sets how long the fetch would have taken if the server had had no
// other call, if that is known to be less than it took. It is called before Finish.
func (f *Flight) SetUnloadedLatency(d time.Duration) {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	f.unloaded = d
}

// Promoted is closed when a call joins the prefetch. It is nil if a call began the flight.
func (f *Flight) Promoted() <-chan struct{} {
	if f.prefetch == nil {
		return nil
	}
	return f.prefetch.promoted
}

// Displaced reports whether storing this prefetch evicted an answer that a call had fetched. It is valid
// after Finish.
func (f *Flight) Displaced() bool { return f.prefetch != nil && f.prefetch.displaced.Load() }

// Notify forwards a notification of the server to all waiting calls.
func (f *Flight) Notify(method string, params []byte) {
	f.store.mu.Lock()
	waiters := slices.Clone(f.waiters)
	f.store.mu.Unlock()
	for _, w := range waiters {
		if w.Notify != nil {
			w.Notify(method, params)
		}
	}
}

// Taint records that the server sent a request to its client, so that the answer belongs
// to one client. Calls that have joined must fetch by themselves, no other call joins, and
// the answer is not stored. A prefetch without a waiting call is cancelled.
func (f *Flight) Taint() {
	var refetch []*Waiter
	f.store.mu.Lock()
	if !f.finished {
		f.notKept = failed
		f.unlistLocked()
		f.waiters = slices.DeleteFunc(f.waiters, func(w *Waiter) bool {
			if w != f.leader {
				w.flight = nil
				refetch = append(refetch, w)
			}
			return w != f.leader
		})
		f.held = false
		f.abandonLocked(failed, errUnwanted)
	}
	f.store.mu.Unlock()
	for _, w := range refetch {
		w.stop()
		w.Done(Outcome{How: Joined, Refetch: true, Prefetched: f.prefetch != nil})
	}
}

// Taint calls [Flight.Taint] on every flight to an upstream instance.
func (s *Store) Taint(upstream uint64) {
	s.mu.Lock()
	var all []*Flight
	for f := range s.flights {
		if f.query.Key.Upstream == upstream {
			all = append(all, f)
		}
	}
	s.mu.Unlock()
	for _, f := range all {
		f.Taint()
	}
}

// ErrJoinTimeout is the error of a waiter that has joined a prefetch which takes longer than a call
// of its own would. The server may have lost the prefetch, and it owes a prefetch less
// than a call.
var ErrJoinTimeout = errors.New("store: join timeout of the prefetch exceeded")

// giveUp runs when the prefetch has exceeded its join timeout: the calls that have joined leave, and no
// other joins. The prefetch itself continues until the fetch of a call takes its place.
func (f *Flight) giveUp() {
	f.store.mu.Lock()
	f.prefetch.overdue = true
	waiters := slices.Clone(f.waiters)
	f.store.mu.Unlock()
	for _, w := range waiters {
		w.stop()
		f.leave(w, ErrJoinTimeout)
	}
}
