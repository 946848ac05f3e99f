package proxy

import (
	"sync"
	"sync/atomic"
	"time"
)

// What a call takes while its server has others says little of what it would take
// alone: a server that works on one call at a time has it wait for the others. So it is
// kept for how long an upstream instance has had more than one call at once.

// occupancies are those of all instances.
type occupancies struct{ byInstance sync.Map } // instance → *occupancy

// find returns that of an instance, if there is one.
func (all *occupancies) find(instance uint64) (*occupancy, bool) {
	own, ok := all.byInstance.Load(instance)
	if !ok {
		return nil, false
	}
	return own.(*occupancy), true
}

// of returns that of an instance, from now on if there is none.
func (all *occupancies) of(instance uint64) *occupancy {
	if own, ok := all.find(instance); ok {
		return own
	}
	own, _ := all.byInstance.LoadOrStore(instance, new(occupancy))
	return own.(*occupancy)
}

// leaseEnded forgets the instance of a lease, if it ends too.
func (all *occupancies) leaseEnded(l *leased) {
	if !l.Shared() {
		all.forget(l.Instance())
	}
}

func (all *occupancies) forget(instance uint64) { all.byInstance.Delete(instance) }

// occupancy is how many calls one instance has.
type occupancy struct {
	parallel atomic.Bool // the instance was seen to work on several at once

	mu     sync.Mutex
	calls  int           // there now
	shared time.Duration // for how long there was more than one, up to at
	at     time.Time
}

// count counts one call more or less, and returns for how long there has been more
// than one so far.
func (o *occupancy) count(more int, now time.Time) (shared time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.calls > 1 {
		o.shared += now.Sub(o.at)
	}
	o.at = now
	o.calls += more
	return o.shared
}

// visit is one call's time with an instance.
type visit struct {
	at     *occupancy
	before time.Duration // occupancy.shared when it began
	left   sync.Once
}

func (o *occupancy) enter(now time.Time) *visit { return &visit{at: o, before: o.count(1, now)} }

// leave ends the visit.
func (v *visit) leave(now time.Time) { v.left.Do(func() { v.at.count(-1, now) }) }

// shared is for how long so far the instance had another call too.
func (v *visit) shared(now time.Time) time.Duration { return v.at.count(0, now) - v.before }
