// Package dedup keeps the answers of calls that only read, lets identical calls
// share one, and knows when an answer may no longer stand for a new one.
//
// What an answer depends on is named in places, and one counter
// that only rises says when a place may last have changed. An answer remembers
// the counter from before it was fetched and is good while every place it
// depends on is older than that and nothing is under way there. So a write costs
// as much as the places it names, however many answers there are:
//
//	store := dedup.New(dedup.Options{MaxBytes: 256 << 20})
//	write := store.Arrive(effect) // from here on nothing it may change is served
//	store.Do(ctx, query, waiter, func(ctx context.Context, f *dedup.Flight) {
//		f.Settle(body, false, true) // asked of the server: the write may have come before it
//	})
//	write.End() // changed once more: what was fetched meanwhile is not kept
//
// An answer may be fetched before a call asks for it ([Store.Prefetch]). Then it is known
// what became of that: it was used, late, or wasted and why.
//
// It knows no tools, no values and no JSON: what a call is, what it depends on
// and how long its answer is good come with the call. What is changed elsewhere
// it cannot see; age, the look at a file and [Store.Invalidate] bound that.
package dedup

import (
	"errors"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
)

// Options are the bounds of a store.
type Options struct {
	MaxBytes    int64         // of all answers, with what keeps them; 0: nothing is stored
	WriteSettle time.Duration // how long a change of unknown outcome is reckoned with; 0: not at all
	Settle      time.Duration // how long after a remote change answers may still be old ones; 0: none
	Peers       Peers         // the other replicas; nil: there are none. The store keeps those it was made with

	// Clock says what time it is: its monotonic time never goes back, it does not ask
	// the store, and may be called on any goroutine. nil: age.Now. The store keeps the
	// one it was made with. How old an answer is goes by the larger of both its times;
	// how long a change may still land, by the monotonic one. Two things go by the
	// computer's time as well: a file must not have changed just now, and a change of
	// unknown outcome is reckoned with until both times say that it is over.
	Clock func() age.Moment
}

// maxShare is the part of MaxBytes that one answer may take: 1/maxShare.
const maxShare = 8

// Store is the answers of all clients. Its methods are many because every question
// that may be asked of an answer is asked under the one mutex that its epochs and its
// fetch stand under too: only so does a change either see the answer or is seen by it.
type Store struct {
	clock func() age.Moment // called with the mutex held
	start age.Moment        // when the store was made
	seed  maphash.Seed      // of the hashes that compare answers
	peers Peers             // nil: there are none

	mu           sync.Mutex
	options      Options
	epochs       epochs
	tokens       map[call.Place]string     // place → its token at the last look at it
	changedAt    map[call.Place]age.Moment // place → when something else than a call last said that it may have changed
	table        map[call.Key]*Flight      // key → the newest flight, if it may be joined at all
	flights      map[*Flight]struct{}      // all that have not settled
	answers      answers
	lastID       uint64                     // of the last flight
	reclassified uint64                     // how often all calls under way became pending writes to everything
	underWay     int                        // calls of unknown outcome so far
	doubtful     map[*PendingWrite]struct{} // those of unknown outcome
	closed       bool
	counts       counts
}

// New returns an empty store.
func New(o Options) *Store {
	clock := o.Clock
	if clock == nil {
		clock = age.Now
	}
	return &Store{
		clock: clock, start: clock(), seed: maphash.MakeSeed(), peers: o.Peers, options: o,
		epochs: newEpochs(), answers: newAnswers(), tokens: make(map[call.Place]string), changedAt: make(map[call.Place]age.Moment),
		table:    make(map[call.Key]*Flight),
		flights:  make(map[*Flight]struct{}),
		doubtful: make(map[*PendingWrite]struct{}),
		counts:   counts{Prefetch: PrefetchStats{Wasted: make(map[string]int64)}},
	}
}

// Configure replaces the options, but for the clock and the peers. What no longer fits goes at
// once.
func (s *Store) Configure(o Options) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options = o
	s.shrinkLocked(nil)
}

var errClosed = errors.New("store: closed")

// Close ends all flights and forgets everything. A later Do always fetches.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for p := range s.doubtful {
		p.timer.Stop()
	}
	clear(s.table)
	for f := range s.flights {
		f.endLocked(errClosed)
		f.cancel(errClosed)
	}
	for _, e := range s.answers.entries.Values() {
		s.removeLocked(e, neverAsked)
	}
}

var errScopeEnded = errors.New("store: its scope has ended")

// Drop forgets the answers of a scope that has ended, and keeps none that is
// still on its way. A prefetch that no call waits for is cancelled.
func (s *Store) DropScope(scope string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.answers.scopes[scope] {
		s.removeLocked(e, neverAsked)
	}
	for f := range s.flights {
		if f.query.Key.Scope == scope {
			f.endLocked(errScopeEnded)
		}
	}
}

// insertLocked stores an answer, unless it is too large or a newer one is there,
// and returns why not.
func (s *Store) insertLocked(e *entry) cause {
	if old, ok := s.answers.entries.Peek(e.key); ok {
		if old.id > e.id {
			return expired
		}
		s.removeLocked(old, expired)
	}
	e.size = cost(cap(e.body), e.key)
	if e.size > s.options.MaxBytes/maxShare {
		return evicted
	}
	s.answers.add(e)
	s.counts.Stored++
	s.shrinkLocked(e)
	return ""
}

