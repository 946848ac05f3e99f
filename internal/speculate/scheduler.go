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
// Time comes in as an argument, so that recorded sessions can be played; the deadline alone
// runs in real time.
package speculate

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Why the context of a prefetch has ended. That of one whose fate is known ends
// without any of these reasons.
var (
	ErrDeadline = errors.New("the prefetch took longer than it may")
	ErrDropped  = errors.New("the prefetch no longer pays")
	ErrEnded    = errors.New("the prefetch's session has ended")
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
	o.PerSession = min(o.PerSession, keepOpen)
	return o
}

// How much is remembered.
const (
	keepOpen    = 256  // prefetches of a session whose fate is not known
	keepHosts   = 1024 // a host that is forgotten begins again at the usual level
	keepServers = 1024 // upstream instances
	keepChanges = 256  // changes of level that were not asked for
)

// Scheduler is where the prefetches of a process are started. Its methods, and those of
// its sessions, may be called from any goroutine.
type Scheduler struct {
	mu        sync.Mutex
	opt       Options
	hosts     *simplelru.LRU[string, *host]
	instances *simplelru.LRU[uint64, *instance]
	underWay  int // slots taken
	counts    Counts
	levels    [levels]int // how many sessions stand at each
	changes   []Change    // that were not asked for
}

// host is what is known of one host.
type host struct {
	name     string
	throttle throttle
	sent     time.Time     // when the last prefetch there was sent, unless a call there was refused since
	waited   time.Duration // what its calls have waited for prefetches in the queue of its limits
}

// New makes the scheduler of a process.
func New(o Options) *Scheduler {
	d := &Scheduler{opt: o.withDefaults()}
	d.hosts, _ = simplelru.NewLRU[string, *host](keepHosts, nil) // an error: no size
	d.instances, _ = simplelru.NewLRU[uint64, *instance](keepServers, nil)
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
	s := &Session{scheduler: d, name: name, throttle: newThrottle()}
	d.levels[s.throttle.level]++
	return s
}

// hostLocked returns the host of that name, which is from now on the one used last.
func (d *Scheduler) hostLocked(name string) *host {
	h, ok := d.hosts.Get(name)
	if !ok {
		h = &host{name: name, throttle: newThrottle()}
		d.hosts.Add(name, h)
	}
	return h
}

// instanceLocked likewise returns an upstream instance.
func (d *Scheduler) instanceLocked(id uint64) *instance {
	i, ok := d.instances.Get(id)
	if !ok {
		i = newInstance()
		d.instances.Add(id, i)
	}
	return i
}

// Gone forgets an upstream instance, which has ended.
func (d *Scheduler) RemoveInstance(instance uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.instances.Remove(instance)
}

// Counts are what happened to prefetches since the scheduler was made. What was issued and
// is none of used, wasted and compared is open.
type Counts struct {
	Issued      int64 `json:"issued"`
	Used        int64 `json:"used"`         // a real call got the answer
	Wasted      int64 `json:"wasted"`       // of no use
	Compared    int64 `json:"compared"`     // only compared with a real answer
	Watched     int64 `json:"watched"`      // that were not to be started
	WatchedTrue int64 `json:"watched_true"` // of those: asked for in time

	Harm HarmStats `json:"harm"`
}

// Stats is what is under way, and what happened since the scheduler was made.
type Stats struct {
	Counts
	UnderWay int            `json:"under_way"`         // slots taken
	Hosts    map[string]int `json:"hosts"`             // host → level
	Sessions [levels]int    `json:"sessions_by_level"` // sessions at level 0 to 4
}

// Stats returns what there is to say of the scheduler.
func (d *Scheduler) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Stats{Counts: d.counts, UnderWay: d.underWay, Hosts: make(map[string]int), Sessions: d.levels}
	for _, h := range d.hosts.Values() {
		s.Hosts[h.name] = h.throttle.level
	}
	return s
}

// Change is a change of level, of a host or of a session.
type Change struct {
	At            time.Time
	Host, Session string // one of the two
	From, To      int
	Why           string // accuracy, watched, or which harm
}

// Changes returns the changes of level since it was last asked, oldest first; if
// they are many, the last 256.
func (d *Scheduler) Changes() []Change {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.changes
	d.changes = nil
	return all[max(0, len(all)-keepChanges):]
}

func (d *Scheduler) changedLocked(c Change) {
	c.At = time.Now()
	if d.changes = append(d.changes, c); len(d.changes) >= 2*keepChanges {
		d.changes = append([]Change(nil), d.changes[keepChanges:]...)
	}
}
