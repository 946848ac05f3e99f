package dedup

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync/atomic"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
)

// Prefetch is a fetch that began before a call asked for its answer.
type Prefetch struct {
	number call.Number  // its own
	by     call.Number  // the call that used it first, or compares it; not written after fate
	why    cause        // why it was wasted or compared; likewise
	fate   atomic.Int32 // a call.Fate; written once, where it is counted

	displaced atomic.Bool // storing it evicted an answer that a call had fetched

	stopHold func() bool   // stops watching the context of its flight
	promoted chan struct{} // closed when a call joins it

	// Guarded by the store's mutex.
	sent        bool   // its request has been sent
	overdue     bool   // giveUp has run
	compareOnly bool   // a call compares its answer, which serves no call
	answer      *entry // if it is only compared: its answer; nil for none yet
}

// Fate returns the outcome of the prefetch so far. It takes no lock.
func (p *Prefetch) Fate() call.Fate { return call.Fate(p.fate.Load()) }

// Why returns why no call was served the prefetch, as a key of [PrefetchStats.Wasted], or
// "" if one was, or none yet.
func (p *Prefetch) Why() string {
	switch p.Fate() {
	case call.Wasted, call.Compared:
		return string(p.why)
	}
	return ""
}

// Number returns the prefetch's own number in the record.
func (p *Prefetch) Number() call.Number { return p.number }

// By returns the call that used the prefetch first, or compared it; the zero Number if there is none yet.
func (p *Prefetch) By() call.Number {
	switch p.Fate() {
	case call.Ready, call.Late, call.Compared:
		return p.by
	}
	return call.Number{}
}

// usedLocked records the first use of a prefetch, in the outcome of the call that used it.
// It does nothing if p is nil or its fate is decided.
func (s *Store) usedLocked(o *Outcome, p *Prefetch, by call.Number, as call.Fate) {
	if p == nil || p.Fate() != call.Pending {
		return
	}
	o.FirstUseOf, p.by = p, by
	s.counts.Prefetch.Used++
	if as == call.Late {
		s.counts.Prefetch.Late++
	}
	p.fate.Store(int32(as))
}

// wastedLocked records that no call will use the prefetch any more, unless one has.
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

// Prefetch fetches the answer to q before a call asks for it. If that is refused, it
// returns nil and the reason. fetch must finish the flight as in Do. The flight lives
// at the latest until ctx ends and no call is waiting for it.
func (s *Store) Prefetch(ctx context.Context, q Query, fetch func(ctx context.Context, f *Flight)) (p *Prefetch, why Refusal) {
	file, seen := q.fileState(), s.lookUpPeers(ctx, q.Places)
	if slices.Contains(seen.tokens, "") { // that lookup may have set the first token of a place
		seen = s.lookUpPeers(ctx, q.Places)
	}
	f, fetching, why := s.beginPrefetch(ctx, &q, file, seen)
	if f == nil {
		return nil, why
	}
	f.fetch(fetching, fetch)
	return f.prefetch, ""
}

// beginPrefetch begins the flight of a prefetch, and returns it with the context of its
// fetch, or returns why not.
func (s *Store) beginPrefetch(ctx context.Context, q *Query, file fileState, seen peerView) (f *Flight, fetching context.Context, why Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	s.bumpChangedLocked(q.Places, &seen)
	if why = s.refusalLocked(q, &file, now); why == "" && !seen.valid {
		why = whyPendingWrite
	}
	if why != "" || ctx.Err() != nil {
		return nil, nil, cmp.Or(why, whyClosed)
	}
	f, fetching = s.beginLocked(ctx, q, file, now)
	s.counts.Prefetch.Issued++
	f.prefetch, f.held = &Prefetch{number: q.Number, promoted: make(chan struct{})}, true
	f.prefetch.stopHold = context.AfterFunc(ctx, func() { f.releaseHold(context.Cause(ctx)) })
	return f, fetching, ""
}

// Refusal is why a prefetch is refused; "" if it is not. Reasons of package enrich have the same text there.
type Refusal string

const (
	whyClosed       Refusal = "closed"        // the store, or the context, has ended
	whyVolatile     Refusal = "volatile"      // what it reads changes at any time
	whyMaxAge       Refusal = "max_age"       // its answer could serve no call, however young, or nothing is stored
	whyFile         Refusal = "file"          // its file has just changed, or cannot be read
	whyPendingWrite Refusal = "pending_write" // a write to what it reads is under way, perhaps at another replica, or the other replicas cannot be asked
	whySettling     Refusal = "settling"      // a remote write to what it reads has just ended
	whyStored       Refusal = "stored"        // an answer is cached
	whyInFlight     Refusal = "in_flight"     // the call is in flight
	whyDelivered    Refusal = "delivered"     // the client has the answer, which may be served only once
)

// PrefetchRefusal returns why Prefetch would refuse q, or "". It has no side effects and
// does not stat a file, which it takes as unchanged.
func (s *Store) PrefetchRefusal(q Query) Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusalLocked(&q, nil, s.clock())
}

// refusalLocked returns why q must not be prefetched, or "". file is nil if its state was not
// read, and is then taken as unchanged.
func (s *Store) refusalLocked(q *Query, file *fileState, now age.Moment) Refusal {
	switch {
	case s.closed:
		return whyClosed
	case q.Reuse.Volatile:
		return whyVolatile
	case s.options.MaxBytes == 0, !q.Reuse.admits(true, false, 0):
		return whyMaxAge
	case file != nil && !file.stable:
		return whyFile
	case s.epochs.hasPending(q.Places):
		return whyPendingWrite
	case s.epochs.settling(q.Places, now.Monotonic(s.start)):
		return whySettling
	}
	if e, ok := s.answers.entries.Peek(q.Key); ok {
		if serves, _, _ := s.servableLocked(q, e, file, now); serves {
			return whyStored
		}
	}
	if f := s.byKey[q.Key]; f != nil && s.epochs.current(f.epoch, f.query.Places, q.Places) {
		return whyInFlight
	}
	if !q.Reuse.Pure && q.Reuse.Freshness == 0 && q.Delivered.hasCurrent(&s.epochs, q) {
		return whyDelivered
	}
	return ""
}

// ExpirePrefetches expires the unused prefetches of some scopes. It is called when a
// client's user may have changed data at a service elsewhere. Calls that are waiting for a
// prefetch still get its answer, and answers that depend only on places stay valid.
func (s *Store) ExpirePrefetches(scope func(string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.answers.unasked.Keys() {
		if e.ageLimit != math.MaxInt64 && scope(e.key.Scope) {
			s.removeLocked(e, expired)
		}
	}
	for f := range s.flights {
		if f.prefetch != nil && len(f.waiters) == 0 && !f.query.Reuse.Pure && scope(f.query.Key.Scope) {
			f.notKept, f.held = expired, false
			f.abandonLocked(expired, errUnwanted)
		}
	}
}

// sweepBatch is the number of stored prefetches checked whenever a fetch begins.
const sweepBatch = 4

// sweepLocked removes some prefetches that can never be served any more. No call may ever
// ask for them, but they take space, and their fate must be counted.
func (s *Store) sweepLocked(now age.Moment) {
	for range min(sweepBatch, s.answers.unasked.Len()) {
		switch e, _, _ := s.answers.unasked.GetOldest(); {
		case !s.epochs.current(e.epoch, e.places, nil): // nor will it ever be again
			s.removeLocked(e, invalidated)
		case now.Since(e.began) > e.ageLimit:
			s.removeLocked(e, expired)
		default:
			s.answers.unasked.Get(e) // makes it the newest
		}
	}
}
