package proxy

import (
	"sync"
	"time"

	"mcpschedd/internal/speculate"
)

// traffic is what has gone to servers and has come back, of calls that the prefetcher
// observes and of its own. The path of a call only writes it down; it is read, in
// order, before anything is decided by it.
type traffic struct {
	mu     sync.Mutex
	events []trafficEvent

	reading     sync.Mutex // held while events are read, so that they stay in order
	scheduler   *speculate.Scheduler
	occupancies *occupancies
	lately      map[string]time.Time // host → when the last prefetch there was sent, unless a call there was refused since
}

// trafficEvent is the sending or the end of one call.
type trafficEvent struct {
	call    *callFacts
	what    trafficKind
	limited bool // its host refused it as one call too many
	at      time.Time
}

type trafficKind int

const (
	callSent trafficKind = iota
	callReturned
	callGivenUp // without an answer: its server may still be at it
)

// Bounds of what is remembered of hosts, whose names may come from arguments.
const (
	aWhile    = time.Minute // for how long a prefetch may be what made a host refuse a call
	mostHosts = 1024
)

// add writes an event down. Of a call that is not observed there is nothing to write.
func (t *traffic) add(e trafficEvent) {
	if e.call == nil {
		return
	}
	t.mu.Lock()
	t.events = append(t.events, e)
	t.mu.Unlock()
	if e.call.early { // at once: the scheduler tells which prefetch it is by what is under way
		t.read()
	}
}

// read tells the scheduler what has happened since it was last told, and returns it.
func (t *traffic) read() *speculate.Scheduler {
	t.reading.Lock()
	defer t.reading.Unlock()
	t.mu.Lock()
	events := t.events
	t.events = nil
	t.mu.Unlock()
	for i := range events {
		t.tell(&events[i])
	}
	return t.scheduler
}

// tell tells the scheduler of one event.
func (t *traffic) tell(e *trafficEvent) {
	c, instance := e.call, e.call.lease.Instance()
	if e.what == callSent {
		if c.early {
			t.noteHost(c.host, e.at)
		}
		t.scheduler.Began(instance, c.id, c.tool, c.early, e.at)
		return
	}
	if e.what == callGivenUp {
		t.scheduler.Cut(instance, c.id)
	}
	t.scheduler.Ended(instance, c.id, e.at)
	if at, ok := t.occupancies.find(instance); ok { // else it was forgotten with its session
		t.publish(instance, at)
	}
	if e.limited && !c.early && t.wasPrefetching(c.host, e.at) {
		t.scheduler.Harm(c.host, nil, speculate.RateLimited, 0)
	}
}

// publish says for the path of a call how an instance works on several calls.
func (t *traffic) publish(instance uint64, at *occupancy) {
	at.parallel.Store(t.scheduler.Concurrency(instance) == speculate.Parallel)
}

func (t *traffic) noteHost(host string, now time.Time) {
	if t.lately == nil || len(t.lately) >= mostHosts {
		t.lately = make(map[string]time.Time)
	}
	t.lately[host] = now
}

// wasPrefetching reports, once for each prefetch, whether one at that host was sent
// within the last minute.
func (t *traffic) wasPrefetching(host string, now time.Time) bool {
	at, ok := t.lately[host]
	delete(t.lately, host)
	return ok && now.Sub(at) < aWhile
}
