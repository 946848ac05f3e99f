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
	dropped     cause = "dropped"     // no call was waiting any more
	compared    cause = "compared"    // a call fetched for itself and compared
)

// counts are the events since the store was made. The store's mutex guards them.
type counts struct {
	Hits        int64         `json:"hits"`        // calls served a stored answer
	BackedOff   int64         `json:"backed_off"`  // hits that were too old, in a back-off
	Joined      int64         `json:"joined"`      // calls answered by another call's fetch
	Fetched     int64         `json:"fetched"`     // calls that began a fetch
	Alone       int64         `json:"alone"`       // calls that joined a fetch and then had to make their own
	Left        int64         `json:"left"`        // calls that joined a fetch and left before its end
	Stored      int64         `json:"stored"`      // answers stored
	Evicted     int64         `json:"evicted"`     // removed for space
	Invalidated int64         `json:"invalidated"` // removed after a change
	Consumed    int64         `json:"consumed"`    // removed after one use
	Prefetch    PrefetchStats `json:"prefetch"`
}

// PrefetchStats counts prefetches. Issued is the sum of those used, wasted, in flight and
// still wanted, and stored but not asked for.
type PrefetchStats struct {
	Issued    int64            `json:"issued"`
	Used      int64            `json:"used"`      // served to at least one call
	Late      int64            `json:"late"`      // used, but asked for before the answer arrived
	Displaced int64            `json:"displaced"` // answers to calls evicted for a prefetch
	Wasted    map[string]int64 `json:"wasted"`    // cause → prefetches that served no call, compared ones included
}

// Stats is the content of the store and the counts since it was made. It is flat because
// it is printed as JSON.
type Stats struct {
	counts
	Entries  int   `json:"entries"`  // stored answers
	Bytes    int64 `json:"bytes"`    // their size, with overhead
	Flights  int   `json:"flights"`  // flights not yet settled
	UnderWay int   `json:"passages"` // registered calls that have not ended
	Doubtful int   `json:"doubtful"` // those whose outcome is in doubt
}

// Stats returns a snapshot.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.counts
	counts.Prefetch.Wasted = maps.Clone(counts.Prefetch.Wasted)
	return Stats{
		counts: counts, Entries: s.answers.entries.Len(), Bytes: s.answers.bytes,
		Flights: len(s.flights), UnderWay: s.underWay, Doubtful: len(s.doubtful),
	}
}
