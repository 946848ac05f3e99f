// Package speculate prefetches: it makes calls before they are asked for.
//
// The worker is told of the calls of sessions and of their results. What is likely to come
// next (predict) it holds against what may be made at this moment, picks what is worth it
// (enrich), begins that within the bounds of its scheduler, and goes on when it is back:
//
//	w := speculate.NewWorker(speculate.Setup{Log: log, Rules: rules, Waited: limits.Harm, Decided: record, Gone: gone})
//	if w.Wants(rules(), client) {
//		w.Called(call)
//	}
//	w.Answered(call, result, nil)
//	w.SessionEnded(client, func() {})
//	w.Close()
//
// The scheduler bounds what is under way. A prefetch owns nothing but a claim, and a claim
// always ends: it takes a slot when it is started; its call's return frees the slot, and if
// that never comes its deadline does. Ending a claim takes nothing from a real call that has
// joined, for that holds the flight itself. What became of its prefetches moves a session,
// and the host they went to, between five levels, from more than was configured down to
// only watching what would have been started. Any harm costs a level at once. An upstream
// that was not seen to work on calls side by side gets one prefetch at a time.
//
// Where levels and labels are concerned time comes in as an argument, so that recorded
// sessions can be played; the deadline alone runs in real time.
package speculate

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"mcpschedd/internal/call"
)

// Why the context of a prefetch has ended. That of one whose fate is known ends
// without any of these reasons.
var (
	ErrDeadline  = errors.New("the prefetch took longer than it may")
	ErrDropped   = errors.New("the prefetch no longer pays")
	ErrPreempted = errors.New("a real call came to the same serial upstream")
	ErrEnded     = errors.New("the prefetch's session has ended")
)

// Options bound what is under way at once. A field that is not above zero takes
// its default.
type Options struct {
	PerSession int           // prefetches of one session; default 3, at most 256
	Total      int           // prefetches of the process; default 16
	Deadline   time.Duration // a prefetch that no call has joined lives at most this long; default 30 s
}

func (o Options) withDefaults() Options {
	if o.PerSession <= 0 {
		o.PerSession = 3
	}
	if o.Total <= 0 {
		o.Total = 16
	}
	if o.Deadline <= 0 {
		o.Deadline = 30 * time.Second
	}
	o.PerSession = min(o.PerSession, keepGuesses)
	return o
}

// How much is remembered.
const (
	keepGuesses   = 256  // of a session, for their fates; and as many that are watched
	keepHosts     = 1024 // more only while they stand below the level where each session begins, or not long above
	keepEstimates = 1024 // more only while all of them are in use
	keepMost      = 4    // times that, in any case
	keepChanges   = 256  // changes of level that were not asked for
	keepReasons   = 32   // for which prefetches were refused
)

// Scheduler is where the prefetches of a process are started. Its methods, and those of
// its sessions, may be called from any goroutine.
type Scheduler struct {
	mu        sync.Mutex
	opt       Options
	hosts     *simplelru.LRU[string, *host]
	estimates *simplelru.LRU[uint64, *estimate]
	underWay  int       // slots taken
	latest    time.Time // the last time that was told; Harm is not
	counts    counts
	levels    [levels]int // how many sessions stand at each
	changes   []Change    // that were not asked for
	moves     int64       // changes so far
}

// host is what is known of one host.
type host struct {
	name     string
	throttle throttle
	guessed  time.Time         // when the last prefetch there was sent, unless a call there was refused since
	ran      map[*Session]bool // sessions that have had a prefetch there since it was last looked what it cost others
	waited   time.Duration     // what its calls had waited for prefetches then
	looked   bool              // it was
}

// New makes the scheduler of a process.
func New(o Options) *Scheduler {
	d := &Scheduler{opt: o.withDefaults(), counts: counts{Refused: make(map[string]int64)}}
	d.hosts, _ = simplelru.NewLRU[string, *host](keepMost*keepHosts, nil) // an error: no size
	d.estimates, _ = simplelru.NewLRU[uint64, *estimate](keepMost*keepEstimates, nil)
	return d
}

// Configure puts other bounds in place. What is under way goes on, under the
// deadline it began with.
func (d *Scheduler) Configure(o Options) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opt = o.withDefaults()
}

// Session begins a client session, of that name in the changes of its level.
func (d *Scheduler) Session(name string) *Session {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &Session{scheduler: d, name: name, throttle: newThrottle(), calls: make(map[call.Key]*claim)}
	d.levels[s.throttle.level]++
	return s
}

// hostLocked returns the host of that name, which is from now on the one used
// last.
func (d *Scheduler) hostLocked(name string) *host {
	if h, ok := d.hosts.Get(name); ok {
		return h
	}
	forget(d.hosts, keepHosts, func(h *host) bool { return h.throttle.remembers() })
	h := &host{name: name, throttle: newThrottle(), ran: make(map[*Session]bool)}
	d.hosts.Add(name, h)
	return h
}

// estimateLocked returns the estimate of an upstream instance, likewise.
func (d *Scheduler) estimateLocked(upstream uint64) *estimate {
	if l, ok := d.estimates.Get(upstream); ok {
		return l
	}
	forget(d.estimates, keepEstimates, (*estimate).busy)
	l := newEstimate()
	d.estimates.Add(upstream, l)
	return l
}

// forget makes room for one more, if there are as many as should be. It looks at
// a few only, so that no caller pays for all; those that must be kept have their next
// chance when they are the oldest again.
func forget[K comparable, V any](all *simplelru.LRU[K, V], most int, keep func(V) bool) {
	for range 4 {
		if all.Len() < most {
			return
		}
		k, v, _ := all.GetOldest()
		if !keep(v) {
			all.Remove(k)
			return
		}
		all.Get(k)
	}
}

// sawLocked notes what time it is.
func (d *Scheduler) sawLocked(now time.Time) {
	if now.After(d.latest) {
		d.latest = now
	}
}
