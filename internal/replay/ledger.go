package replay

import (
	"math"
	"time"

	"mcpschedd/internal/call"
)

// ledger records, independently of the store, when places changed and when calls were fetched.
// Each answer from the store is checked against it. Times are ticks of the clock.
type ledger struct {
	places map[call.Place]*changes
	sent   map[fetchKey]uint64 // fetch of a call → tick at which it was sent
}

// fetchKey identifies a fetch by its call and the time of the store's clock.
type fetchKey struct {
	callKey
	at time.Duration
}

// changes is the state of one place.
type changes struct {
	pending int    // writes in progress
	last    uint64 // tick at which the last write ended
}

func newLedger() *ledger {
	return &ledger{places: make(map[call.Place]*changes), sent: make(map[fetchKey]uint64)}
}

// begin registers a write.
func (l *ledger) begin(e call.Effect) {
	for _, p := range e.Places {
		if l.places[p] == nil {
			l.places[p] = new(changes)
		}
		l.places[p].pending++
	}
}

// end ends a write at the given tick.
func (l *ledger) end(e call.Effect, now uint64) {
	for _, p := range e.Places {
		l.places[p].pending--
		l.places[p].last = max(l.places[p].last, now)
	}
}

// validFrom returns the earliest tick at which an answer for a call that arrives now can have
// been fetched: the end of the last write to a place that the answer depends on. While a write
// is in progress, no answer is valid.
func (l *ledger) validFrom(depends []call.Place) uint64 {
	var from uint64
	for _, p := range depends {
		switch c := l.places[p]; {
		case c == nil:
		case c.pending > 0:
			return math.MaxUint64
		default:
			from = max(from, c.last)
		}
	}
	return from
}
