package speculate

import (
	"math"
	"slices"
	"time"

	"mcpschedd/internal/enrich"
)

// instance is what an upstream instance has under way: one book, from which it is told how
// long a call would have taken alone, whether the instance works on several calls at once
// (evidence.go), and how long real calls waited for prefetches.
type instance struct {
	evidence
	calls  []*Run   // under way, or given up and perhaps still there; oldest first
	claims []*claim // of prefetches that hold a slot

	abandoned []time.Time // when calls that were given up had been sent, which the instance may be at; at most mostRuns

	at           time.Time     // up to which early is counted
	prefetchTime time.Duration // for how long its oldest call was a prefetch that no real call waits for
	lastClaim    *claim        // of the latest such; nil: there was none
}

// Run is a call while it is with an upstream instance.
type Run struct {
	scheduler *Scheduler
	instance  *instance
	tool      string
	began     time.Time
	prefetch  bool
	claim     *claim // of a prefetch; nil: it is a real call, or not known

	// The scheduler's mutex guards these.
	idle         bool          // it found the instance idle
	ambiguous    bool          // it met a call that was given up, so that its time tells nothing
	until        time.Time     // of one that was given up: the instance may be at it until then; zero: it was not
	ended        time.Time     // when another one ended last; zero: none did
	prefetchTime time.Duration // the instance's when it began
}

const (
	maxRuns       = 64               // calls of an instance that are followed; of more, the latest
	defaultLinger = 10 * time.Second // of a call that was given up, where it is not known how long it takes
)

func newInstance() *instance { return &instance{evidence: newEvidence()} }

// room is how many prefetches may be started: one at a time unless the instance works
// on several calls at once, beside one that was given up at most, and none behind a real call
// of a serial one, for then the next real call finds it there.
func (i *instance) room() int {
	if i.known.Is == Parallel {
		return math.MaxInt
	}
	free, given := 1-len(i.claims), 0
	for _, r := range i.calls {
		switch {
		case !r.until.IsZero() && r.prefetch:
			given++
		case r.until.IsZero() && (r.prefetch || i.known.Is == Serial):
			free = 0
		}
	}
	if given > 1 {
		free = 0
	}
	return max(0, free)
}

// outlook is what is known of an instance that a prefetch would be sent to now, and whether
// it has a real call.
func (d *Scheduler) instanceState(instance uint64) (known Known, busy bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.instanceLocked(instance)
	return i.known, slices.ContainsFunc(i.calls, func(r *Run) bool { return !r.prefetch && r.until.IsZero() })
}

// advance counts time up to now.
func (i *instance) advance(now time.Time) {
	if passed := now.Sub(i.at); passed > 0 {
		if len(i.calls) > 0 && i.calls[0].unjoined() {
			i.prefetchTime += passed
		}
		i.at = now
	}
	i.calls = slices.DeleteFunc(i.calls, func(r *Run) bool { return !r.until.IsZero() && now.After(r.until) })
}

// unasked reports whether r is a prefetch that no real call has joined: a call that waits
// for one that was joined waits for a real call.
func (r *Run) unjoined() bool { return r.prefetch && (r.claim == nil || !r.claim.asked) }

// Began notes a call that is sent to an upstream instance, real or a prefetch: when it is
// really sent, and not while it waits for its turn or its host.
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

// unmatched is the claim of a prefetch of a tool that is sent; nil: it is not known.
func (i *instance) unmatched(tool string) *claim {
	for _, c := range i.claims {
		if c.key.Tool == tool && !slices.ContainsFunc(i.calls, func(r *Run) bool { return r.claim == c }) {
			return c
		}
	}
	return nil
}

// Cut notes that the call is given up, by its client or because it took too long: what it
// takes says nothing, and the instance may be at it for longer.
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

// cutClaim notes that the prefetch of a claim is given up.
func (i *instance) abandonClaim(c *claim, now time.Time) {
	for _, r := range slices.Clone(i.calls) { // those whose time is over are forgotten meanwhile
		if r.claim == c {
			r.abandonLocked(now)
		}
	}
}

// Ended notes that the call has returned. If it was a real call that waited for prefetches,
// that is harm. alone is how long it would have taken at least had the instance had no other
// call: since the last of those ended, for until then the instance may have been at that one.
// When it was done with one that was given up is not known, so of the next one nothing is. Only
// of an instance that has finished a later call first it is known that a call does not wait for
// those before it.
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
	i.abandoned = slices.DeleteFunc(i.abandoned, r.began.After) // it answered this one, which was sent later
	switch {
	case i.outOfOrder:
		return now.Sub(r.began)
	case behind:
		return 0
	}
	return now.Sub(later(r.began, r.ended))
}

// Known is how an upstream instance works on calls that it has at the same time, with the evidence
// for it: as far as nothing was seen it may as well be serial as not.
func (d *Scheduler) Known(instance uint64) Known {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i, ok := d.instances.Get(instance); ok {
		return i.known
	}
	return Known{}
}

// Presume says what was known of another instance of the same server, when this one is
// new: how it works, and how long calls of its tools usually take. It says nothing where calls
// here have told.
func (d *Scheduler) Presume(instance uint64, k Known, usual map[string]enrich.Percentiles) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k != (Known{}) || len(usual) > 0 {
		d.instanceLocked(instance).presume(k, usual)
	}
}
