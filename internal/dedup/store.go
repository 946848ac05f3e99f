// Package dedup keeps the answers of calls that only read, lets identical calls
// share one, and knows when an answer may no longer stand for a new one.
//
// The one idea: what an answer depends on is named in places, and one counter
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
// It knows no tools, no values and no JSON: what a call is, what it depends on
// and how long its answer is good come with the call. What somebody else changes
// it cannot see; age, the look at a file and [Store.Bump] bound that.
package dedup

import (
	"context"
	"errors"
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"mcpschedd/internal/call"
)

// Options are the bounds of a store.
type Options struct {
	MaxBytes    int64         // of all answers, with what keeps them; 0: nothing is stored
	WriteSettle time.Duration // how long a change of unknown outcome is reckoned with; 0: not at all
	Settle      time.Duration // how long after a remote change answers may still be old ones; 0: none
}

// overhead is what an answer costs beside its bytes: the entry, its places in
// the maps and the list.
const overhead = 512

// maxShare is the part of MaxBytes that one answer may take: 1/maxShare.
const maxShare = 8

// Store is the answers of all clients.
type Store struct {
	began time.Time    // the store's clock starts here
	seed  maphash.Seed // of the hashes that compare answers

	mu       sync.Mutex
	options  Options
	epochs   epochs
	table    map[call.Key]*Flight // key → the newest flight, if it may be joined at all
	flights  map[*Flight]struct{} // all that have not settled
	entries  *simplelru.LRU[call.Key, *entry]
	scopes   map[string]map[*entry]struct{} // scope → its entries
	bytes    int64                          // what the entries cost together
	ids      uint64                         // of the last flight
	reforms  uint64                         // how often everything was put into the air
	passages int                            // that have not ended
	doubtful map[*Passage]struct{}          // those of unknown outcome
	closed   bool
	counts   counts
}

// entry is an answer.
type entry struct {
	id        uint64 // of the flight that brought it: a later one is larger
	key       call.Key
	places    []call.Place
	epoch     uint64 // the counter when the fetch began
	began     time.Duration
	file      fileState
	body      []byte
	hash      uint64 // of the body; 0 unless repeats are counted
	size      int64  // what it costs
	stateless bool
	guessed   bool // fetched before anybody asked
	used      bool // and then asked for
}

// New returns an empty store.
func New(o Options) *Store {
	entries, err := simplelru.NewLRU[call.Key, *entry](math.MaxInt, nil)
	if err != nil {
		panic(err) // only a size that is not positive is refused
	}
	return &Store{
		began: time.Now(), seed: maphash.MakeSeed(), options: o,
		epochs: newEpochs(), entries: entries,
		table:    make(map[call.Key]*Flight),
		flights:  make(map[*Flight]struct{}),
		scopes:   make(map[string]map[*entry]struct{}),
		doubtful: make(map[*Passage]struct{}),
	}
}

// clock is the time since the store was made.
func (s *Store) clock() time.Duration { return time.Since(s.began) }

// Configure replaces the options. What no longer fits goes at once.
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
	s.closed = true
	for p := range s.doubtful {
		p.timer.Stop()
	}
	clear(s.table)
	var cancel []context.CancelCauseFunc
	for f := range s.flights {
		f.unkept = true
		cancel = append(cancel, f.cancel)
	}
	for _, e := range s.entries.Values() {
		s.removeLocked(e, neverAsked)
	}
	s.mu.Unlock()
	for _, c := range cancel {
		c(errClosed)
	}
}

// Drop forgets the answers of a scope that has ended, and keeps none that is
// still on its way.
func (s *Store) Drop(scope string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.scopes[scope] {
		s.removeLocked(e, neverAsked)
	}
	for f := range s.flights {
		if f.query.Key.Scope == scope {
			f.unkept = true
		}
	}
}

// insertLocked stores an answer, unless it is too large or a newer one is there,
// and returns why not.
func (s *Store) insertLocked(e *entry) (stored bool, why cause) {
	if old, ok := s.entries.Peek(e.key); ok {
		if old.id > e.id {
			return false, expired
		}
		s.removeLocked(old, expired)
	}
	e.size = int64(cap(e.body)+len(e.key.Arguments)) + overhead
	if e.size > s.options.MaxBytes/maxShare {
		return false, evicted
	}
	s.entries.Add(e.key, e)
	s.bytes += e.size
	if s.scopes[e.key.Scope] == nil {
		s.scopes[e.key.Scope] = make(map[*entry]struct{})
	}
	s.scopes[e.key.Scope][e] = struct{}{}
	s.counts.Stored++
	s.shrinkLocked(e)
	return true, ""
}

// shrinkLocked evicts what was used longest ago until the rest fits; the entry
// that made it necessary, if any did, is the newest of them.
func (s *Store) shrinkLocked(by *entry) {
	for s.bytes > s.options.MaxBytes {
		_, oldest, ok := s.entries.GetOldest()
		if !ok {
			return
		}
		if by != nil && by.guessed && !oldest.guessed {
			s.counts.Prefetch.Displaced++
		}
		s.removeLocked(oldest, evicted)
	}
}

// removeLocked forgets an answer. If it was a guess that nobody had asked for, it
// is wasted.
func (s *Store) removeLocked(e *entry, why cause) {
	s.entries.Remove(e.key)
	s.bytes -= e.size
	of := s.scopes[e.key.Scope]
	delete(of, e)
	if len(of) == 0 {
		delete(s.scopes, e.key.Scope)
	}
	switch why {
	case invalidated:
		s.counts.Invalidated++
	case evicted:
		s.counts.Evicted++
	case consumed:
		s.counts.Consumed++
	}
	if e.guessed && !e.used {
		s.counts.Prefetch.Wasted.add(why)
	}
}
