package dedup

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Flight is one fetch, for everybody who waits for its answer. It belongs to the
// store: whoever began it may leave it like anybody else.
type Flight struct {
	store *Store
	id    uint64
	query Query         // of the call it was begun for
	file  fileState     // before it was sent
	epoch uint64        // the counter when it began
	began time.Duration // on the store's clock

	guessed  bool          // begun before anybody asked
	promoted chan struct{} // closed when somebody has; nil unless guessed
	cancel   context.CancelCauseFunc
	stop     func() bool // stops watching the context of a guess; nil unless guessed

	// The store's mutex guards these.
	waiters   []*Waiter
	leader    *Waiter       // the one that fetches; nil if guessed
	held      bool          // the guess may go on though nobody waits
	joined    bool          // somebody has asked for the guess
	first     time.Duration // when
	tainted   bool          // the answer is one client's own
	abandoned bool          // nobody wanted it any more
	unkept    bool          // nothing of it is stored
	settled   bool
}

// beginLocked begins a flight, with the context to fetch under.
func (s *Store) beginLocked(ctx context.Context, q *Query, file fileState, now time.Duration) (*Flight, context.Context) {
	s.ids++
	f := &Flight{
		store: s, id: s.ids, query: *q, file: file, epoch: s.epochs.now, began: now,
		unkept: s.closed || s.epochs.settling(q.Places, now),
	}
	fetching, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	f.cancel = cancel
	s.flights[f] = struct{}{}
	if !s.closed {
		s.table[q.Key] = f // in the place of one that may not be joined any more
	}
	return f, fetching
}

// concealLocked sees to it that nobody joins any more.
func (f *Flight) concealLocked() {
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

// askedLocked is how long ago somebody first asked for the answer; negative if
// nobody did.
func (f *Flight) askedLocked(now time.Duration) time.Duration {
	switch {
	case !f.guessed:
		return now - f.began
	case f.joined:
		return now - f.first
	}
	return -1
}

// joinLocked is waitLocked for a call that did not begin the flight.
func (f *Flight) joinLocked(ctx context.Context, w *Waiter) {
	f.waitLocked(ctx, w)
	if f.guessed && !f.joined {
		close(f.promoted)
		f.first = f.store.clock()
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
	last := f.abandonLocked()
	f.store.mu.Unlock()
	if last {
		f.cancel(why)
	}
	w.Done(Outcome{Err: why})
}

// letGo is the end of a guess's own time.
func (f *Flight) letGo(why error) {
	f.store.mu.Lock()
	f.held = false
	last := f.abandonLocked()
	f.store.mu.Unlock()
	if last {
		f.cancel(why)
	}
}

// abandonLocked reports whether nobody wants the answer any more: then the fetch
// is to be cancelled.
func (f *Flight) abandonLocked() bool {
	if f.settled || f.held || len(f.waiters) > 0 {
		return false
	}
	f.abandoned = true
	f.concealLocked()
	return true
}

// Promoted is closed when somebody asks for what was guessed. It is nil where
// somebody has asked from the beginning.
func (f *Flight) Promoted() <-chan struct{} { return f.promoted }

// Notify tells everybody who waits what the server says on the way.
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
// client's own. Who has joined fetches alone, nobody joins any more, and nothing
// is stored.
func (f *Flight) Taint() {
	f.store.mu.Lock()
	alone := f.taintLocked()
	last := len(alone) > 0 && f.abandonLocked()
	f.store.mu.Unlock()
	f.sendAway(alone, last)
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

// taintLocked returns those who joined. They no longer wait.
func (f *Flight) taintLocked() (joined []*Waiter) {
	if f.settled || f.tainted {
		return nil
	}
	f.tainted = true
	f.concealLocked()
	for _, w := range f.waiters {
		if w != f.leader {
			w.flight = nil
			joined = append(joined, w)
		}
	}
	f.waiters = slices.DeleteFunc(f.waiters, func(w *Waiter) bool { return w != f.leader })
	f.store.counts.Alone += int64(len(joined))
	return joined
}

var errTainted = errors.New("store: the server asked its client, and who began the call has left")

// sendAway lets those who joined fetch alone.
func (f *Flight) sendAway(joined []*Waiter, last bool) {
	if last {
		f.cancel(errTainted)
	}
	for _, w := range joined {
		w.stop()
		w.Done(Outcome{How: Joined, Alone: true, Prefetched: f.guessed})
	}
}
