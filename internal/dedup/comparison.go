package dedup

import (
	"bytes"

	"mcpschedd/internal/call"
)

// Comparison is the result of comparing a call's own answer with the prefetched one.
type Comparison int

const (
	NotCompared Comparison = iota // nothing to compare with, or something may have changed in between
	Same                          // byte for byte, or by Reuse.Equal
	Differs                       // with no known change in between
)

// comparesOnly reports whether the call must fetch for itself because prefetch g is only compared.
func (q *Query) comparesOnly(g *Prefetch) bool {
	return g != nil && q.Reuse.CompareOnly
}

// startComparisonLocked has q compare its own answer with the stored prefetch e or the
// prefetch in flight on; either may be nil. A compared prefetch serves no call.
func (s *Store) startComparisonLocked(q *Query, e *entry, on *Flight) {
	if e != nil {
		e.prefetch.comparedBy(q.Number)
		s.removeLocked(e, compared)
	}
	if on != nil {
		on.prefetch.comparedBy(q.Number)
		on.prefetch.compareOnly = true
	}
}

// comparandLocked returns the prefetched answer to compare with a call's own, or nil. A
// prefetch that is still in flight is too late, and is cancelled.
func (f *Flight) comparandLocked() *entry {
	on := f.compareToFlight
	if on == nil {
		return f.compareTo
	}
	on.held = false
	on.abandonLocked(compared, errUnwanted)
	return on.prefetch.answer
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
// prefetch began.
func (f *Flight) conclusiveLocked(prefetched *entry) bool {
	return f.store.epochs.current(prefetched.epoch, prefetched.places, f.query.Places)
}

// comparedBy records the call that compares the prefetch. The caller holds the store's
// mutex.
func (p *Prefetch) comparedBy(n call.Number) {
	if p.Fate() == call.Pending && p.by == (call.Number{}) {
		p.by = n
	}
}
