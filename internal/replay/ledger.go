package replay

import (
	"math"
	"time"

	"mcpschedd/internal/call"
)

// ledger is kept beside the store, and not by it: what was changed when, and what was asked
// for when. By it every answer is checked that a store has given. Moments are numbered in the
// order in which they are played.
type ledger struct {
	places map[call.Place]*changes
	sent   map[sending]uint64 // the moments at which real calls were sent
}

// sending is a fetch: of a call, at a time by the store's clock.
type sending struct {
	exact
	at time.Duration
}

// changes are those of one place.
type changes struct {
	air  int    // under way
	last uint64 // when the last one ended
}

func newLedger() *ledger {
	return &ledger{places: make(map[call.Place]*changes), sent: make(map[sending]uint64)}
}

// arrive notes that a call which may change something has come.
func (l *ledger) arrive(e call.Effect) {
	for _, p := range e.Places {
		if l.places[p] == nil {
			l.places[p] = new(changes)
		}
		l.places[p].air++
	}
}

// end notes that it has its answer, at the given moment.
func (l *ledger) end(e call.Effect, now uint64) {
	for _, p := range e.Places {
		l.places[p].air--
		l.places[p].last = max(l.places[p].last, now)
	}
}

// sound is the moment from which on an answer must have been fetched to be good
// for a call that arrives now: the end of the last change of what the answer
// depends on. While one is under way there is no such moment.
func (l *ledger) sound(depends []call.Place) uint64 {
	var from uint64
	for _, p := range depends {
		switch c := l.places[p]; {
		case c == nil:
		case c.air > 0:
			return math.MaxUint64
		default:
			from = max(from, c.last)
		}
	}
	return from
}
