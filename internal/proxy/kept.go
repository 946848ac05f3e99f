package proxy

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// What is kept of the results of plans, so that what did not fit into an answer
// can be read. The oldest go first.
const (
	mostKept    = 128 << 20 // bytes
	mostKeptOne = 32 << 20  // of one result
	mostListed  = 100       // results that a list names: a client reads it all
)

// kept are results of plans that can be read for a while, with their handle and in the
// session that the plan was of.
type kept struct {
	mu  sync.Mutex
	all []*keptResult // oldest first
}

// keptResult is one of them.
type keptResult struct {
	session *session
	handle  string
	of      string // what it is the result of
	value   []byte // JSON
	at      time.Time
	until   time.Time
}

func (r *keptResult) bytes() int { return len(r.value) + 256 }

// add keeps a result and returns its handle, of at least 128 random bits; "" if it
// is too large to be kept.
func (k *kept) add(s *session, of string, value []byte, now time.Time, span time.Duration) string {
	r := &keptResult{session: s, handle: rand.Text(), of: of, value: value, at: now, until: now.Add(span)}
	if len(value) > mostKeptOne {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	room := mostKept - r.bytes()
	for i, old := range slices.Backward(k.all) { // the latest stay
		if room -= old.bytes(); room < 0 {
			k.all = slices.Delete(k.all, 0, i+1)
			break
		}
	}
	k.all = append(slices.DeleteFunc(k.all, func(old *keptResult) bool { return now.After(old.until) }), r)
	return r.handle
}

// of are the results of a session that can be read now, the latest first.
func (k *kept) of(s *session, now time.Time) (results []*keptResult) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range slices.Backward(k.all) {
		if r.session == s && !now.After(r.until) {
			results = append(results, r)
		}
	}
	return results
}

// find returns what a handle of the session stands for; nil: nothing any more.
func (k *kept) find(s *session, handle string, now time.Time) *keptResult {
	for _, r := range k.of(s, now) {
		if r.handle == handle {
			return r
		}
	}
	return nil
}

// drop forgets what is kept for a session that has ended.
func (k *kept) drop(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = slices.DeleteFunc(k.all, func(r *keptResult) bool { return r.session == s })
}

// list says what is kept for a session, the latest first.
func (k *kept) list(s *session, now time.Time) string {
	results := k.of(s, now)
	if len(results) == 0 {
		return "Nothing is kept."
	}
	var b strings.Builder
	for _, r := range results[:min(len(results), mostListed)] {
		fmt.Fprintf(&b, "%s  %s, %d bytes, %v ago, kept for another %v\n", r.handle, r.of, len(r.value), now.Sub(r.at).Round(time.Second), r.until.Sub(now).Round(time.Second))
	}
	if more := len(results) - mostListed; more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	return b.String()
}
