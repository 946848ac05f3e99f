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
	mostKept        = 256 << 20 // bytes
	mostKeptSession = 32 << 20  // of those, one session's
	mostListed      = 100       // results that a list names: a client reads it all
)

// kept are results of plans that can be read for a while, with their handle and in the
// session that the plan was of.
type kept struct {
	mu    sync.Mutex
	of    map[*session][]*keptResult // oldest first; never empty
	bytes int                        // of all
}

// keptResult is one of them.
type keptResult struct {
	handle string
	of     string // what it is the result of
	value  []byte // JSON
	at     time.Time
	until  time.Time
}

func newKept() *kept { return &kept{of: make(map[*session][]*keptResult)} }

func (r *keptResult) bytes() int { return len(r.value) + 256 }

// add keeps a result and returns its handle, of at least 128 random bits; "" if it
// is too large to be kept.
func (k *kept) add(s *session, of string, value []byte, now time.Time, span time.Duration) string {
	r := &keptResult{handle: rand.Text(), of: of, value: value, at: now, until: now.Add(span)}
	if r.bytes() > mostKeptSession {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.makeRoomLocked(s, r.bytes(), now)
	k.of[s] = append(k.of[s], r)
	k.bytes += r.bytes()
	return r.handle
}

// makeRoomLocked drops what is kept no longer, and the oldest results until so many bytes
// more fit.
func (k *kept) makeRoomLocked(s *session, n int, now time.Time) {
	for t := range k.of {
		for len(k.of[t]) > 0 && now.After(k.of[t][0].until) {
			k.dropOldestLocked(t)
		}
	}
	own := 0
	for _, r := range k.of[s] {
		own += r.bytes()
	}
	for own+n > mostKeptSession {
		own -= k.dropOldestLocked(s)
	}
	for k.bytes+n > mostKept {
		k.dropOldestLocked(k.oldestLocked())
	}
}

// oldestLocked is the session with the oldest result.
func (k *kept) oldestLocked() (oldest *session) {
	for s, results := range k.of {
		if oldest == nil || results[0].at.Before(k.of[oldest][0].at) {
			oldest = s
		}
	}
	return oldest
}

// dropOldestLocked drops the oldest result of a session, and returns its size.
func (k *kept) dropOldestLocked(s *session) (bytes int) {
	results := k.of[s]
	bytes = results[0].bytes()
	k.bytes -= bytes
	results[0] = nil // which the slice would hold on to
	if k.of[s] = results[1:]; len(k.of[s]) == 0 {
		delete(k.of, s)
	}
	return bytes
}

// find returns what a handle of the session stands for; nil: nothing any more.
func (k *kept) find(s *session, handle string, now time.Time) *keptResult {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.of[s], func(r *keptResult) bool { return r.handle == handle })
	if i < 0 || now.After(k.of[s][i].until) {
		return nil
	}
	return k.of[s][i]
}

// drop forgets what is kept for a session that has ended.
func (k *kept) drop(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.of[s]) > 0 {
		k.dropOldestLocked(s)
	}
}

// list says what is kept for a session, the latest first.
func (k *kept) list(s *session, now time.Time) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var b strings.Builder
	n := 0
	for _, r := range slices.Backward(k.of[s]) {
		if now.After(r.until) {
			continue
		}
		if n++; n <= mostListed {
			fmt.Fprintf(&b, "%s  %s, %d bytes, %v ago, kept for another %v\n", r.handle, r.of, len(r.value), now.Sub(r.at).Round(time.Second), r.until.Sub(now).Round(time.Second))
		}
	}
	switch {
	case n == 0:
		return "Nothing is kept."
	case n > mostListed:
		fmt.Fprintf(&b, "and %d more\n", n-mostListed)
	}
	return b.String()
}
