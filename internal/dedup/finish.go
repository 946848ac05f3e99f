package dedup

import (
	"bytes"
	"hash/maphash"
	"slices"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
)

// result is the result of a flight while it is being finished.
type result struct {
	entry      *entry
	waiters    []*Waiter  // removed from the flight, to be completed
	good       bool       // complete and not an error
	share      bool       // calls that joined get it too
	waste      cause      // why it is not stored; "" if it is
	compareTo  *entry     // prefetched answer to compare with; nil for none
	comparison Comparison // its result
}

// Finish ends the flight with its answer. stateless is returned with it (see [Outcome]).
// good reports whether other calls may get the answer: it is complete, not an error, and
// not one of a task that continues. body is only borrowed, and nil if there was no answer.
// Further calls do nothing.
func (f *Flight) Finish(body []byte, stateless, good bool) {
	s := f.store
	r, ok := f.takeWaiters(stateless, good)
	if !ok {
		return
	}
	if r.share || r.waste == "" {
		r.entry.body = bytes.Clone(body) // before a waiter returns the borrowed buffer
	}
	if good && f.query.Reuse.Repeats > 0 {
		r.entry.hash = maphash.Bytes(s.seed, body)
	}
	r.comparison = f.query.Reuse.compare(r.compareTo, body)
	if (r.waste == "" || r.comparison != NotCompared) && !f.query.fileState().matches(f.file) {
		r.waste, r.comparison = invalidated, NotCompared
	}
	outcomes := f.complete(&r)
	if f.share != nil {
		f.share(f.sharedAnswer(r))
	}
	if f.prefetch != nil {
		f.prefetch.stopHold()
	}
	for i, w := range r.waiters {
		w.stop()
		w.Done(outcomes[i])
	}
}

// takeWaiters takes the waiters: no call can join or leave the flight any more.
func (f *Flight) takeWaiters(stateless, good bool) (r result, ok bool) {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.finished {
		return r, false
	}
	f.finished = true
	r.waiters, f.waiters = f.waiters, nil
	for _, w := range r.waiters {
		w.flight = nil
	}
	r.good = good
	r.share = good && slices.ContainsFunc(r.waiters, func(w *Waiter) bool { return w != f.leader })
	r.entry = &entry{
		id: f.id, key: f.query.Key, places: f.query.Places, epoch: f.epoch, began: f.began, took: s.clock().Monotonic(f.sent),
		file: f.file, stateless: stateless, prefetch: f.prefetch, ageLimit: f.query.Reuse.ageLimit(), asked: r.share || f.leader != nil,
	}
	if f.unloaded > 0 {
		r.entry.took = min(r.entry.took, f.unloaded)
	}
	r.compareTo = f.comparandLocked()
	r.waste = f.unfitLocked(r.entry, good)
	return r, true
}

// unfitLocked returns why the answer must not be stored, or "".
func (f *Flight) unfitLocked(e *entry, good bool) cause {
	s, u := f.store, f.query.Reuse
	switch {
	case !good:
		return failed
	case f.notKept != "":
		return f.notKept
	case !s.epochs.current(f.epoch, f.query.Places, nil), !f.file.stable:
		return invalidated
	case !u.admits(e.prefetch != nil, e.asked, s.clock().Since(f.began)) && !u.backsOff():
		return expired
	}
	return ""
}

// complete stores the answer if it may be, and returns each waiter's outcome.
func (f *Flight) complete(r *result) []Outcome {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.flights, f) // only now, as DropScope must find the flight until then
	f.unlistLocked()     // only now, as a flight that replaces it must find it
	now := s.clock()
	outcomes := make([]Outcome, len(r.waiters))
	for i, w := range r.waiters {
		outcomes[i] = f.outcomeLocked(w, r, now)
	}
	if f.prefetch != nil && r.share { // in order of arrival
		s.usedLocked(&outcomes[0], f.prefetch, r.waiters[0].query.Number, call.Late)
	}
	if r.waste == "" {
		r.waste = f.storeLocked(r)
	}
	if r.waste != "" {
		s.wastedLocked(f.prefetch, r.waste)
	}
	return outcomes
}

// storeLocked stores the answer, or returns why not.
func (f *Flight) storeLocked(r *result) cause {
	if waste := f.unfitLocked(r.entry, r.good); waste != "" { // something may have changed while the body was copied
		return waste
	}
	if f.prefetch != nil && f.prefetch.compareOnly {
		f.prefetch.answer = r.entry
		return compared
	}
	return f.store.insertLocked(r.entry)
}

// outcomeLocked returns the outcome of one waiter.
func (f *Flight) outcomeLocked(w *Waiter, r *result, now age.Moment) Outcome {
	o := Outcome{How: Joined, Prefetched: f.prefetch != nil, Age: now.Since(f.began)}
	switch {
	case w == f.leader:
		o.How = Fetched
		if r.comparison != NotCompared && f.conclusiveLocked(r.compareTo) {
			o.Comparison = r.comparison
		}
	case !r.share:
		o.Refetch = true
		return o
	default:
		o.Body, o.Stateless, o.Took = r.entry.body, r.entry.stateless, r.entry.took
	}
	if !r.good {
		w.query.Delivered.recordFailure(&w.query)
		return o
	}
	_, o.BackOff = w.query.Delivered.record(&f.store.epochs, &w.query, r.entry, false, now)
	return o
}
