package proxy

import (
	"sync/atomic"
	"time"
)

// timing is when a call was with its server. The path of the call writes it, the record
// and the prefetcher read it.
type timing struct {
	sentAt atomic.Int64          // when it was last sent, in Unix ns; 0: not yet
	took   atomic.Int64          // ns from then to its answer; 0: there was none
	shared atomic.Int64          // ns of that in which its server had other calls too
	visit  atomic.Pointer[visit] // nil: it was not sent
}

// lingers is how long a server is taken to be still at a call that was cut short, if it
// does not say otherwise.
const lingers = time.Minute

// sent notes that the call goes to an instance.
func (t *timing) sent(at *occupancy, now time.Time) {
	t.sentAt.Store(now.UnixNano())
	t.visit.Store(at.enter(now))
}

// answered notes that the call has its answer.
func (t *timing) answered(now time.Time) {
	v := t.visit.Load()
	t.took.Store(max(now.UnixNano()-t.sentAt.Load(), 1))
	t.shared.Store(int64(v.shared(now)))
	v.leave(now)
}

// failed notes that no answer is waited for any more. How long that took says nothing.
// goesOn: the server may still be at it.
func (t *timing) failed(now time.Time, goesOn bool) {
	v := t.visit.Load()
	if goesOn {
		time.AfterFunc(lingers, func() { v.leave(time.Now()) })
	} else {
		v.leave(now)
	}
}

// late notes that the server has answered after all.
func (t *timing) late() {
	if v := t.visit.Load(); v != nil {
		v.leave(time.Now())
	}
}

// at is when the call was last sent; zero: it was not.
func (t *timing) at() time.Time {
	if sent := t.sentAt.Load(); sent != 0 {
		return time.Unix(0, sent)
	}
	return time.Time{}
}

// upstream is how long the call took; 0: it was not answered.
func (t *timing) upstream() time.Duration { return time.Duration(t.took.Load()) }

// alone is how long the call would have taken had it been alone with its server, as far
// as that is known: not the time in which the server had other calls, unless it works
// on several at once; then as long as its calls usually take. 0: it was not answered.
func (t *timing) alone(parallel bool, usual time.Duration) time.Duration {
	took, shared := t.upstream(), time.Duration(t.shared.Load())
	switch {
	case shared <= 0 || took == 0:
		return took
	case parallel && usual > 0:
		return min(took, usual)
	}
	return max(1, took-shared)
}
