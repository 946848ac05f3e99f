package dedup

import (
	"bytes"
	"errors"
	"hash/maphash"
	"slices"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
)

// settlement is the result of a flight while it is being settled.
type settlement struct {
	entry      *entry
	size       int        // bytes of the body
	waiters    []*Waiter  // removed from the flight, to be completed
	good       bool       // complete and not an error
	share      bool       // calls that joined get it too
	waste      cause      // why it is not stored; "" if it is
	compareTo  *entry     // prefetched answer to compare with; nil for none
	comparison Comparison // its result
}

// Settle ends the flight with its answer. good reports whether other calls may get the
// answer: it is complete, not an error, and not one of a task that continues. body is only
// borrowed, and nil if there was no answer. Further calls do nothing.
func (f *Flight) Settle(body []byte, stateless, good bool) {
	s := f.store
	l, ok := f.beginSettling(stateless, good)
	if !ok {
		return
	}
	if l.share || l.waste == "" {
		l.entry.body = bytes.Clone(body) // before a waiter returns the borrowed buffer
	}
	if good && f.query.Reuse.Repeats > 0 {
		l.entry.hash = maphash.Bytes(s.seed, body)
	}
	l.size, l.comparison = len(body), f.query.Reuse.compare(l.compareTo, body)
	if f.query.Reuse.File != "" && (l.waste == "" || l.comparison != NotCompared) && !statFile(f.query.Reuse.File).matches(f.file) {
		l.waste, l.comparison = invalidated, NotCompared
	}
	outcomes := f.finishSettling(l)
	if f.share != nil {
		f.share(f.sharedAnswer(l))
	}
	if f.prefetch != nil {
		f.prefetch.stopHold()
	}
	for i, w := range l.waiters {
		w.stop()
		w.Done(outcomes[i])
	}
}

// beginSettling takes the waiters: no call can join or leave the flight any more.
func (f *Flight) beginSettling(stateless, good bool) (l settlement, ok bool) {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.settled {
		return l, false
	}
	f.settled = true
	if f.prefetch != nil && f.prefetch.joinTimer != nil {
		f.prefetch.joinTimer.Stop()
	}
	l.waiters, f.waiters = f.waiters, nil
	for _, w := range l.waiters {
		w.flight = nil
	}
	l.good = good
	l.share = good && slices.ContainsFunc(l.waiters, func(w *Waiter) bool { return w != f.leader })
	l.entry = &entry{
		id: f.id, key: f.query.Key, places: f.query.Places, epoch: f.epoch, began: f.began, took: s.clock().Monotonic(f.sent),
		file: f.file, stateless: stateless, prefetch: f.prefetch, ageLimit: f.query.Reuse.ageLimit(), used: l.share || f.leader != nil,
	}
	if f.unloaded > 0 {
		l.entry.took = min(l.entry.took, f.unloaded)
	}
	l.compareTo = f.comparandLocked()
	l.waste = f.unfitLocked(l.entry, good)
	return l, true
}

// unfitLocked returns why the answer must not be stored, or "".
func (f *Flight) unfitLocked(e *entry, good bool) cause {
	s, u := f.store, f.query.Reuse
	switch {
	case f.abandoned:
		return dropped
	case !good:
		return failed
	case f.notKept != "":
		return f.notKept
	case !s.epochs.current(f.epoch, f.query.Places, nil):
		return invalidated
	case u.File != "" && !f.file.stable:
		return invalidated
	case !u.admits(e.prefetch != nil, e.used, s.clock().Since(f.began)) && !u.backsOff():
		return expired
	}
	return ""
}

