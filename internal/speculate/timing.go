package speculate

import (
	"sync/atomic"
	"time"
)

// Timing is when a call was with its server. The path of the call writes it, the record
// and the worker read it.
type Timing struct {
	run      atomic.Pointer[Run] // nil: it was not sent
	took     atomic.Int64        // ns from when it was last sent to its answer; 0: there was none
	unloaded atomic.Int64        // ns that it would have taken at least had its server had no other call
}

// At is when the call was last sent; zero: it was not.
func (t *Timing) SentAt() time.Time {
	if r := t.run.Load(); r != nil {
		return r.began
	}
	return time.Time{}
}

// Took is how long the call took; 0: it was not answered.
func (t *Timing) Took() time.Duration { return time.Duration(t.took.Load()) }

// Late notes that the server has answered after all.
func (t *Timing) AnsweredLate() {
	if r := t.run.Load(); r != nil {
		r.Ended(time.Now())
	}
}

// Sent notes that a call goes to an upstream instance. c is the call as it is observed;
// nil: it is not.
func (d *Scheduler) Sent(t *Timing, instance uint64, tool string, c *Call, now time.Time) {
	early := c != nil && c.Prefetch
	t.run.Store(d.Began(instance, tool, early, now))
	if early {
		d.Prefetching(c.Host, now)
	}
}

// Outcome is how a call has come back.
type Outcome struct {
	Answered     bool // else no answer is waited for any more, and how long that took says nothing
	StillRunning bool // its server may still be at it
	Limited      bool // its host refused it as one call too many
}

// Returned notes that a call has come back.
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

// Alone is how long a call would have taken at least had its server had no other call; 0: it
// was not answered.
func (t *Timing) Unloaded() time.Duration { return time.Duration(t.unloaded.Load()) }
