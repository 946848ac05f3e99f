package dedup

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
)

// remembered is how many calls a client is known to have had answers to.
const maxReceipts = 1024

// The shortest and the longest back-off, where no freshness says how long.
const (
	minBackOff = time.Second
	maxBackOff = time.Minute
)

// Delivered is what one client was given: the last answer to each of its last calls, and how
// often in a row it was the same. A nil one remembers nothing. It belongs to one store.
type Delivered struct {
	seed maphash.Seed // of the hashes that stand for keys: an answer is known by its flight

	mu       sync.Mutex // taken after the store's
	receipts *simplelru.LRU[uint64, *receipt]
}

// receipt is what the client was given for one call.
type receipt struct {
	id         uint64 // of the last answer
	epoch      uint64
	places     []call.Place
	referenced bool // the last time it was only referred to

	// Where the call's repeats are counted.
	hash     uint64        // of the last answer
	count    int           // how often in a row it was the same
	firstAt  age.Moment    // when the first was given
	waitFrom age.Moment    // when the wait for something new began
	wait     time.Duration // how long that is
}

// NewDelivered returns the table of a client that was given nothing yet.
func NewDelivered() *Delivered {
	receipts, err := simplelru.NewLRU[uint64, *receipt](maxReceipts, nil)
	if err != nil {
		panic(err) // only a size that is not positive is refused
	}
	return &Delivered{seed: maphash.MakeSeed(), receipts: receipts}
}

// with calls f, under the mutex, with what the client was given for a call, if it was given
// anything.
func (d *Delivered) with(key call.Key, f func(r *receipt)) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if r, ok := d.receipts.Peek(maphash.Comparable(d.seed, key)); ok {
		f(r)
	}
}

// Referenced notes that the client was not sent the answer but told that it has
// it. The next time it gets the answer.
func (d *Delivered) Referenced(key call.Key) {
	d.with(key, func(r *receipt) { r.referenced = true })
}

// Lost notes that an answer did not reach the client.
func (d *Delivered) Lost(key call.Key) {
	d.with(key, func(r *receipt) { *r = receipt{} })
}

// has reports whether the client was given an answer to q since something last
// changed.
func (d *Delivered) hasCurrent(e *epochs, q *Query) (has bool) {
	d.with(q.Key, func(r *receipt) { has = r.id != 0 && e.current(r.epoch, r.places, q.Places) })
	return has
}

// given notes that the client is given an answer. It returns whether it has it,
// and for how long nothing new is to be expected.
func (d *Delivered) record(e *epochs, q *Query, a *entry, backedOff bool, now age.Moment) (same bool, backOff time.Duration) {
	if d == nil {
		return false, 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	k := maphash.Comparable(d.seed, q.Key)
	r, ok := d.receipts.Get(k)
	if !ok {
		r = new(receipt)
		d.receipts.Add(k, r)
	}
	same = r.id == a.id && !r.referenced
	if q.Reuse.Repeats > 0 && !backedOff { // what was served to make it wait says nothing new
		r.repeat(e, q, a, now)
	}
	r.id, r.epoch, r.places, r.referenced = a.id, a.epoch, a.places, false
	return same, r.backOff(q, now)
}

// failed notes that the client is given no answer: it gets none in a row any more.
func (d *Delivered) recordFailure(q *Query) {
	d.with(q.Key, func(r *receipt) { r.count = 0 })
}

// holdsBack reports whether the client is to wait before it may fetch again: it
// keeps asking, and that answer is what it got the last time.
func (d *Delivered) holdsBack(q *Query, id uint64, now age.Moment) (holds bool) {
	d.with(q.Key, func(r *receipt) { holds = r.id == id && r.backOff(q, now) > 0 })
	return holds
}

// repeat counts an answer. Another one, and any after a change, is the first in a row.
func (r *receipt) repeat(e *epochs, q *Query, a *entry, now age.Moment) {
	if r.count == 0 || r.hash != a.hash || !e.current(r.epoch, r.places, a.places) {
		r.count, r.hash, r.firstAt = 0, a.hash, now
	}
	r.count++
	if q.Reuse.Freshness > 0 {
		r.waitFrom, r.wait = a.began, q.Reuse.Freshness
		return
	}
	r.waitFrom, r.wait = now, min(max(now.Since(r.firstAt), minBackOff), maxBackOff) // twice as long each time
}

// backOff is how long nothing new is to be expected.
func (r *receipt) backOff(q *Query, now age.Moment) time.Duration {
	if q.Reuse.Repeats == 0 || r.count < q.Reuse.Repeats {
		return 0
	}
	return max(0, r.wait-now.Since(r.waitFrom))
}