// finishSettling stores the answer if it may be, and returns each waiter's outcome.
func (f *Flight) finishSettling(l settlement) []Outcome {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.flights, f) // only now, as DropScope must find the flight until then
	f.unlistLocked()     // only now, as a flight that replaces it must find it
	now := s.clock()
	outcomes := make([]Outcome, len(l.waiters))
	for i, w := range l.waiters {
		outcomes[i] = f.outcomeLocked(w, l, now)
	}
	if f.prefetch != nil && l.share { // in order of arrival
		s.usedLocked(&outcomes[0], f.prefetch, l.waiters[0].query.Number, call.Late)
	}
	if l.waste == "" {
		l.waste = f.storeLocked(l)
	}
	if l.waste != "" {
		s.wastedLocked(f.prefetch, l.waste)
	}
	return outcomes
}

// storeLocked stores the answer, or returns why not.
func (f *Flight) storeLocked(l settlement) cause {
	if waste := f.unfitLocked(l.entry, l.good); waste != "" { // the check when stored
		return waste
	}
	if f.comparing.compareOnly {
		f.comparing.result = l.entry
		return compared
	}
	return f.store.insertLocked(l.entry)
}

// outcomeLocked returns the outcome of one waiter.
func (f *Flight) outcomeLocked(w *Waiter, l settlement, now age.Moment) Outcome {
	o := Outcome{How: Joined, Prefetched: f.prefetch != nil, Age: now.Since(f.began)}
	switch {
	case w == f.leader:
		o.How = Fetched
		if l.comparison != NotCompared && f.conclusiveLocked(l) {
			o.Comparison = l.comparison
		}
	case !l.share:
		o.Refetch = true
		return o
	default:
		o.Body, o.Stateless, o.Took = l.entry.body, l.entry.stateless, l.entry.took
	}
	if !l.good {
		w.query.Delivered.recordFailure(&w.query)
		return o
	}
	_, o.BackOff = w.query.Delivered.record(&f.store.epochs, &w.query, l.entry, false, now)
	return o
}

// Comparison is the result of comparing a call's own answer with the prefetched one.
type Comparison int

const (
	NotCompared Comparison = iota // nothing to compare with, or something may have changed in between
	Same                          // byte for byte, or by Reuse.Equal
	Differs                       // with no known change in between
)

// comparing is the part of a flight in a comparison. The store's mutex guards it.
type comparing struct {
	stored      *entry  // of a call: the stored prefetch
	flight      *Flight // of a call: the prefetch in flight
	compareOnly bool    // of a prefetch: a call compares its answer, which serves no call
	result      *entry  // of a prefetch: its answer, if there is one
}

var errCompared = errors.New("store: the comparing call already has its answer")

// startComparisonLocked has a call fetch for itself and compare its answer with the stored
// prefetch e or the prefetch in flight on; either may be nil. A compared prefetch serves
// no call.
func (s *Store) startComparisonLocked(q *Query, e *entry, on *Flight) comparing {
	if e != nil {
		e.prefetch.comparedBy(q.Number)
		s.removeLocked(e, compared)
	}
	if on != nil {
		on.prefetch.comparedBy(q.Number)
		on.comparing.compareOnly = true
	}
	return comparing{stored: e, flight: on}
}

// comparandLocked returns the prefetched answer to compare with a call's own, or nil. A
// prefetch that is still in flight is too late, and is cancelled.
func (f *Flight) comparandLocked() *entry {
	on := f.comparing.flight
	if on == nil {
		return f.comparing.stored
	}
	on.held = false
	on.abandonLocked(compared, errCompared)
	return on.comparing.result
}

// compare compares the answer of a call with the prefetched one.
func (u *Reuse) compare(prefetched *entry, body []byte) Comparison {
	switch {
	case prefetched == nil || body == nil:
		return NotCompared
	case bytes.Equal(prefetched.body, body), u.Equal != nil && u.Equal(prefetched.body, body):
		return Same
	}
	return Differs
}

// conclusiveLocked reports whether a comparison counts: nothing has changed since the
// prefetch began, and the call's answer is of a size that can be stored.
func (f *Flight) conclusiveLocked(l settlement) bool {
	s := f.store
	current := s.epochs.current(l.compareTo.epoch, l.compareTo.places, f.query.Places) // the check when compared
	return current && cost(l.size, f.query.Key) <= s.options.MaxBytes/maxShare
}
