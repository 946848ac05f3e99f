package dedup

import (
	"bytes"
	"errors"
)

// Trial is what a call that fetched for itself found of what had been prefetched.
type Trial int

const (
	NotTried Trial = iota // there was nothing to compare, or something may have changed meanwhile
	Same                  // byte for byte, or by Use.Alike
	Differs               // though nothing that is known of has changed
)

// trial is a flight's part in a comparison. The store's mutex guards it.
type trial struct {
	stored *entry  // of a real call: what had been prefetched, and was stored
	flight *Flight // of a real call: the prefetch that was under way when it came
	beside bool    // of a prefetch: such a call has come; the answer is for it alone
	result *entry  // of a prefetch: that answer, if it came to be
}

var errTried = errors.New("store: the call it was to be compared with has its answer")

// tryLocked makes a call fetch for itself what had been prefetched: e is stored, or
// the flight on is under way, or neither is. What is compared serves no call.
func (s *Store) tryLocked(q *Query, e *entry, on *Flight) trial {
	if e != nil {
		e.prefetch.comparedBy(q.Number)
		s.removeLocked(e, compared)
	}
	if on != nil {
		on.prefetch.comparedBy(q.Number)
		on.trial.beside = true
	}
	return trial{stored: e, flight: on}
}

// triedLocked is what a real call's answer is to be compared with; nil: nothing.
// The prefetch that is still under way then comes too late for it.
func (f *Flight) triedLocked() *entry {
	on := f.trial.flight
	if on == nil {
		return f.trial.stored
	}
	on.held = false
	on.abandonLocked(compared, errTried)
	return on.trial.result
}

// compare holds the answer of a real call against what had been prefetched.
func (u *Use) compare(prefetched *entry, body []byte) Trial {
	switch {
	case prefetched == nil || body == nil:
		return NotTried
	case bytes.Equal(prefetched.body, body), u.Alike != nil && u.Alike(prefetched.body, body):
		return Same
	}
	return Differs
}

// tellsLocked reports whether a comparison means anything: nothing has changed
// since the prefetch began, and what is compared is of a size that can be stored.
func (f *Flight) tellsLocked(l landing) bool {
	s := f.store
	current := s.epochs.current(l.prefetched.epoch, l.prefetched.places, f.query.Places) // the check when compared
	return current && cost(l.size, f.query.Key) <= s.options.MaxBytes/maxShare
}
