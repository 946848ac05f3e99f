package dedup

import "maps"

// cause is why an answer was not stored, or was removed.
type cause string

const (
	invalidated cause = "invalidated" // a place or file changed
	expired     cause = "expired"     // too old, or replaced by a newer answer
	consumed    cause = "consumed"    // served once, and not reusable
	evicted     cause = "evicted"     // no space, or too large
	neverAsked  cause = "never_asked" // the scope or the store ended
	failed      cause = "error"       // an error, or one client's own answer
	dropped     cause = "dropped"     // no call was waiting any more, and no prefetch worker wanted it
	compared    cause = "compared"    // a call fetched for itself and compared
)

// PrefetchStats counts prefetches. Issued is the sum of those used, wasted, in flight and still wanted,
// and stored but not asked for.
type PrefetchStats struct {
	Issued int64
	Used   int64            // served to at least one call
	Late   int64            // used, but asked for before the answer arrived
	Wasted map[string]int64 // cause → prefetches that served no call, compared ones included
}

// Stats is the content of the store, and what has happened since it was made.
type Stats struct {
	Prefetch PrefetchStats
	Entries  int   // stored answers
	Bytes    int64 // their size, with overhead
	Flights  int   // flights not yet finished
	UnderWay int   // registered calls that have not ended
}

// Stats returns a snapshot.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.counts
	out.Prefetch.Wasted = maps.Clone(out.Prefetch.Wasted)
	out.Entries, out.Bytes = s.answers.entries.Len(), s.answers.bytes
	out.Flights, out.UnderWay = len(s.flights), s.underWay
	return out
}
