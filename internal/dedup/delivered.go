package dedup

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"mcpschedd/internal/age"
	"mcpschedd/internal/call"
)

// maxReceipts is the number of calls remembered for each client.
const maxReceipts = 1024

// Bounds of a back-off where Freshness does not set it.
const (
	minBackOff = time.Second
	maxBackOff = time.Minute
)

// Delivered records what one client was given: the last answer to each recent call, and how
// often in a row it was the same. A nil *Delivered records nothing. It belongs to one store.
type Delivered struct {
	seed maphash.Seed // of the hashes of keys

	mu       sync.Mutex // locked after the store's mutex
	receipts *simplelru.LRU[uint64, *receipt]
}

// receipt records what the client was given for one call.
type receipt struct {
	id     uint64 // of the last answer's flight; 0 for none
	epoch  uint64
	places []call.Place
	owed   bool // it was a reference or a part: the client must get the answer in full the next time

	// Set if repeats are counted.
	hash     uint64        // of the last answer
	count    int           // how often in a row it was the same
	firstAt  age.Moment    // delivery of the first of them
	waitFrom age.Moment    // start of the back-off
	wait     time.Duration // length of the back-off
}

// NewDelivered returns an empty record.
func NewDelivered() *Delivered {
	return &Delivered{seed: maphash.MakeSeed(), receipts: newLRU[uint64, *receipt](maxReceipts)}
}

// with calls f, with the mutex held, on the receipt of a call if there is one.
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

// Referenced records that the client was sent a reference instead of the answer. It gets
// the answer in full the next time.
func (d *Delivered) Referenced(key call.Key) {
	d.with(key, func(r *receipt) { r.owed = true })
}

// Lost records that an answer did not reach the client.
func (d *Delivered) Lost(key call.Key) {
	d.with(key, func(r *receipt) { *r = receipt{} })
}

// hasCurrent reports whether the client was given an answer to q that is still valid.
func (d *Delivered) hasCurrent(e *epochs, q *Query) (has bool) {
	d.with(q.Key, func(r *receipt) { has = r.id != 0 && e.current(r.epoch, r.places, q.Places) })
	return has
}

// record records a delivery. It returns whether the client already had that answer, and
// for how long no new one is expected.
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
	same = r.id == a.id && !r.owed
	if q.Reuse.Repeats > 0 && !backedOff { // a back-off's answer is not another repeat
		r.repeat(e, q, a, now)
	}
	r.id, r.epoch, r.places, r.owed = a.id, a.epoch, a.places, false
	return same, r.backOff(q, now)
}

// recordFailure records that the client got an error or no answer, which ends the row of repeats.
func (d *Delivered) recordFailure(q *Query) {
	d.with(q.Key, func(r *receipt) { r.count = 0 })
}

// holdsBack reports whether the client must back off: it repeats the call, and answer id is
// the last one that it got.
func (d *Delivered) holdsBack(q *Query, id uint64, now age.Moment) (holds bool) {
	d.with(q.Key, func(r *receipt) { holds = r.id == id && r.backOff(q, now) > 0 })
	return holds
}

// repeat counts an answer. A different one, or one after a change, begins a new row.
func (r *receipt) repeat(e *epochs, q *Query, a *entry, now age.Moment) {
	if r.count == 0 || r.hash != a.hash || !e.current(r.epoch, r.places, a.places) {
		r.count, r.hash, r.firstAt = 0, a.hash, now
	}
	r.count++
	if q.Reuse.Freshness > 0 {
		r.waitFrom, r.wait = a.began, q.Reuse.Freshness
		return
	}
	r.waitFrom, r.wait = now, min(max(now.Since(r.firstAt), minBackOff), maxBackOff) // as long as the row so far, which doubles if the client waits that long
}

// backOff returns how long no new answer is expected.
func (r *receipt) backOff(q *Query, now age.Moment) time.Duration {
	if q.Reuse.Repeats == 0 || r.count < q.Reuse.Repeats {
		return 0
	}
	return max(0, r.wait-now.Since(r.waitFrom))
}
