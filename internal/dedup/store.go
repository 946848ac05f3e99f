// Package dedup stores the answers of read-only calls, lets identical calls share one
// fetch, and invalidates answers when what they depend on changes.
//
// An answer depends on places. A counter, the epoch, only rises, and each place has the
// epoch of its last possible change. An answer has the epoch from before its fetch and is
// valid while every place it depends on last changed before then and has no pending
// write. So a write costs as much as the places it names, however many answers there are:
//
//	store := dedup.New(dedup.Options{MaxBytes: 256 << 20})
//	write := store.RegisterWrite(effect) // from here on nothing it may change is served
//	store.Do(ctx, query, waiter, func(ctx context.Context, f *dedup.Flight) {
//		f.Finish(body, false, true) // not stored: it may be from before the write
//	})
//	write.End() // changes the places again, so that answers fetched meanwhile are invalid
//
// An answer may be fetched before a call asks for it ([Store.Prefetch]). The store then
// records whether that prefetch was used, late, or wasted and why.
//
// The package knows no tools, no values and no JSON: a call comes with its key, its
// places and its reuse rules. Changes made elsewhere are not seen; ages, the state of a
// file and [Store.Invalidate] bound their effect.
package dedup

import (
	"errors"
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
)

// Options configure a store. The tags are keys of [dedup] in the configuration.
type Options struct {
	MaxBytes    int64         `toml:"max_bytes" unit:"bytes" default:"256MiB"` // of all answers, with their overhead; 0 stores nothing
	WriteSettle time.Duration `toml:"write_settle" default:"60s"`              // how long a write of unknown outcome stays pending; 0 for not at all
	Settle      time.Duration `toml:"settle" default:"2s"`                     // how long after a remote write answers may still be old; 0 for none
	Peers       Peers         `json:"-"`                                       // the other replicas; nil for none. Fixed when the store is made

	// Clock returns the time; nil means age.Now. Its monotonic time never goes back. It
	// must not call the store, and must be safe on any goroutine. It is fixed when the
	// store is made. The age of an answer is the larger one by both clocks; how long a
	// write may still land is monotonic time alone. Timers run on the computer's clock, by
	// which a file must also not have changed just now; one that ends a write of unknown
	// outcome ends it only if this clock agrees.
	Clock func() age.Moment `json:"-"`
}

// maxShare bounds one answer to MaxBytes/maxShare.
const maxShare = 8

// Store holds the answers of all clients. It has many methods because the validity of an
// answer must be decided under the mutex that guards epochs and flights: only then does
// a change either see the answer or get seen by it.
type Store struct {
	clock func() age.Moment
	start age.Moment   // when the store was made
	seed  maphash.Seed // of the hashes that compare answers
	peers *replicas    // nil for none

	mu           sync.Mutex
	options      Options
	epochs       epochs
	byKey        map[call.Key]*Flight // key → the newest flight that calls of the key see: to join it, or to know that it is under way
	flights      map[*Flight]struct{} // not yet finished
	answers      answers
	lastID       uint64 // of the newest flight
	reclassified uint64 // number of reclassifications
	underWay     int    // registered calls that have not ended
	closed       bool
	counts       Stats // only the counters
}

// New returns an empty store.
func New(o Options) *Store {
	clock := o.Clock
	if clock == nil {
		clock = age.Now
	}
	return &Store{
		clock: clock, start: clock(), seed: maphash.MakeSeed(), peers: newReplicas(o.Peers), options: o,
		epochs: newEpochs(), answers: newAnswers(),
		byKey:   make(map[call.Key]*Flight),
		flights: make(map[*Flight]struct{}),
		counts:  Stats{Prefetch: PrefetchStats{Wasted: make(map[string]int64)}},
	}
}

// Configure replaces the options except Clock and Peers, and evicts what no longer fits.
func (s *Store) Configure(o Options) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options = o
	s.shrinkLocked(nil)
}

// Close cancels all fetches and clears the store. A later Do always fetches.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for f := range s.flights {
		f.scopeEndedLocked()
		f.cancel(errors.New("store: closed"))
	}
	for _, e := range s.answers.entries.Values() {
		s.removeLocked(e, neverAsked)
	}
}

// DropScope removes the answers of a scope that has ended, and stores none of its
// flights. A prefetch without a waiting call is cancelled.
func (s *Store) DropScope(scope string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.answers.scopes[scope] {
		s.removeLocked(e, neverAsked)
	}
	for f := range s.flights {
		if f.query.Key.Scope == scope {
			f.scopeEndedLocked()
		}
	}
}

// insertLocked stores an answer. If the answer is too large, or a newer one is stored, it
// returns why not.
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
	s.shrinkLocked(e)
	return ""
}

// shrinkLocked evicts the least recently used answers until the rest fits. by is the entry
// just added, or nil.
func (s *Store) shrinkLocked(by *entry) {
	for s.answers.bytes > s.options.MaxBytes {
		_, oldest, ok := s.answers.entries.GetOldest()
		if !ok {
			return
		}
		if by != nil && by.prefetch != nil && oldest.prefetch == nil {
			by.prefetch.displaced.Store(true)
		}
		s.removeLocked(oldest, evicted)
	}
}

// removeLocked removes an answer. A prefetch that no call has asked for is then wasted.
func (s *Store) removeLocked(e *entry, why cause) {
	s.answers.remove(e)
	s.wastedLocked(e.prefetch, why)
}

// overhead is the memory of an answer besides its bytes: the entry, and its places in the
// maps and the list.
const overhead = 512

// cost is the size of an answer against MaxBytes.
func cost(body int, k call.Key) int64 {
	return int64(body+len(k.Scope)+len(k.Tool)+len(k.Arguments)) + overhead
}

// entry is a stored answer.
type entry struct {
	id        uint64 // of its flight; a later one is larger
	key       call.Key
	places    []call.Place
	epoch     uint64 // counter when the fetch began
	began     age.Moment
	took      time.Duration // duration of the fetch
	file      fileState
	body      []byte
	hash      uint64 // of the body; 0 unless repeats are counted
	size      int64  // counted against MaxBytes
	stateless bool
	prefetch  *Prefetch     // nil if a call began the fetch
	ageLimit  time.Duration // of a prefetch: maximum age at which it is served
	asked     bool          // a call has asked for it, or began its fetch
}

// answers index the entries by key in order of last use, by scope, and, if prefetched and
// not asked for, in unasked. The store's mutex guards them.
type answers struct {
	entries *simplelru.LRU[call.Key, *entry]
	scopes  map[string]map[*entry]struct{}   // scope → its entries
	unasked *simplelru.LRU[*entry, struct{}] // prefetched entries that no call has asked for, the one swept longest ago first
	bytes   int64                            // sum of the entries' sizes
}

func newAnswers() answers {
	return answers{
		entries: newLRU[call.Key, *entry](math.MaxInt), scopes: make(map[string]map[*entry]struct{}),
		unasked: newLRU[*entry, struct{}](math.MaxInt),
	}
}

func newLRU[K comparable, V any](size int) *simplelru.LRU[K, V] {
	l, _ := simplelru.NewLRU[K, V](size, nil) // only a size below 1 is an error
	return l
}

// add stores an entry; its key must have none.
func (a *answers) add(e *entry) {
	a.entries.Add(e.key, e)
	a.bytes += e.size
	if a.scopes[e.key.Scope] == nil {
		a.scopes[e.key.Scope] = make(map[*entry]struct{})
	}
	a.scopes[e.key.Scope][e] = struct{}{}
	if !e.asked {
		a.unasked.Add(e, struct{}{})
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
	a.unasked.Remove(e)
}
