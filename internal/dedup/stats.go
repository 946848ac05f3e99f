package dedup

import "maps"

// cause is why an answer is not stored, or no longer.
type cause string

const (
	invalidated cause = "invalidated" // something changed
	expired     cause = "expired"     // it grew too old, or a newer one took its place
	consumed    cause = "consumed"    // it was served once and may not be again
	evicted     cause = "evicted"     // others needed its room, or it would need too much
	neverAsked  cause = "never_asked" // its scope, or the store, has ended
	failed      cause = "error"       // it was none, or one client's own
	dropped     cause = "dropped"     // no call wanted it any more
	compared    cause = "compared"    // it was tried: a call fetched for itself what had been prefetched
)

// counts are what happened since the store was made. The store's mutex guards
// them.
type counts struct {
	Hits        int64         `json:"hits"`        // calls served what was stored
	BackedOff   int64         `json:"backed_off"`  // of those: to a client that keeps asking
	Joined      int64         `json:"joined"`      // calls that got the answer of another one's fetch
	Fetched     int64         `json:"fetched"`     // calls that began a fetch
	Alone       int64         `json:"alone"`       // calls that joined a fetch and had to make their own
	Left        int64         `json:"left"`        // calls that joined a fetch and did not wait for its end
	Stored      int64         `json:"stored"`      // answers that were stored
	Evicted     int64         `json:"evicted"`     // of those: for want of room
	Invalidated int64         `json:"invalidated"` // of those: found to be from before a change
	Consumed    int64         `json:"consumed"`    // of those: served once, and not good for more
	Prefetch    PrefetchStats `json:"prefetch"`
}

// PrefetchStats is what became of prefetches. Issued are as many as used and wasted
// ones, those in flight that are still wanted, and those stored that no call has
// asked for yet.
type PrefetchStats struct {
	Issued    int64            `json:"issued"`
	Used      int64            `json:"used"`      // answers that at least one call got
	Late      int64            `json:"late"`      // of those: asked for before they were there
	Displaced int64            `json:"displaced"` // answers to real calls that were evicted for a prefetch
	Wasted    map[string]int64 `json:"wasted"`    // cause → prefetches that no call got; compared ones were only tried
}

// Stats is what the store holds, and what happened since it was made: a flat record, for
// it is shown as JSON as it is.
type Stats struct {
	counts
	Entries  int   `json:"entries"`  // answers
	Bytes    int64 `json:"bytes"`    // what they cost
	Flights  int   `json:"flights"`  // fetches that have not ended
	UnderWay int   `json:"passages"` // calls of unknown outcome so far
	Doubtful int   `json:"doubtful"` // of those: it may never be
}

// Stats returns what there is to say of the store.
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
