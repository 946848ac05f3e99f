package speculate

import (
	"time"

	"mcpschedd/internal/record"
)

// Harm is a kind of harm done by a prefetch.
type Harm string

const (
	RateLimited    Harm = "rate_limited"    // its host answered 429
	ForegroundWait Harm = "foreground_wait" // a call waited for it
	Eviction       Harm = "eviction"        // storing its answer evicted one that a call had fetched
	Question       Harm = "question"        // its server sent the client a request, or it started a task
)

// minHarmWait is the shortest wait that costs a level. Shorter waits are only summed up, as any
// two calls delay each other by that much.
const minHarmWait = time.Millisecond

// Harm records harm done by a prefetch to a host, and of a session if it is known. Both lose a
// level, unless they have lost one since they last started a prefetch. A Question depends on the
// tool, and does not count against its host. wait is how long a call waited, for ForegroundWait.
func (d *Scheduler) Harm(host string, s *SessionClaims, what Harm, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.harmLocked(d.hostLocked(host), s, what, wait)
}

func (d *Scheduler) harmLocked(h *host, s *SessionClaims, what Harm, wait time.Duration) {
	d.reportLocked(record.Event{Kind: record.Harm, Why: string(what), LatencyMS: ms(wait), Count: 1})
	if what == ForegroundWait && wait < minHarmWait {
		return
	}
	if what != Question {
		d.changeLocked(&h.throttle, string(what), (*throttle).harm)
	}
	if s != nil && !s.ended {
		d.changeLocked(&s.throttle, string(what), (*throttle).harm)
	}
}

// Waited reports the total time that calls to a host have waited for prefetches in the queue of its
// limits, and how much of it was not reported to any scheduler before, which alone is recorded. The
// host loses a level for an increase since the last report, but for none at the first report: those
// waits were for prefetches of other schedulers.
func (d *Scheduler) Waited(host string, total, unread time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.hostLocked(host)
	if unread > 0 {
		d.reportLocked(record.Event{Kind: record.Harm, Why: string(ForegroundWait), LatencyMS: ms(unread), Count: 1})
	}
	if h.waited >= 0 && total-h.waited >= minHarmWait {
		d.changeLocked(&h.throttle, string(ForegroundWait), (*throttle).harm)
	}
	h.waited = total // less than before if the host's limits were forgotten
}

// blameWindow is how long a prefetch may be the cause of a 429.
const blameWindow = time.Minute

// Limited records that a host answered 429 to a call, or to one of another replica, which counts the
// harm. If a prefetch was sent there within the last minute, the host loses a level, once for each
// prefetch.
func (d *Scheduler) Limited(host string, elsewhere bool, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.hostLocked(host)
	blamed := !h.sent.IsZero() && now.Sub(h.sent) < blameWindow
	h.sent = time.Time{}
	switch {
	case blamed && elsewhere:
		d.changeLocked(&h.throttle, string(RateLimited), (*throttle).harm)
	case blamed:
		d.harmLocked(h, nil, RateLimited, 0)
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
