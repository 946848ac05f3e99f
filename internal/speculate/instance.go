package speculate

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// instance tracks the calls in progress at an upstream instance. From them it derives the unloaded
// latency of calls, whether the server handles calls in parallel, and how long calls waited for
// prefetches.
type instance struct {
	*estimate
	calls     []*Run      // in progress, or abandoned and perhaps still running; oldest first
	claims    []*Claim    // of prefetches that hold a slot
	abandoned []time.Time // when abandoned calls were sent, until a later one is answered; at most maxRuns

	at           time.Time     // until which prefetchTime is counted
	prefetchTime time.Duration // total time in which its oldest call was a prefetch that no call had joined
	lastClaim    *Claim        // of the last prefetch sent; nil for none
}

// Run is one call at an upstream instance. The zero Run has not been sent.
type Run struct {
	sent     atomic.Int64 // Unix time in ns of the last sending; 0 if it was not sent
	took     atomic.Int64 // ns from then to the answer; 0 for none
	unloaded atomic.Int64 // ns, a lower bound of the latency without other calls

	// Guarded by the scheduler's mutex.
	instance     *instance
	tool         string
	began        time.Time
	claim        *Claim        // of a prefetch; nil for a call
	foundIdle    bool          // it found the instance idle
	ambiguous    bool          // it overlapped an abandoned call, so its latency is not usable
	until        time.Time     // until which the instance may still be running it; zero unless it is abandoned
	otherEnded   time.Time     // when another call last ended; zero for none
	prefetchTime time.Duration // the instance's prefetchTime when it began
}

const (
	maxRuns       = 64               // most recent calls tracked per instance
	defaultLinger = 10 * time.Second // how long an abandoned call may run if its latency is unknown
)

// SentAt returns when the call was last sent; zero if it was not.
func (r *Run) SentAt() time.Time {
	if ns := r.sent.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// Took returns how long the call took; 0 if it was not answered.
func (r *Run) Took() time.Duration { return time.Duration(r.took.Load()) }

// Unloaded returns a lower bound of the call's latency without other calls; 0 if it is unknown.
func (r *Run) Unloaded() time.Duration { return time.Duration(r.unloaded.Load()) }

// Sent records that a call is sent to an upstream, after any wait for its turn or its host. claim is
// that of a prefetch; nil for a client's call.
func (d *Scheduler) Sent(r *Run, lease *Lease, tool string, claim *Claim, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.instanceLocked(lease)
	i.remove(r, now) // if it is sent again
	r.sent.Store(now.UnixNano())
	r.instance, r.tool, r.began, r.claim = i, tool, now, claim
	r.foundIdle, r.until, r.otherEnded, r.prefetchTime = len(i.calls) == 0, time.Time{}, time.Time{}, i.prefetchTime
	r.ambiguous = slices.ContainsFunc(i.calls, (*Run).abandoned)
	if claim != nil {
		i.lastClaim, claim.host.sent = claim, now
	}
	if len(i.calls) == maxRuns {
		i.calls = slices.Delete(i.calls, 0, 1)
	}
	i.calls = append(i.calls, r)
}

// Answered records that the call has been answered. If it waited for prefetches, that is harm.
func (d *Scheduler) Answered(r *Run, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := r.instance
	if i == nil {
		return
	}
	if i.remove(r, now) && !r.abandoned() {
		if wait := i.learn(r, now); wait > 0 {
			d.harmLocked(i.lastClaim.host, i.lastClaim.session, ForegroundWait, wait)
		}
		for _, o := range i.calls {
			o.otherEnded = now
		}
	}
	r.took.Store(int64(max(now.Sub(r.began), 1)))
	r.unloaded.Store(int64(max(i.unloaded(r, now), 1))) // of which 1 ns claims nothing
}

// unloaded is a lower bound of the latency of an answered call without other calls: the time since the
// last of those ended, as the instance may have been running that one until then. It is 0 behind an
// abandoned call, as the end of that is not known. Only if the instance has finished a later call first
// do calls not wait for those before them.
func (i *instance) unloaded(r *Run, now time.Time) time.Duration {
	behind := slices.ContainsFunc(i.abandoned, func(sent time.Time) bool { return !sent.After(r.began) })
	i.abandoned = slices.DeleteFunc(i.abandoned, r.began.After)
	switch {
	case i.outOfOrder:
		return now.Sub(r.began)
	case behind:
		return 0
	}
	return now.Sub(later(r.began, r.otherEnded))
}

// Abandoned records that the call was cancelled or timed out, or has failed, or that its latency says
// nothing. Unless stillRunning is false, the instance may continue to run it.
func (d *Scheduler) Abandoned(r *Run, stillRunning bool, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.instance == nil {
		return
	}
	r.abandonLocked(now)
	if !stillRunning {
		r.instance.remove(r, now)
	}
}

func (r *Run) abandonLocked(now time.Time) {
	if r.abandoned() {
		return
	}
	i := r.instance
	i.advance(now)
	if len(i.abandoned) < maxRuns {
		i.abandoned = append(i.abandoned, r.began)
	}
	r.until = now.Add(defaultLinger)
	if usual := i.usual(r.tool); usual > 0 {
		r.until = r.began.Add(2 * usual)
	}
	for _, o := range i.calls {
		o.ambiguous = true
	}
}

// remove counts the time up to now, removes a call, and reports whether it was there.
func (i *instance) remove(r *Run, now time.Time) bool {
	i.advance(now)
	at := slices.Index(i.calls, r)
	if at < 0 {
		return false
	}
	i.calls = slices.Delete(i.calls, at, at+1)
	return true
}

// advance counts the time up to now.
func (i *instance) advance(now time.Time) {
	if passed := now.Sub(i.at); passed > 0 {
		if len(i.calls) > 0 && i.calls[0].unjoined() {
			i.prefetchTime += passed
		}
		i.at = now
	}
	i.calls = slices.DeleteFunc(i.calls, func(r *Run) bool {
		return r.abandoned() && now.After(r.until)
	})
}

// abandoned reports whether no answer is awaited any more. The instance may still be running it.
func (r *Run) abandoned() bool { return !r.until.IsZero() }

// unjoined reports whether r is a prefetch that no call has joined. A call that waits for a joined
// prefetch waits for another call.
func (r *Run) unjoined() bool { return r.claim != nil && !r.claim.joined }

// oldest returns the oldest call in progress, or nil.
func (i *instance) oldest() *Run {
	for _, r := range i.calls {
		if !r.abandoned() {
			return r
		}
	}
	return nil
}

// room returns how many prefetches may be started. At an instance not known to be parallel that is
// one at a time, with at most one abandoned prefetch still running. At a serial instance none
// starts behind a call, as the next call would have to wait for it.
func (i *instance) room() int {
	if i.concurrency == Parallel {
		return math.MaxInt
	}
	free, abandoned := 1-len(i.claims), 0
	for _, r := range i.calls {
		switch {
		case r.abandoned() && r.claim != nil:
			abandoned++
		case !r.abandoned() && (r.claim != nil || i.concurrency == Serial):
			free = 0
		}
	}
	if abandoned > 1 {
		free = 0
	}
	return max(0, free)
}

// abandonClaim abandons the call of a claim.
func (i *instance) abandonClaim(c *Claim, now time.Time) {
	for _, r := range slices.Clone(i.calls) { // abandonLocked removes calls from it
		if r.claim == c {
			r.abandonLocked(now)
		}
	}
}
