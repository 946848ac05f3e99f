package dedup

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
)

// Prefetch is a fetch that began before a call asked for its answer.
type Prefetch struct {
	number call.Number  // its own
	by     call.Number  // the call that was to compare it; written once, before its fate
	why    cause        // of one that no call got; likewise
	fate   atomic.Int32 // a call.Fate; changed once, where it is counted

	displaced atomic.Bool // what a call had asked for was evicted for its answer

	reported atomic.Pointer[call.Number] // the call that the record says got it; nil: none yet
}

// Fate is what became of it so far. It takes no lock.
func (p *Prefetch) Fate() call.Fate { return call.Fate(p.fate.Load()) }

// Why is the reason why no call got it, in the words of [PrefetchStats]; "" if one did, or none
// has so far.
func (p *Prefetch) Why() string {
	switch p.Fate() {
	case call.Wasted, call.Compared:
		return string(p.why)
	}
	return ""
}

// Number is its own in the record: that of the query it was begun with.
func (p *Prefetch) Number() call.Number { return p.number }

// Report says which call the record names as the first that got it: the one that was
// answered in the end may be another than the one that asked.
func (p *Prefetch) Report(by call.Number) { p.reported.Store(&by) }

// By is the call that the record names as the first that got it, or the one that
// fetched for itself to compare it; false if there is none so far.
func (p *Prefetch) By() (by call.Number, ok bool) {
	switch p.Fate() {
	case call.Ready, call.Late:
		if n := p.reported.Load(); n != nil {
			return *n, true
		}
	case call.Compared:
		return p.by, true
	}
	return call.Number{}, false
}

// usedLocked notes the first use of a prefetch with the outcome of the call that it is.
// It does nothing if there was another, or nothing was prefetched.
func (s *Store) usedLocked(o *Outcome, p *Prefetch, as call.Fate) {
	if p == nil || p.Fate() != call.Pending {
		return
	}
	o.FirstUseOf = p
	s.counts.Prefetch.Used++
	if as == call.Late {
		s.counts.Prefetch.Late++
	}
	p.fate.Store(int32(as))
}

// comparedBy notes which call the prefetch is to be compared with. The store's mutex is
// held.
func (p *Prefetch) comparedBy(n call.Number) {
	if p.Fate() == call.Pending && p.by == (call.Number{}) {
		p.by = n
	}
}

// wastedLocked notes that no call will use a prefetch any more, unless one has.
func (s *Store) wastedLocked(p *Prefetch, why cause) {
	if p == nil || p.Fate() != call.Pending {
		return
	}
	s.counts.Prefetch.Wasted[string(why)]++
	p.why = why
	fate := call.Wasted
	if why == compared {
		fate = call.Compared
	}
	p.fate.Store(int32(fate))
}

// Prefetch fetches the answer to q before a call asks, unless there is no need
// or no right to: then it says why, and the prefetch is nil. fetch must settle the
// flight as for Do. It lives while ctx does, or while a call waits for it.
func (s *Store) Prefetch(ctx context.Context, q Query, fetch func(ctx context.Context, f *Flight)) (p *Prefetch, why string) {
	var file fileState
	var looked *fileState
	if q.Reuse.File != "" {
		file = statFile(q.Reuse.File)
		looked = &file
	}
	f, fetching, why := s.beginPrefetch(ctx, &q, file, looked)
	if f == nil {
		return nil, why
	}
	f.fetch(fetching, fetch)
	return f.prefetch, ""
}

// beginPrefetch begins the flight of a prefetch, with the context to fetch under, or says
// why not.
func (s *Store) beginPrefetch(ctx context.Context, q *Query, file fileState, looked *fileState) (f *Flight, fetching context.Context, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	if why = s.refusalLocked(q, looked, now); why != "" || ctx.Err() != nil {
		return nil, nil, cmp.Or(why, "closed")
	}
	f, fetching = s.beginLocked(ctx, q, file, now)
	s.counts.Prefetch.Issued++
	f.prefetch, f.held, f.promoted = &Prefetch{number: q.Number}, true, make(chan struct{})
	f.stop = context.AfterFunc(ctx, func() { f.releaseHold(context.Cause(ctx)) })
	return f, fetching, ""
}

// Refuses says what Prefetch would refuse q with; "" if it would not. It changes
// nothing, and looks at no file: that counts as unchanged.
func (s *Store) PrefetchRefusal(q Query) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusalLocked(&q, nil, s.clock())
}

// refusalLocked says why q is not prefetched; "" if it may be.
// file is nil where it does not matter, or was not looked at.
func (s *Store) refusalLocked(q *Query, file *fileState, now age.Moment) string {
	switch {
	case s.closed:
		return "closed"
	case q.Reuse.Volatile:
		return "volatile"
	case !q.Reuse.admits(true, false, 0):
		return "max_age"
	case file != nil && !file.stable:
		return "file"
	case s.epochs.hasPending(q.Places):
		return "in_the_air"
	case s.epochs.settling(q.Places, now.Monotonic(s.start)):
		return "settling"
	}
	if e, ok := s.answers.entries.Peek(q.Key); ok {
		same := file == nil || file.matches(e.file)
		if serves, _, _ := s.servableLocked(q, e, same, now); serves {
			return "stored"
		}
	}
	if f := s.table[q.Key]; f != nil && s.epochs.current(f.epoch, f.query.Places, q.Places) {
		return "in_flight"
	}
	if !q.Reuse.Pure && q.Reuse.Freshness == 0 && q.Delivered.hasCurrent(&s.epochs, q) {
		return "delivered"
	}
	return ""
}

// Outdate notes that what was fetched early for some scopes is too old for what comes: their
// client's user may have changed what it says, at a service elsewhere. No call is served it but
// those that wait for it already, and those of which nothing can change the answer.
func (s *Store) ExpirePrefetches(scope func(string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range slices.Clone(s.answers.unasked) {
		if e.ageLimit != math.MaxInt64 && scope(e.key.Scope) {
			s.removeLocked(e, expired)
		}
	}
	for f := range s.flights {
		if f.prefetch != nil && !f.joined && !f.query.Reuse.Pure && scope(f.query.Key.Scope) {
			f.notKept, f.held = expired, false
			f.abandonLocked(expired, errOutdated)
		}
	}
}

var errOutdated = errors.New("store: it began before its client's user asked for something else")

// swept is how many stored prefetches are looked at whenever a fetch begins.
const sweepBatch = 4

// sweepLocked forgets some prefetches that can never be served any more. No call may
// ever ask for them, but they take room, and their fate is counted.
func (s *Store) sweepLocked(now age.Moment) {
	a := &s.answers
	for range min(sweepBatch, len(a.unasked)) {
		if a.sweepIndex >= len(a.unasked) {
			a.sweepIndex = 0
		}
		switch e := a.unasked[a.sweepIndex]; {
		case !s.epochs.current(e.epoch, e.places, nil): // nor will it be again
			s.removeLocked(e, invalidated)
		case now.Since(e.began) > e.ageLimit:
			s.removeLocked(e, expired)
		default:
			a.sweepIndex++
		}
	}
}
