package speculate

import (
	"sync/atomic"
	"time"
)

// Timing is when a call was at its server. The call writes it; the record and the worker read it.
type Timing struct {
	run      atomic.Pointer[Run] // nil if it was not sent
	took     atomic.Int64        // ns from its last sending to its answer; 0 for none
	unloaded atomic.Int64        // ns, a lower bound of its latency without other calls
}

// SentAt returns when the call was last sent; zero if it was not.
func (t *Timing) SentAt() time.Time {
	if r := t.run.Load(); r != nil {
		return r.began
	}
	return time.Time{}
}

// Took returns how long the call took; 0 if it was not answered.
func (t *Timing) Took() time.Duration { return time.Duration(t.took.Load()) }

// AnsweredLate records that the server has answered an abandoned call.
func (t *Timing) AnsweredLate() {
	if r := t.run.Load(); r != nil {
		r.Ended(time.Now())
	}
}

// Sent records that a call is sent to an upstream instance. c is nil if the call is not observed.
func (d *Scheduler) Sent(t *Timing, instance uint64, tool string, c *Call, now time.Time) {
	early := c != nil && c.Prefetch
	t.run.Store(d.Began(instance, tool, early, now))
	if early {
		d.Prefetching(c.Host, now)
	}
}

// Outcome is how a call returned.
type Outcome struct {
	Answered     bool // if not, the call was abandoned and its latency is not usable
	StillRunning bool // the server may still run it
	Limited      bool // its host answered 429
}

// Returned records that a call has returned.
func (d *Scheduler) Returned(t *Timing, c *Call, o Outcome, now time.Time) {
	r := t.run.Load()
	if !o.Answered {
		r.Abandon(now)
	}
	if o.Answered || !o.StillRunning {
		unloaded := r.Ended(now)
		if o.Answered {
			t.took.Store(int64(max(now.Sub(r.began), 1)))
			t.unloaded.Store(int64(max(unloaded, 1)))
		}
	}
	if o.Limited && c != nil && !c.Prefetch {
		d.Limited(c.Host, now)
	}
}

// Unloaded returns a lower bound of the call's latency without other calls; 0 if it was not
// answered.
func (t *Timing) Unloaded() time.Duration { return time.Duration(t.unloaded.Load()) }
