// Package speculate prefetches: it makes calls before a client makes them.
//
// The worker observes the calls and results of sessions. It predicts the next calls (predict),
// checks which may be made now, picks those that are worth it (enrich), starts them within the
// limits of its scheduler, and continues when they return:
//
//	w := speculate.NewWorker(speculate.Setup{Log: log, Rules: rules, Waited: limits.Harm, Decided: record, Gone: gone})
//	if w.Wants(rules(), client) {
//		w.Called(call)
//	}
//	w.Answered(call, result, nil)
//	w.SessionEnded(client, func() {})
//	w.Close()
//
// The scheduler limits the prefetches in progress. A prefetch holds only a claim, and each claim
// ends: it takes a slot when the prefetch starts and releases it when the call returns, or at a
// deadline. A call that has joined is not affected, as it holds the flight itself. The outcomes
// of prefetches move a session, and the host that they went to, between five levels, from more
// than configured down to only watching what would have been started. Harm lowers a level at
// once. An upstream that is not known to be parallel gets one prefetch at a time.
//
// Time is passed in as an argument, so that recorded sessions can be replayed. Only the deadline
// runs in real time.
package speculate

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Causes with which the context of a prefetch ends. If its fate is known, the cause is none of
// these.
var (
	ErrDeadline = errors.New("the prefetch exceeded its deadline")
	ErrDropped  = errors.New("the prefetch is no longer worth it")
	ErrEnded    = errors.New("the prefetch's session has ended")
)

// Options limit the prefetches in progress. Fields that are not positive take their defaults.
type Options struct {
	PerSession int           // per session; default 3, at most 256
	Total      int           // in the process; default 16
	Deadline   time.Duration // of a prefetch that no call has joined; default 30 s
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

// Limits of what is remembered.
const (
	keepOpen    = 256  // prefetches of a session with unknown fate
	keepHosts   = 1024 // an evicted host starts again at the normal level
	keepServers = 1024 // upstream instances
	keepChanges = 256  // changes of level not yet read
)

// Scheduler starts the prefetches of a process. It and its sessions are safe for concurrent use.
type Scheduler struct {
	mu        sync.Mutex
	opt       Options
	hosts     *simplelru.LRU[string, *host]
	instances *simplelru.LRU[uint64, *instance]
	underWay  int // slots taken
	counts    Counts
	levels    [levels]int // number of sessions at each level
	changes   []Change    // not yet read
}

// host is the state of one host.
type host struct {
	name     string
	throttle throttle
	sent     time.Time     // when the last prefetch was sent there; zero after a 429 was blamed on it
	waited   time.Duration // total wait of its calls for prefetches in the queue of its limits
}

// New returns a scheduler.
func New(o Options) *Scheduler {
	d := &Scheduler{opt: o.withDefaults()}
	d.hosts, _ = simplelru.NewLRU[string, *host](keepHosts, nil) // only a size below 1 is an error
	d.instances, _ = simplelru.NewLRU[uint64, *instance](keepServers, nil)
	return d
}

// Configure replaces the options. Prefetches in progress keep their deadlines.
func (d *Scheduler) Configure(o Options) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opt = o.withDefaults()
}

// Session begins a client session; name identifies it in a Change.
func (d *Scheduler) Session(name string) *Session {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &Session{scheduler: d, name: name, throttle: newThrottle()}
	d.levels[s.throttle.level]++
	return s
}

// hostLocked returns the host of that name, and marks it as used.
func (d *Scheduler) hostLocked(name string) *host {
	h, ok := d.hosts.Get(name)
	if !ok {
		h = &host{name: name, throttle: newThrottle()}
		d.hosts.Add(name, h)
	}
	return h
}

// instanceLocked returns an upstream instance, and marks it as used.
func (d *Scheduler) instanceLocked(id uint64) *instance {
	i, ok := d.instances.Get(id)
	if !ok {
		i = newInstance()
		d.instances.Add(id, i)
	}
	return i
}

// RemoveInstance removes an upstream instance that has ended.
func (d *Scheduler) RemoveInstance(instance uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.instances.Remove(instance)
}

// Counts are the outcomes of prefetches since the scheduler was made. Those issued and not used,
// wasted or compared are open.
type Counts struct {
	Issued      int64 `json:"issued"`
	Used        int64 `json:"used"`         // served to a call
	Wasted      int64 `json:"wasted"`       // served to no call
	Compared    int64 `json:"compared"`     // only compared with a call's answer
	Watched     int64 `json:"watched"`      // would have been started
	WatchedTrue int64 `json:"watched_true"` // watched, and then called in time

	Harm HarmStats `json:"harm"`
}

// Stats is a snapshot of the scheduler.
type Stats struct {
	Counts
	UnderWay int            `json:"under_way"`         // slots taken
	Hosts    map[string]int `json:"hosts"`             // host → level
	Sessions [levels]int    `json:"sessions_by_level"` // number at level 0 to 4
}

// Stats returns a snapshot.
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
	Why           string // accuracy, watched, or a kind of harm
}

// Changes returns the changes of level since the last call, oldest first; at most the last 256.
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
