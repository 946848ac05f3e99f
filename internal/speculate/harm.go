package speculate

import "time"

// Harm is a kind of harm done by a prefetch.
type Harm int

const (
	RateLimited    Harm = iota // its host answered 429
	ForegroundWait             // a call waited for it
	Eviction                   // storing its answer evicted one that a call had asked for
	Question                   // its server sent the client a request; does not count against the host
)

var harms = [...]string{"rate_limited", "foreground_wait", "eviction", "question"}

func (h Harm) String() string { return harms[h] }

// HarmStats is the harm done by prefetches.
type HarmStats struct {
	ForegroundWaitMS float64 `json:"foreground_wait_ms"` // total wait of calls for prefetches
	RateLimited      int64   `json:"rate_limited"`       // 429s
	Evictions        int64   `json:"evictions"`          // of answers that a call had asked for
	Questions        int64   `json:"questions"`          // requests to the client
}

// minHarmWait is the shortest wait that counts as harm. Shorter waits are only summed up, as any
// two calls delay each other by that much.
const minHarmWait = time.Millisecond

// Harm records harm done by a prefetch to a host, and of a session if it is known. Both lose a
// level, unless they have lost one since they last started a prefetch. A Question depends on the
// tool, and does not count against its host. wait is how long a call waited, for ForegroundWait.
func (d *Scheduler) Harm(host string, s *Session, what Harm, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.harmLocked(d.hostLocked(host), s, what, wait)
}

func (d *Scheduler) harmLocked(h *host, s *Session, what Harm, wait time.Duration) {
	n := &d.counts.Harm
	switch what {
	case RateLimited:
		n.RateLimited++
	case ForegroundWait:
		n.ForegroundWaitMS += ms(max(0, wait))
		if wait < minHarmWait {
			return
		}
	case Eviction:
		n.Evictions++
	case Question:
		n.Questions++
	}
	if h != nil && what != Question {
		d.moveHostLocked(h, what.String(), (*throttle).harm)
	}
	if s != nil {
		s.moveLocked(what.String(), (*throttle).harm)
	}
}

// Waited reports the total time that calls to a host have waited for prefetches in the queue of its
// limits. The increase since the last report counts as harm. A smaller total means that the count
// was reset.
func (d *Scheduler) Waited(hostName string, sum time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.hostLocked(hostName)
	if more := sum - h.waited; more > 0 {
		d.harmLocked(h, nil, ForegroundWait, more)
	}
	h.waited = sum
}

// blameWindow is how long a prefetch may be the cause of a 429.
const blameWindow = time.Minute

// Prefetching records that a prefetch is sent to a host.
func (d *Scheduler) Prefetching(hostName string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hostLocked(hostName).sent = now
}

// Limited records that a host answered 429 to a call. If a prefetch was sent there within the last
// minute, that is harm, once for each prefetch.
func (d *Scheduler) Limited(hostName string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.hostLocked(hostName); h.limited(now) {
		d.harmLocked(h, nil, RateLimited, 0)
	}
}

// LimitedElsewhere records that a host answered 429 to a call of another replica, which counts it.
// The host loses a level here too if a prefetch was sent there within the last minute.
func (d *Scheduler) LimitedElsewhere(hostName string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.hostLocked(hostName); h.limited(now) {
		d.moveHostLocked(h, RateLimited.String(), (*throttle).harm)
	}
}

// limited reports whether a prefetch may be the cause of a 429. It blames the last prefetch at most
// once.
func (h *host) limited(now time.Time) bool {
	blamed := !h.sent.IsZero() && now.Sub(h.sent) < blameWindow
	h.sent = time.Time{}
	return blamed
}
