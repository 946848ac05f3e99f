package speculate

import (
	"math"
	"slices"
	"time"

	"mcpschedd/internal/enrich"
)

// instance tracks the calls in progress at an upstream instance. From them it derives the unloaded
// latency of calls, whether the instance handles calls in parallel (evidence.go), and how long
// calls waited for prefetches.
type instance struct {
	evidence
	calls  []*Run   // in progress, or abandoned and perhaps still running; oldest first
	claims []*claim // of prefetches that hold a slot

	abandoned []time.Time // sending times of abandoned calls that may still be running; at most maxRuns

	at           time.Time     // until which prefetchTime is counted
	prefetchTime time.Duration // total time in which its oldest call was a prefetch that no call had joined
	lastClaim    *claim        // of the last prefetch sent; nil for none
}

// Run is one call at an upstream instance.
type Run struct {
	scheduler *Scheduler
	instance  *instance
	tool      string
	began     time.Time
	prefetch  bool
	claim     *claim // of a prefetch; nil if it is a call, or unknown

	// Guarded by the scheduler's mutex.
	idle         bool          // it found the instance idle
	ambiguous    bool          // it overlapped an abandoned call, so its latency is not usable
	until        time.Time     // if abandoned: the instance may be running it until then; else zero
	ended        time.Time     // when another call last ended; zero for none
	prefetchTime time.Duration // the instance's prefetchTime when it began
}

const (
	maxRuns       = 64               // most recent calls tracked per instance
	defaultLinger = 10 * time.Second // how long an abandoned call is assumed to run if its latency is unknown
)

func newInstance() *instance { return &instance{evidence: newEvidence()} }

// room returns how many prefetches may be started. At an instance not known to be parallel that is
// one at a time, with at most one abandoned prefetch still running. At a serial instance none
// starts behind a call, as the next call would have to wait for it.
func (i *instance) room() int {
	if i.known.Is == Parallel {
		return math.MaxInt
	}
	free, abandoned := 1-len(i.claims), 0
	for _, r := range i.calls {
		switch {
		case !r.until.IsZero() && r.prefetch:
			abandoned++
		case r.until.IsZero() && (r.prefetch || i.known.Is == Serial):
			free = 0
		}
	}
	if abandoned > 1 {
		free = 0
	}
	return max(0, free)
}

// instanceState returns the concurrency of an instance, and whether a call is in progress there.
func (d *Scheduler) instanceState(instance uint64) (known Known, busy bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.instanceLocked(instance)
	return i.known, slices.ContainsFunc(i.calls, func(r *Run) bool { return !r.prefetch && r.until.IsZero() })
}

// advance counts the time up to now.
func (i *instance) advance(now time.Time) {
	if passed := now.Sub(i.at); passed > 0 {
		if len(i.calls) > 0 && i.calls[0].unjoined() {
			i.prefetchTime += passed
		}
		i.at = now
	}
	i.calls = slices.DeleteFunc(i.calls, func(r *Run) bool { return !r.until.IsZero() && now.After(r.until) })
}

// unjoined reports whether r is a prefetch that no call has joined. A call that waits for a joined
// prefetch waits for another call.
func (r *Run) unjoined() bool { return r.prefetch && (r.claim == nil || !r.claim.asked) }

// Began records a call or prefetch when its request is sent to an upstream instance, after any wait
// for its turn or its host.
func (d *Scheduler) Began(instance uint64, tool string, prefetch bool, now time.Time) *Run {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.instanceLocked(instance)
	i.advance(now)
	r := &Run{scheduler: d, instance: i, tool: tool, began: now, prefetch: prefetch, idle: len(i.calls) == 0}
	r.ambiguous = slices.ContainsFunc(i.calls, func(o *Run) bool { return !o.until.IsZero() })
	if prefetch {
		r.claim = i.unmatched(tool)
		i.lastClaim = r.claim
	}
	if len(i.calls) == maxRuns {
		i.calls = slices.Delete(i.calls, 0, 1)
	}
	i.calls = append(i.calls, r)
	r.prefetchTime = i.prefetchTime
	return r
}

// unmatched returns the claim of a prefetch of a tool that is being sent; nil if not known.
func (i *instance) unmatched(tool string) *claim {
	for _, c := range i.claims {
		if c.key.Tool == tool && !slices.ContainsFunc(i.calls, func(r *Run) bool { return r.claim == c }) {
			return c
		}
	}
	return nil
}

// Abandon records that the call was cancelled or timed out. Its latency is not usable, and the
// instance may continue to run it.
func (r *Run) Abandon(now time.Time) {
	r.scheduler.mu.Lock()
	defer r.scheduler.mu.Unlock()
	r.abandonLocked(now)
}

func (r *Run) abandonLocked(now time.Time) {
	if !r.until.IsZero() {
		return
	}
	r.instance.advance(now)
	if len(r.instance.abandoned) < maxRuns {
		r.instance.abandoned = append(r.instance.abandoned, r.began)
	}
	r.until = now.Add(defaultLinger)
	if usual := r.instance.usual(r.tool); usual > 0 {
		r.until = r.began.Add(2 * usual)
	}
	for _, o := range r.instance.calls {
		o.ambiguous = true
	}
}

// abandonClaim abandons the call of a claim.
func (i *instance) abandonClaim(c *claim, now time.Time) {
	for _, r := range slices.Clone(i.calls) { // abandonLocked removes calls from it
		if r.claim == c {
			r.abandonLocked(now)
		}
	}
}

// Ended records that the call has returned. If a call waited for prefetches, that is harm. unloaded
// is a lower bound of its latency without other calls: the time since the last of those ended, as
// the instance may have been running that one until then. It is 0 if an abandoned call may have been
// running, as its end is not known. Only if the instance has finished a later call first do calls not
// wait for those before them.
func (r *Run) Ended(now time.Time) (unloaded time.Duration) {
	d, i := r.scheduler, r.instance
	d.mu.Lock()
	defer d.mu.Unlock()
	i.advance(now)
	at := slices.Index(i.calls, r)
	if at < 0 {
		return 0
	}
	i.calls = slices.Delete(i.calls, at, at+1)
	if r.until.IsZero() {
		if wait := i.learn(r, now); wait > 0 {
			of := i.lastClaim
			if of == nil {
				of = &claim{}
			}
			d.harmLocked(of.host, of.session, ForegroundWait, wait)
		}
		for _, o := range i.calls {
			o.ended = now
		}
	}
	behind := slices.ContainsFunc(i.abandoned, func(sent time.Time) bool { return !sent.After(r.began) })
	i.abandoned = slices.DeleteFunc(i.abandoned, r.began.After) // the instance has answered a later call
	switch {
	case i.outOfOrder:
		return now.Sub(r.began)
	case behind:
		return 0
	}
	return now.Sub(later(r.began, r.ended))
}

// Known returns the concurrency of an upstream instance, with the evidence for it. Without evidence
// serial and parallel are equally likely.
func (d *Scheduler) Known(instance uint64) Known {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i, ok := d.instances.Get(instance); ok {
		return i.known
	}
	return Known{}
}

// Presume sets what is known of other instances of the same server: their concurrency and the usual
// latencies of tools. Evidence from this instance takes precedence.
func (d *Scheduler) Presume(instance uint64, k Known, usual map[string]enrich.Percentiles) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k != (Known{}) || len(usual) > 0 {
		d.instanceLocked(instance).presume(k, usual)
	}
}
