package dedup

import (
	"math"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
)

// overhead is what an answer costs beside its bytes: the entry, its places in
// the maps and the list.
const overhead = 512

// cost is what an answer of that many bytes costs.
func cost(body int, k call.Key) int64 { return int64(body+len(k.Arguments)) + overhead }

// entry is an answer.
type entry struct {
	id        uint64 // of the flight that brought it: a later one is larger
	key       call.Key
	places    []call.Place
	epoch     uint64 // the counter when the fetch began
	began     age.Moment
	took      time.Duration // the fetch
	file      fileState
	body      []byte
	hash      uint64 // of the body; 0 unless repeats are counted
	size      int64  // what it costs
	stateless bool
	prefetch  *Prefetch     // a prefetch brought it; nil: a call did
	lasts     time.Duration // of a prefetch: no call is served it when it is older
	nth       int           // of a prefetch no call has asked for: its place among them
	used      bool          // a call has asked for it
}

// asked reports whether a call has asked for the answer, or began its fetch.
func (e *entry) asked() bool { return e.prefetch == nil || e.used }

// answers are what is stored: by key in the order of last use, by scope, and those
// that no call has asked for. Every entry is in the first two. The store's mutex
// guards them.
type answers struct {
	entries *simplelru.LRU[call.Key, *entry]
	scopes  map[string]map[*entry]struct{} // scope → its entries
	unasked unasked
	bytes   int64 // what the entries cost together
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
		a.unasked.add(e)
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
	if !e.asked() {
		a.unasked.remove(e)
	}
}

// unasked are the stored prefetches that no call has asked for, in no order.
type unasked struct {
	entries []*entry
	next    int // the one to look at next
}

func (u *unasked) add(e *entry) {
	e.nth = len(u.entries)
	u.entries = append(u.entries, e)
}

func (u *unasked) remove(e *entry) {
	end := len(u.entries) - 1
	last := u.entries[end]
	u.entries[e.nth], last.nth = last, e.nth
	u.entries[end] = nil
	u.entries = u.entries[:end]
}
