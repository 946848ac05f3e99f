package dedup

import (
	"context"
	"errors"
	"slices"
	"time"

	"mcpschedd/internal/age"
)

// Flight is one fetch, for every call that waits for its answer. It belongs to the
// store: the call that began it may leave it like any other.
//
// Its fields and methods are many because a fetch has one life, in which joining,
// leaving, replacing, tainting and settling each decide by what the others have done: a
// part split off would be read and written by all of them under the same mutex.
type Flight struct {
	store *Store
	id    uint64
	query Query      // of the call it was begun for
	file  fileState  // before it was sent
	epoch uint64     // the counter when it began
	began age.Moment // on the store's clock

	prefetch *Prefetch     // of a prefetch; nil: a call began it
	promoted chan struct{} // closed when a call has asked for it; nil unless prefetched
	cancel   context.CancelCauseFunc
	stop     func() bool         // stops watching the context of a prefetch; nil unless prefetched
	share    func(*SharedAnswer) // has other replicas have the answer; nil: they may not

	// The store's mutex guards these.
	waiters   []*Waiter
	leader    *Waiter       // the one that fetches; nil if prefetched
	held      bool          // the prefetch may go on though no call waits
	joined    bool          // a call has asked for the prefetch
	joinedAt  age.Moment    // when
	sent      age.Moment    // when its fetch really began, as far as it was said
	isSent    bool          // that was said
	unloaded  time.Duration // what waiting for it would have cost, as far as it was said; 0: as long as it took
	tainted   bool          // the answer is one client's own
	abandoned bool          // no call wanted it any more
	notKept   cause         // why nothing of it is stored; "": it may be
	settled   bool
	comparing comparing
}

// beginLocked begins a flight, with the context to fetch under.
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
		if old := s.table[q.Key]; old != nil {
			old.replacedLocked(q)
		}
		s.table[q.Key] = f // in the place of one that may not be joined any more
	}
	return f, fetching
}

// fetch calls what is to fetch. If that panics, the flight ends: a call that joins it
// would wait for ever.
func (f *Flight) fetch(ctx context.Context, fetch func(ctx context.Context, f *Flight)) {
	begun := false
	defer func() {
		if !begun {
			f.Settle(nil, false, false)
		}
	}()
	fetch(ctx, f)
	begun = true
}

// unlistLocked sees to it that no call joins any more.
func (f *Flight) unlistLocked() {
	if f.store.table[f.query.Key] == f {
		delete(f.store.table, f.query.Key)
	}
}

// waitLocked lets w wait for the flight, until ctx ends.
func (f *Flight) waitLocked(ctx context.Context, w *Waiter) {
	w.flight = f
	f.waiters = append(f.waiters, w)
	w.stop = context.AfterFunc(ctx, func() { f.leave(w, context.Cause(ctx)) })
}

// askedLocked is how long ago a call first asked for the answer; negative if none did.
func (f *Flight) askedLocked(now age.Moment) time.Duration {
	switch {
	case f.prefetch == nil:
		return now.Since(f.began)
	case f.joined:
		return now.Since(f.joinedAt)
	}
	return -1
}

// joinLocked is waitLocked for a call that did not begin the flight.
func (f *Flight) joinLocked(ctx context.Context, w *Waiter, now age.Moment) {
	f.waitLocked(ctx, w)
	f.limitJoinLocked(w, now)
	if f.prefetch != nil && !f.joined {
		close(f.promoted)
		f.joinedAt = now
	}
	f.joined = true
}

// leave tells w that it need not wait any longer, unless it has been told
// otherwise.
func (f *Flight) leave(w *Waiter, why error) {
	f.store.mu.Lock()
	if w.flight == nil {
		f.store.mu.Unlock()
		return
	}
	w.flight = nil
	i := slices.Index(f.waiters, w)
	f.waiters = slices.Delete(f.waiters, i, i+1)
	if w != f.leader {
		f.store.counts.Left++
	}
	f.abandonLocked(dropped, why)
	f.store.mu.Unlock()
	w.Done(Outcome{Err: why})
}

// letGo is the end of a prefetch's own time.
func (f *Flight) releaseHold(why error) {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	f.held = false
	f.abandonLocked(dropped, why)
}

// endLocked is the end of the scope the answer is for: calls that wait still get it.
func (f *Flight) endLocked(why error) {
	f.notKept, f.held = neverAsked, false // the end of a scope
	f.abandonLocked(neverAsked, why)
}

var errReplaced = errors.New("store: a newer fetch has taken its place")

