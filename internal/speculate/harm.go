package speculate

import "time"

// Harm is harm done by a prefetch.
type Harm int

const (
	RateLimited    Harm = iota // its host said that it is called too often
	ForegroundWait             // a real call waited for it
	Eviction                   // what a real call had asked for was evicted for its answer
	Question                   // its server asked the client something; says nothing of other prefetches to its host
)

var harms = [...]string{"rate_limited", "foreground_wait", "eviction", "question"}

func (h Harm) String() string { return harms[h] }

// HarmStats is the harm done by prefetches.
type HarmStats struct {
	ForegroundWaitMS float64 `json:"foreground_wait_ms"` // that real calls waited for prefetches
	RateLimited      int64   `json:"rate_limited"`       // times a host said that it is called too often
	Evictions        int64   `json:"evictions"`          // of answers that a real call had asked for
	Questions        int64   `json:"questions"`          // to the client
}

// leastWait is the shortest wait that counts as harm. A shorter one is added up
// and moves nothing: it is what two calls cost each other anywhere.
const minHarmWait = time.Millisecond

// Harm notes harm done by a prefetch to that host, of that session if it is known:
// both lose a level, unless they have lost one since they last started a prefetch. A
// question is one tool's way, and costs its host none. wait is how long a real call
// waited, for ForegroundWait.
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

// Waited is told what the calls at a host have waited for prefetches in the queue of its
// limits so far. What has come to that since it was last told is held against the host.
// Less than before: the count has begun anew.
func (d *Scheduler) Waited(hostName string, sum time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.hostLocked(hostName)
	if more := sum - h.waited; more > 0 {
		d.harmLocked(h, nil, ForegroundWait, more)
	}
	h.waited = sum
}

// aWhile is for how long a prefetch may be what made a host refuse a call.
const blameWindow = time.Minute

// Prefetching notes that a prefetch is sent to a host.
func (d *Scheduler) Prefetching(hostName string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hostLocked(hostName).sent = now
}

// Limited notes that a host refused a real call as one too many. That is harm if a prefetch
// was sent there within the last minute, once for each prefetch.
func (d *Scheduler) Limited(hostName string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.hostLocked(hostName); h.limited(now) {
		d.harmLocked(h, nil, RateLimited, 0)
	}
}

// LimitedElsewhere notes that a host refused a call of another replica, which counts that. The
// host loses a level here as well if a prefetch was sent there within the last minute.
func (d *Scheduler) LimitedElsewhere(hostName string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.hostLocked(hostName); h.limited(now) {
		d.moveHostLocked(h, RateLimited.String(), (*throttle).harm)
	}
}

// limited reports whether a prefetch may be what made the host refuse a call: each does so
// once at most.
func (h *host) limited(now time.Time) bool {
	may := !h.sent.IsZero() && now.Sub(h.sent) < blameWindow
	h.sent = time.Time{}
	return may
}
