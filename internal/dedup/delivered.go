package dedup

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
)

// remembered is how many answers, and how many tools, a client is known to have
// had.
const remembered = 1024

// The shortest and the longest back-off, where no freshness says how long.
const (
	minBackOff = time.Second
	maxBackOff = time.Minute
)

// Delivered is what one client was given: the last answers, and for each tool how
// often in a row it was the same. A nil one remembers nothing. It belongs to one
// store.
type Delivered struct {
	seed maphash.Seed // of the hashes that stand for keys: an answer is known by its flight

	mu       sync.Mutex // taken after the store's
	receipts *simplelru.LRU[uint64, receipt]
	streaks  *simplelru.LRU[tool, streak]
}

// receipt is one answer that the client has.
type receipt struct {
	id         uint64 // the answer's
	epoch      uint64
	places     []call.Place
	referenced bool // the last time it was only referred to
}

type tool struct {
	upstream uint64
	name     string
}

// streak is one answer to one call, again and again.
type streak struct {
	key    uint64 // hash of the call's
	hash   uint64 // of the answer
	id     uint64 // of the last
	epoch  uint64
	places []call.Place
	count  int
	since  age.Moment    // when the first was given
	from   age.Moment    // when the wait for something new began
	wait   time.Duration // how long that is
}

// NewDelivered returns the table of a client that was given nothing yet.
func NewDelivered() *Delivered {
	d := &Delivered{seed: maphash.MakeSeed()}
	var err error
	if d.receipts, err = simplelru.NewLRU[uint64, receipt](remembered, nil); err != nil {
		panic(err) // only a size that is not positive is refused
	}
	if d.streaks, err = simplelru.NewLRU[tool, streak](remembered, nil); err != nil {
		panic(err)
	}
	return d
}

// Referenced notes that the client was not sent the answer but told that it has
// it. The next time it gets the answer.
func (d *Delivered) Referenced(key call.Key) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	k := maphash.Comparable(d.seed, key)
	if r, ok := d.receipts.Peek(k); ok {
		r.referenced = true
		d.receipts.Add(k, r)
	}
}

// Lost notes that an answer did not reach the client.
func (d *Delivered) Lost(key call.Key) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.receipts.Remove(maphash.Comparable(d.seed, key))
}

// has reports whether the client was given an answer to q since something last
// changed.
func (d *Delivered) has(e *epochs, q *Query) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r, ok := d.receipts.Peek(maphash.Comparable(d.seed, q.Key))
	return ok && e.current(r.epoch, r.places, q.Places)
}

// given notes that the client is given an answer. It returns whether it has it,
// and for how long nothing new is to be expected.
func (d *Delivered) given(e *epochs, q *Query, a *entry, backedOff bool, now age.Moment) (same bool, backOff time.Duration) {
	if d == nil {
		return false, 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	k := maphash.Comparable(d.seed, q.Key)
	r, ok := d.receipts.Peek(k)
	same = ok && r.id == a.id && !r.referenced
	d.receipts.Add(k, receipt{id: a.id, epoch: a.epoch, places: a.places})
	if q.Use.Repeats == 0 {
		return same, 0
	}
	t := toolOf(q)
	s, _ := d.streaks.Get(t)
	if !backedOff { // what was served to make it wait says nothing new
		s.add(e, q, k, a, now)
		d.streaks.Add(t, s)
	}
	return same, s.backOff(q, now)
}

// failed notes that the client is given no answer: that ends a streak.
func (d *Delivered) failed(q *Query) {
	if d == nil || q.Use.Repeats == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streaks.Remove(toolOf(q))
}

// holdsBack reports whether the client is to wait before it may fetch again: it
// keeps asking, and that answer is what it got the last time.
func (d *Delivered) holdsBack(q *Query, id uint64, now age.Moment) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.streaks.Get(toolOf(q))
	return ok && s.id == id && s.backOff(q, now) > 0
}

func toolOf(q *Query) tool { return tool{q.Key.Upstream, q.Key.Tool} }

// add counts an answer to the call with that hash. A streak begins anew with
// another call, another answer, or after a change.
func (s *streak) add(e *epochs, q *Query, key uint64, a *entry, now age.Moment) {
	if s.count == 0 || s.key != key || s.hash != a.hash || !e.current(s.epoch, s.places, a.places) {
		*s = streak{key: key, hash: a.hash, since: now}
	}
	s.count++
	s.id, s.epoch, s.places = a.id, a.epoch, a.places
	if q.Use.Freshness > 0 {
		s.from, s.wait = a.began, q.Use.Freshness
		return
	}
	s.from, s.wait = now, min(max(now.Since(s.since), minBackOff), maxBackOff) // twice as long each time
}

// backOff is how long nothing new is to be expected.
func (s *streak) backOff(q *Query, now age.Moment) time.Duration {
	if s.count < q.Use.Repeats {
		return 0
	}
	return max(0, s.wait-now.Since(s.from))
}