// replacedLocked is the end of a prefetch that a call could not wait for, and has
// begun a fetch in the place of: no later one could, nor may it be served what is
// older than what that call is given.
func (f *Flight) replacedLocked(by *Query) {
	if f.prefetch == nil || f.comparing.compareOnly {
		return
	}
	why := expired
	if !f.store.epochs.current(f.epoch, f.query.Places, by.Places) {
		why = invalidated
	}
	f.notKept, f.held = why, false
	f.abandonLocked(why, errReplaced)
}

// abandonLocked cancels the fetch if no call wants the answer any more. What was
// prefetched is wasted then, however long the fetch still takes to end.
func (f *Flight) abandonLocked(why cause, err error) {
	if f.settled || f.abandoned || f.held || len(f.waiters) > 0 {
		return
	}
	f.abandoned = true
	f.unlistLocked()
	f.store.wastedLocked(f.prefetch, why) // of what was in flight
	f.cancel(err)                         // under the mutex: what it calls runs in goroutines of its own
}

// Sent notes that the request of a prefetch has been sent: it may have waited for its
// host, and that hides no waiting. A second time it does nothing.
func (f *Flight) Sent() {
	f.store.mu.Lock()
	var waiters []*Waiter
	if !f.isSent {
		f.isSent, f.sent = true, f.store.clock()
		waiters = slices.Clone(f.waiters)
	}
	f.store.mu.Unlock()
	for _, w := range waiters {
		if w.Sent != nil {
			w.Sent()
		}
	}
}

// Worth says, before the flight is settled, how long the fetch would have taken had
// the server had no other call, if that is known to be less than it took.
func (f *Flight) SetUnloadedLatency(d time.Duration) {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	f.unloaded = d
}

// Promoted is closed when a call asks for what was prefetched. It is nil where a call
// began the flight.
func (f *Flight) Promoted() <-chan struct{} { return f.promoted }

// Displaced reports whether what a call had asked for was evicted for the answer of this
// flight, which no call had asked for. It is known once the flight has been settled.
func (f *Flight) Displaced() bool { return f.prefetch != nil && f.prefetch.displaced.Load() }

// Notify tells all calls that wait what the server says on the way.
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

// Taint notes that the server has asked its client something: the answer is one
// client's own. Calls that have joined fetch alone, none joins any more, and nothing
// is stored. A prefetch is given up.
func (f *Flight) Taint() {
	var alone []*Waiter
	f.store.mu.Lock()
	if !f.settled && !f.tainted {
		f.tainted = true
		f.unlistLocked()
		f.waiters = slices.DeleteFunc(f.waiters, func(w *Waiter) bool {
			if w != f.leader {
				w.flight = nil
				alone = append(alone, w)
			}
			return w != f.leader
		})
		f.store.counts.Alone += int64(len(alone))
		f.held = false
		f.abandonLocked(failed, errTainted)
	}
	f.store.mu.Unlock()
	for _, w := range alone {
		w.stop()
		w.Done(Outcome{How: Joined, Refetch: true, Prefetched: f.prefetch != nil})
	}
}

// Taint does so for every flight to that instance of an upstream.
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

var errTainted = errors.New("store: the server asked its client, and no call that may have the answer waits")

// ErrJoinTimeout tells a waiter that the prefetch it joined takes longer than a call
// by itself would: the server may have lost the prefetch, and does not owe it what it
// owes a call.
var ErrJoinTimeout = errors.New("store: the prefetch takes too long")

// boundLocked has w, which has joined a prefetch, wait no longer for it than its join
// timeout.
func (f *Flight) limitJoinLocked(w *Waiter, now age.Moment) {
	if f.prefetch == nil || f.query.Reuse.JoinTimeout <= 0 {
		return
	}
	stop, late := w.stop, (*time.Timer)(nil)
	late = time.AfterFunc(f.joinLeftLocked(now), func() {
		f.store.mu.Lock()
		left := f.joinLeftLocked(f.store.clock())
		waits := w.flight == f
		if waits && left > 0 {
			late.Reset(left)
		}
		f.store.mu.Unlock()
		if waits && left <= 0 {
			stop()
			f.leave(w, ErrJoinTimeout)
		}
	})
	w.stop = func() bool { late.Stop(); return stop() }
}

// joinLeftLocked is how long a call waits for the prefetch still. The time runs from
// its sending: while it waits for its host, the call would wait by itself too.
func (f *Flight) joinLeftLocked(now age.Moment) time.Duration {
	if !f.isSent {
		return f.query.Reuse.JoinTimeout
	}
	return f.query.Reuse.JoinTimeout - now.Since(f.sent)
}
