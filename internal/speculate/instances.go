package speculate

import "time"

// Began notes a call that was sent to an upstream instance, real or a prefetch, for
// telling whether it works serially: when it is really sent, and not while it waits
// for its turn or its host. id tells the calls of the instance apart.
func (d *Scheduler) Began(upstream, id uint64, tool string, guess bool, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sawLocked(now)
	d.estimateLocked(upstream).begin(id, tool, guess, now)
}

// Ended notes that it has returned. If it was a real call that waited for prefetches,
// that is harm.
func (d *Scheduler) Ended(upstream, id uint64, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sawLocked(now)
	l, ok := d.estimates.Get(upstream)
	if !ok {
		return
	}
	if waited, ahead := l.end(id, now); waited > 0 {
		d.harmLocked(ahead.host, ahead.session, ForegroundWait, waited)
	}
}

// Cut notes that the call is given up, by its client or because it took too long:
// its end, which Ended still tells, says nothing of how the upstream works.
func (d *Scheduler) Cut(upstream, id uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l, ok := d.estimates.Get(upstream); ok {
		if r := l.find(id); r != nil {
			l.cut(r)
		}
	}
}

// Concurrency says how an upstream instance works on calls that it has at the same
// time, as far as that is known.
func (d *Scheduler) Concurrency(upstream uint64) Concurrency {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l, ok := d.estimates.Get(upstream); ok {
		return l.is
	}
	return Unknown
}

// concurrency is that, and how likely the instance works serially: as far as nothing was
// seen it may as well as not.
func (d *Scheduler) concurrency(upstream uint64) (is Concurrency, serial float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l, ok := d.estimates.Get(upstream); ok {
		return l.is, 1 - l.mean()
	}
	return Unknown, 0.5
}

// Presume says how another instance of the same server was known to work, when this
// one is new: it is taken to be the same until two pieces of evidence say otherwise.
// Unknown says nothing; nor does anything once calls here have told.
func (d *Scheduler) Presume(upstream uint64, l Concurrency) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l == Serial || l == Parallel {
		d.estimateLocked(upstream).presume(l)
	}
}

// Gone forgets an upstream instance, which has ended.
func (d *Scheduler) Gone(upstream uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.estimates.Remove(upstream)
}