// shrinkLocked evicts what was used longest ago until the rest fits; the entry
// that made it necessary, if any did, is the newest of them.
func (s *Store) shrinkLocked(by *entry) {
	for s.answers.bytes > s.options.MaxBytes {
		_, oldest, ok := s.answers.entries.GetOldest()
		if !ok {
			return
		}
		if by != nil && by.prefetch != nil && oldest.prefetch == nil {
			s.counts.Prefetch.Displaced++
			by.prefetch.displaced.Store(true)
		}
		s.removeLocked(oldest, evicted)
	}
}

// removeLocked forgets an answer. If it was a prefetch that no call had asked for, it
// is wasted.
func (s *Store) removeLocked(e *entry, why cause) {
	s.answers.remove(e)
	switch why {
	case invalidated:
		s.counts.Invalidated++
	case evicted:
		s.counts.Evicted++
	case consumed:
		s.counts.Consumed++
	}
	s.wastedLocked(e.prefetch, why) // of what was stored
}

// overhead is what an answer costs beside its bytes: the entry, its places in
// the maps and the list.
const overhead = 512

// cost is what an answer of that many bytes costs.
func cost(body int, k call.Key) int64 { return int64(body+len(k.Arguments)) + overhead }

// entry is an answer.
type entry struct {
	id           uint64 // of the flight that brought it: a later one is larger
	key          call.Key
	places       []call.Place
	epoch        uint64 // the counter when the fetch began
	began        age.Moment
	took         time.Duration // the fetch
	file         fileState
	body         []byte
	hash         uint64 // of the body; 0 unless repeats are counted
	size         int64  // what it costs
	stateless    bool
	prefetch     *Prefetch     // a prefetch brought it; nil: a call did
	ageLimit     time.Duration // of a prefetch: no call is served it when it is older
	unaskedIndex int           // of a prefetch no call has asked for: its place among those
	used         bool          // a call has asked for it
}

// asked reports whether a call has asked for the answer, or began its fetch.
func (e *entry) asked() bool { return e.prefetch == nil || e.used }

// answers are what is stored: by key in the order of last use, by scope, and those
// that no call has asked for. Every entry is in the first two. The store's mutex
// guards them.
type answers struct {
	entries    *simplelru.LRU[call.Key, *entry]
	scopes     map[string]map[*entry]struct{} // scope → its entries
	unasked    []*entry                       // prefetched, and no call has asked for it; in no order
	sweepIndex int                            // the one of them to look at next
	bytes      int64                          // what the entries cost together
}

func newAnswers() answers {
	entries, err := simplelru.NewLRU[call.Key, *entry](math.MaxInt, nil)
	if err != nil {
		panic(err) // only a size that is not positive is refused
	}
	return answers{entries: entries, scopes: make(map[string]map[*entry]struct{})}
}

// add stores an entry whose key has none.
func (a *answers) add(e *entry) {
	a.entries.Add(e.key, e)
	a.bytes += e.size
	if a.scopes[e.key.Scope] == nil {
		a.scopes[e.key.Scope] = make(map[*entry]struct{})
	}
	a.scopes[e.key.Scope][e] = struct{}{}
	if !e.asked() {
		e.unaskedIndex = len(a.unasked)
		a.unasked = append(a.unasked, e)
	}
}

func (a *answers) remove(e *entry) {
	a.entries.Remove(e.key)
	a.bytes -= e.size
	of := a.scopes[e.key.Scope]
	delete(of, e)
	if len(of) == 0 {
		delete(a.scopes, e.key.Scope)
	}
	a.markAsked(e)
}

// ask takes an entry out of those that no call has asked for. The last one takes its place, so
// that it costs as much however many there are.
func (a *answers) markAsked(e *entry) {
	if e.asked() {
		return
	}
	end := len(a.unasked) - 1
	a.unasked[e.unaskedIndex], a.unasked[end].unaskedIndex = a.unasked[end], e.unaskedIndex
	a.unasked = slices.Delete(a.unasked, end, end+1)
}

// Peek returns the answer that would be served to q now, without serving it: it
// counts as neither asked for nor used. False if there is none. It is not to be
// changed.
func (s *Store) Peek(q Query) (body []byte, ok bool) {
	if q.Reuse.File != "" || q.Reuse.CompareOnly {
		return nil, false // it would have to be looked at, or compared
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.answers.entries.Peek(q.Key)
	if !ok {
		return nil, false
	}
	if serves, backedOff, _ := s.servableLocked(&q, e, true, s.clock()); !serves || backedOff {
		return nil, false
	}
	return e.body, true
}

// Show notes that the client of q has been shown that answer beside another one, in
// part or in another form: it is not fetched ahead again, and asked for it is given
// in full.
func (s *Store) MarkShown(q Query) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.answers.entries.Peek(q.Key); ok {
		q.Delivered.record(&s.epochs, &q, e, false, s.clock())
		q.Delivered.Referenced(q.Key)
	}
}
