package speculate

import (
	"sync"
	"sync/atomic"
	"time"
)

// What a call takes while its server has others says little of what it would take
// alone: a server that works on one call at a time has it wait for the others. So it is
// kept for how long an upstream instance has had more than one call at once.

// Timing is when a call was with its server. The path of the call writes it, the record
// and the worker read it.
type Timing struct {
	sentAt atomic.Int64          // when it was last sent, in Unix ns; 0: not yet
	took   atomic.Int64          // ns from then to its answer; 0: there was none
	shared atomic.Int64          // ns of that in which its server had other calls too
	visit  atomic.Pointer[visit] // nil: it was not sent
}

// At is when the call was last sent; zero: it was not.
func (t *Timing) At() time.Time {
	if sent := t.sentAt.Load(); sent != 0 {
		return time.Unix(0, sent)
	}
	return time.Time{}
}

// Took is how long the call took; 0: it was not answered.
func (t *Timing) Took() time.Duration { return time.Duration(t.took.Load()) }

// Late notes that the server has answered after all.
func (t *Timing) Late() {
	if v := t.visit.Load(); v != nil {
		v.leave(time.Now())
	}
}

// lingers is how long a server is taken to be still at a call that was cut short, if it
// does not say otherwise.
const lingers = time.Minute

// Sent notes that a call goes to an upstream instance. c is the call as it is observed;
// nil: it is not.
func (w *Worker) Sent(t *Timing, instance uint64, c *Call, now time.Time) {
	t.sentAt.Store(now.UnixNano())
	t.visit.Store(w.instances.of(instance).enter(now))
	if c != nil {
		w.Scheduler.Began(instance, c.ID, c.Tool, c.Early, now)
		if c.Early {
			w.Scheduler.Prefetching(c.Host, now)
		}
	}
}

// Outcome is how a call has come back.
type Outcome struct {
	Answered bool // else no answer is waited for any more, and how long that took says nothing
	GoesOn   bool // its server may still be at it
	Limited  bool // its host refused it as one call too many
}

// Returned notes that a call has come back.
func (w *Worker) Returned(t *Timing, instance uint64, c *Call, o Outcome, now time.Time) {
	v := t.visit.Load()
	switch {
	case o.Answered:
		t.took.Store(max(now.UnixNano()-t.sentAt.Load(), 1))
		t.shared.Store(int64(v.shared(now)))
		v.leave(now)
	case o.GoesOn:
		time.AfterFunc(lingers, func() { v.leave(time.Now()) })
	default:
		v.leave(now)
	}
	if c == nil {
		return
	}
	if !o.Answered {
		w.Scheduler.Cut(instance, c.ID)
	}
	w.Scheduler.Ended(instance, c.ID, now)
	if at, ok := w.instances.find(instance); ok { // else it was forgotten with its session
		w.publishConcurrency(instance, at)
	}
	if o.Limited && !c.Early {
		w.Scheduler.Limited(c.Host, now)
	}
}

// Alone is how long a call would have taken had it been alone with its server, as far
// as that is known: not the time in which the server had other calls, unless it works
// on several at once; then as long as the tool's calls usually take. 0: it was not answered.
func (w *Worker) Alone(t *Timing, up *Upstream, tool string) time.Duration {
	took, shared := t.Took(), time.Duration(t.shared.Load())
	if shared <= 0 || took == 0 {
		return took
	}
	if usual := w.Tool(up.Key, tool).Usual.Latency.P50; usual > 0 && w.instances.of(up.Instance).parallel.Load() {
		return min(took, usual)
	}
	return max(1, took-shared)
}

// LeaseEnded forgets the instance of a lease, if it ends too.
func (w *Worker) LeaseEnded(up *Upstream) {
	if !up.Shared {
		w.instances.forget(up.Instance)
	}
}

// publishConcurrency says for the path of a call how an instance works on several calls.
func (w *Worker) publishConcurrency(instance uint64, at *occupancy) {
	at.parallel.Store(w.Scheduler.Concurrency(instance) == Parallel)
}

// occupancies are how many calls each instance has.
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
