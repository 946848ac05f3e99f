package dedup

import (
	"bytes"
	"errors"
	"hash/maphash"
	"slices"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
)

// settlement is what becomes of an answer.
type settlement struct {
	entry      *entry
	size       int        // bytes of the answer
	waiters    []*Waiter  // those that get it; they no longer wait
	good       bool       // complete and no error
	share      bool       // those that joined get it too
	waste      cause      // why it is not stored; "": it is
	compareTo  *entry     // what it is compared with; nil: nothing
	comparison Comparison // how
}

// Settle ends the flight with its answer, which is good if another call may get
// it: complete, no error, and nothing that goes on. body is only borrowed; nil: no
// answer came. A second time it does nothing.
func (f *Flight) Settle(body []byte, stateless, good bool) {
	s := f.store
	l, ok := f.beginSettling(stateless, good)
	if !ok {
		return
	}
	if l.share || l.waste == "" {
		l.entry.body = bytes.Clone(body) // before a waiter is told, and gives back what is borrowed
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
	if f.stop != nil {
		f.stop()
	}
	for i, w := range l.waiters {
		w.stop()
		w.Done(outcomes[i])
	}
}

// beginSettling ends the waiting: no call can join or leave the flight any more.
func (f *Flight) beginSettling(stateless, good bool) (l settlement, ok bool) {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.settled {
		return l, false
	}
	f.settled = true
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

// unfitLocked says why the answer is not stored; "" if it may be.
func (f *Flight) unfitLocked(e *entry, good bool) cause {
	s, u := f.store, f.query.Reuse
	switch {
	case f.abandoned:
		return dropped
	case !good || f.tainted:
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

// finishSettling stores what is to be kept and says what each waiter gets.
func (f *Flight) finishSettling(l settlement) []Outcome {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.flights, f) // not before: what ends all flights of a scope must find it
	f.unlistLocked()     // nor before: what takes its place must
	now := s.clock()
	outcomes := make([]Outcome, len(l.waiters))
	for i, w := range l.waiters {
		outcomes[i] = f.outcomeLocked(w, l, now)
	}
	if f.prefetch != nil && l.share { // they wait in the order they came
		s.usedLocked(&outcomes[0], f.prefetch, call.Late)
	}
	if l.waste == "" {
		l.waste = f.storeLocked(l)
	}
	if l.waste != "" {
		s.wastedLocked(f.prefetch, l.waste)
	}
	return outcomes
}

// keepLocked stores the answer, or says why not.
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

// outcomeLocked is what one waiter gets.
func (f *Flight) outcomeLocked(w *Waiter, l settlement, now age.Moment) Outcome {
	counts := &f.store.counts
	o := Outcome{How: Joined, Prefetched: f.prefetch != nil, Age: now.Since(f.began)}
	switch {
	case w == f.leader:
		o.How = Fetched
		if l.comparison != NotCompared && f.conclusiveLocked(l) {
			o.Comparison = l.comparison
		}
	case !l.share:
		counts.Alone++
		o.Refetch = true
		return o
	default:
		counts.Joined++
		o.Body, o.Stateless, o.Took = l.entry.body, l.entry.stateless, l.entry.took
	}
	if !l.good {
		w.query.Delivered.recordFailure(&w.query)
		return o
	}
	_, o.BackOff = w.query.Delivered.record(&f.store.epochs, &w.query, l.entry, false, now)
	return o
}

// Trial is what a call that fetched for itself found of what had been prefetched.
type Comparison int

const (
	NotCompared Comparison = iota // there was nothing to compare, or something may have changed meanwhile
	Same                          // byte for byte, or by Use.Alike
	Differs                       // though nothing that is known of has changed
)

// trial is a flight's part in a comparison. The store's mutex guards it.
type comparing struct {
	stored      *entry  // of a real call: what had been prefetched, and was stored
	flight      *Flight // of a real call: the prefetch that was under way when it came
	compareOnly bool    // of a prefetch: such a call has come; the answer is for it alone
	result      *entry  // of a prefetch: that answer, if it came to be
}

var errCompared = errors.New("store: the call it was to be compared with has its answer")

// tryLocked makes a call fetch for itself what had been prefetched: e is stored, or
// the flight on is under way, or neither is. What is compared serves no call.
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

// triedLocked is what a real call's answer is to be compared with; nil: nothing.
// The prefetch that is still under way then comes too late for it.
func (f *Flight) comparandLocked() *entry {
	on := f.comparing.flight
	if on == nil {
		return f.comparing.stored
	}
	on.held = false
	on.abandonLocked(compared, errCompared)
	return on.comparing.result
}

// compare holds the answer of a real call against what had been prefetched.
func (u *Reuse) compare(prefetched *entry, body []byte) Comparison {
	switch {
	case prefetched == nil || body == nil:
		return NotCompared
	case bytes.Equal(prefetched.body, body), u.Equal != nil && u.Equal(prefetched.body, body):
		return Same
	}
	return Differs
}

// tellsLocked reports whether a comparison means anything: nothing has changed
// since the prefetch began, and what is compared is of a size that can be stored.
func (f *Flight) conclusiveLocked(l settlement) bool {
	s := f.store
	current := s.epochs.current(l.compareTo.epoch, l.compareTo.places, f.query.Places) // the check when compared
	return current && cost(l.size, f.query.Key) <= s.options.MaxBytes/maxShare
}
