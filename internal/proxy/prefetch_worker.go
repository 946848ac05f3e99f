package proxy

import (
	"sync/atomic"
	"time"

	"mcpschedd/internal/speculate"
)

// prefetcher decides which calls to make early. It observes calls and their results;
// nothing on the path of a call waits for it.
type prefetcher struct {
	srv       *Server
	scheduler *speculate.Scheduler
	traffic   traffic
	ids       atomic.Uint64 // of the calls observed
	queue     prefetchQueue
	worker    *prefetchWorker
	faults    faults
	tally     tally
	learned   learnedTools
	underway  underway
}

// prefetchWorker is what belongs to the one goroutine that works off the queue, in the
// order in which things were observed. It has over 25 methods, because all that is
// thought of candidates goes by what it knows of sessions and upstreams together.
type prefetchWorker struct {
	p         *prefetcher
	srv       *Server
	scheduler *speculate.Scheduler
	of        *observedSession                   // for which it does what it does now; nil: for no one session
	upstreams map[string]*upstreamState          // member.key → what is known of that upstream
	sessions  map[*observedSession]*sessionState // sessions that made calls
	lines     map[string]speculate.Concurrency   // member.key → how its last instance works on several calls
	waiting   []waitingPair                      // sessions with candidates that lack a slot, in turn
	displaced int64                              // answers that prefetches displaced, as far as that was held against them
	harm      map[string]time.Duration           // host → what its calls waited for prefetches, as far as that was held against them
}

func newPrefetcher(srv *Server, o speculate.Options) *prefetcher {
	p := &prefetcher{srv: srv, scheduler: speculate.New(o), faults: faults{log: srv.log}}
	w := &prefetchWorker{
		p: p, srv: srv, scheduler: p.scheduler,
		upstreams: make(map[string]*upstreamState), sessions: make(map[*observedSession]*sessionState),
		lines: make(map[string]speculate.Concurrency), harm: make(map[string]time.Duration),
	}
	p.worker = w
	p.traffic = traffic{scheduler: p.scheduler, occupancies: &srv.occupancies}
	p.queue = prefetchQueue{work: w.runTask, keep: w.keepAll, wake: make(chan struct{}, 1)}
	return p
}

// configure puts other bounds of what runs at once in place.
func (p *prefetcher) configure(o speculate.Options) { p.scheduler.Configure(o) }

// upstreamsChanged has forgotten what is known of upstreams that are there no more.
func (p *prefetcher) upstreamsChanged() { p.queue.enqueueAlways(p.worker.forget) }

// save keeps what was learned so far, and returns when that is done.
func (p *prefetcher) save() { p.queue.save() }

// close ends the worker once it has seen what is left, and keeps what was learned.
func (p *prefetcher) close() {
	if !p.queue.close() {
		p.srv.log.Warn("what was learned of late is not kept: a file does not answer")
	}
}
