package speculate

import (
	"mcpschedd/internal/call"
	"mcpschedd/internal/record"
)

// Throttle is a throttle without a scheduler.
type Throttle struct{ t throttle }

func NewThrottle() *Throttle                       { return &Throttle{throttle{level: Normal}} }
func (t *Throttle) Level() int                     { return t.t.level }
func (t *Throttle) Era() int                       { return t.t.generation }
func (t *Throttle) Started()                       { t.t.started() }
func (t *Throttle) Harm()                          { t.t.harm() }
func (t *Throttle) Label(era int, used, late bool) { t.t.label(era, used, late) }

// Followed returns the number of tracked calls of an instance.
func (d *Scheduler) Followed(lease *Lease) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.instanceLocked(lease).calls)
}

// Anonymous returns the claim of a prefetch without a session.
func (d *Scheduler) Anonymous() *Claim {
	s := d.NewClaims("")
	d.mu.Lock()
	defer d.mu.Unlock()
	return &Claim{session: s, host: d.hostLocked("anywhere")}
}

// Harmed returns the number of harms of a kind, and how long calls waited, from the events that
// have not been read yet.
func (d *Scheduler) Harmed(what Harm) (n int64, waitMS float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if e.Kind == record.Harm && e.Why == string(what) {
			return e.Count, e.LatencyMS
		}
	}
	return 0, 0
}

// Level returns the level of a session, and Labels how many fates count at it, as at that of a host.
func (s *SessionClaims) Level() int         { return s.throttle.level }
func (s *SessionClaims) Labels() int        { return s.throttle.labels }
func (d *Scheduler) Labels(host string) int { return d.hostLocked(host).labels }

// Open returns the number of a session's prefetches, made or watched, that are open.
func (s *SessionClaims) Open() int { return len(s.open) }

// Key returns the key of a claim's call.
func (c *Claim) Key() call.Key { return c.key }

func (c Concurrency) String() string { return [...]string{"unknown", "serial", "parallel"}[c] }

// Waiting returns the number of waiting candidates.
func (c *Chooser) Waiting() int { return len(c.waiting) }
