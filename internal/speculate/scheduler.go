package speculate

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/record"
)

// errUnwanted is the cause with which the context of a prefetch ends before its fate is known. Its server
// is told.
var errUnwanted = errors.New("the prefetch is not wanted any more")

// Slots limit the prefetches in progress. Fields that are not positive take their defaults.
type Slots struct {
	PerSession int           // per session; default 3, at most 256
	Total      int           // of all sessions; default 16
	Deadline   time.Duration // how long one prefetch may hold a slot; default 30 s
}

func (o Slots) withDefaults() Slots {
	if o.PerSession <= 0 {
		o.PerSession = 3
	}
	if o.Total <= 0 {
		o.Total = 16
	}
	if o.Deadline <= 0 {
		o.Deadline = 30 * time.Second
	}
	o.PerSession = min(o.PerSession, maxOpen)
	return o
}

// Limits of what is remembered.
const (
	maxOpen   = 256  // prefetches of a session with unknown fate
	maxKnown  = 1024 // hosts, upstreams and instances each, also those that have ended
	maxEvents = 256  // not yet read
)

// Scheduler limits and follows the prefetches of all sessions of a worker. It and the claims are safe
// for concurrent use.
type Scheduler struct {
	mu        sync.Mutex
	slots     Slots
	hosts     *simplelru.LRU[string, *host]
	estimates *simplelru.LRU[string, *estimate] // of their concurrency, by Lease.Key
	instances *simplelru.LRU[uint64, *instance]
	sessions  int            // open ones
	underWay  int            // slots taken
	events    []record.Event // not yet read: changes of level, and harm
}

// host is the state of one host.
type host struct {
	throttle
	sent   time.Time     // when the last prefetch was sent there; zero after a 429 was blamed on it
	waited time.Duration // total wait of its calls for prefetches in the queue of its limits; negative before the first report
}

// NewScheduler returns a scheduler.
func NewScheduler(o Slots) *Scheduler {
	return &Scheduler{
		slots: o.withDefaults(), hosts: newLRU[string, *host](),
		estimates: newLRU[string, *estimate](), instances: newLRU[uint64, *instance](),
	}
}

func newLRU[K comparable, V any]() *simplelru.LRU[K, V] {
	l, _ := simplelru.NewLRU[K, V](maxKnown, nil) // only a size below 1 is an error
	return l
}

// Configure replaces the limits. Prefetches in progress keep their deadlines.
func (d *Scheduler) Configure(o Slots) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slots = o.withDefaults()
}

// getLocked returns the value of a key, which is made if there is none, and marks it as used.
func getLocked[K comparable, V any](all *simplelru.LRU[K, V], key K, make func() V) V {
	v, ok := all.Get(key)
	if !ok {
		v = make()
		all.Add(key, v)
	}
	return v
}

func (d *Scheduler) hostLocked(name string) *host {
	return getLocked(d.hosts, name, func() *host {
		return &host{throttle: throttle{event: record.Event{Host: name}, level: Normal}, waited: -1}
	})
}

func (d *Scheduler) estimateLocked(key string) *estimate {
	return getLocked(d.estimates, key, newEstimate)
}

func (d *Scheduler) instanceLocked(lease *Lease) *instance {
	return getLocked(d.instances, lease.Instance, func() *instance {
		return &instance{estimate: d.estimateLocked(lease.Key)}
	})
}

// PresumeConcurrency sets the evidence of an upstream's concurrency from an earlier process.
func (d *Scheduler) PresumeConcurrency(key string, learned predict.ConcurrencyEvidence) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.estimateLocked(key).presume(learned)
}

// Concurrency returns the concurrency of an upstream, with the evidence for it.
func (d *Scheduler) Concurrency(key string) (Concurrency, predict.ConcurrencyEvidence) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e, ok := d.estimates.Peek(key); ok {
		return e.concurrency, e.evidence
	}
	return Unknown, predict.ConcurrencyEvidence{}
}

// serialProbability returns the probability that an upstream is serial.
func (d *Scheduler) serialProbability(lease *Lease) float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch i := d.instanceLocked(lease); {
	case i.concurrency == Parallel, i.concurrency == Unknown && lease.Remote:
		return 0
	case i.concurrency == Serial:
		return 1
	default:
		return 1 - i.parallel()
	}
}

// Stats is a snapshot of the scheduler.
type Stats struct {
	Sessions int            // observed
	UnderWay int            // slots taken
	Hosts    map[string]int // host → level
}

// Stats returns a snapshot.
func (d *Scheduler) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Stats{Sessions: d.sessions, UnderWay: d.underWay, Hosts: make(map[string]int)}
	for _, h := range d.hosts.Values() {
		s.Hosts[h.event.Host] = h.level
	}
	return s
}

// Events returns the changes of level and the harm since the last call, oldest first; at most the last
// 256.
func (d *Scheduler) Events() []record.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.events
	d.events = nil
	return all
}

// reportLocked reports an event. Harm of one kind is summed up until it is read.
func (d *Scheduler) reportLocked(e record.Event) {
	for i := range d.events {
		if sum := &d.events[i]; e.Kind == record.Harm && sum.Kind == record.Harm && sum.Why == e.Why {
			sum.LatencyMS += e.LatencyMS
			sum.Count += e.Count
			return
		}
	}
	e.At = time.Now()
	d.events = append(d.events, e)
	d.events = d.events[max(0, len(d.events)-maxEvents):]
}

// changeLocked applies do to a throttle, and records a change of its level.
func (d *Scheduler) changeLocked(t *throttle, why string, do func(*throttle)) {
	from := t.level
	do(t)
	if t.level == from {
		return
	}
	e := t.event
	e.Kind, e.From, e.To, e.Why = record.Level, from, t.level, why
	d.reportLocked(e)
}
