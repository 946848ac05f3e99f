package dedup

import (
	"bytes"
	"errors"
)

// Trial is what a call that fetched for itself found of what had been guessed.
type Trial int

const (
	NotTried Trial = iota // there was nothing to compare, or something may have changed meanwhile
	Same                  // byte for byte, or by Use.Alike
	Differs               // though nothing that is known of has changed
)

// trial is a flight's part in a comparison. The store's mutex guards it.
type trial struct {
	stored *entry  // of a real call: what had been guessed, and was stored
	flight *Flight // of a real call: the guess that was under way when it came
	beside bool    // of a guess: such a call has come; the answer is for it alone
	result *entry  // of a guess: that answer, if it came to be
}

var errTried = errors.New("store: the call it was to be compared with has its answer")

// tryLocked makes a call fetch for itself what had been guessed: e is stored, or
// the flight on is under way, or neither is. What is compared serves nobody.
func (s *Store) tryLocked(q *Query, e *entry, on *Flight) trial {
	if e != nil {
		e.guess.comparedBy(q.Number)
		s.removeLocked(e, compared)
	}
	if on != nil {
		on.guess.comparedBy(q.Number)
		on.trial.beside = true
	}
	return trial{stored: e, flight: on}
}

// triedLocked is what a real call's answer is to be compared with; nil: nothing.
// The guess that is still under way then comes too late for it.
func (f *Flight) triedLocked() *entry {
	on := f.trial.flight
	if on == nil {
		return f.trial.stored
	}
	on.held = false
	on.abandonLocked(compared, errTried)
	return on.trial.result
}

// compare holds the answer of a real call against what had been guessed.
func (u *Use) compare(guessed *entry, body []byte) Trial {
	switch {
	case guessed == nil || body == nil:
		return NotTried
	case bytes.Equal(guessed.body, body), u.Alike != nil && u.Alike(guessed.body, body):
		return Same
	}
	return Differs
}

// tellsLocked reports whether a comparison means anything: nothing has changed
// since the guess began, and what is compared is of a size that can be stored.
func (f *Flight) tellsLocked(l landing) bool {
	s := f.store
	current := s.epochs.current(l.guessed.epoch, l.guessed.places, f.query.Places) // the check when compared
	return current && cost(l.size, f.query.Key) <= s.options.MaxBytes/maxShare
}
