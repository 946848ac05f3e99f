package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
)

// prefetchEntry is what the record is going to say of a prefetch.
type prefetchEntry struct {
	*prefetch
	landed atomic.Bool // the three are there:
	failed bool
	size   int
	sum    uint64
}

// begun is what the record says of it when it has been begun.
func (f *prefetchEntry) begun(l *leased, of *speculate.Fetch, now time.Time) record.Event {
	return record.Event{
		Kind: record.Prefetch, At: now, Session: f.record.number.Session, Seq: f.record.number.Seq,
		Upstream: l.Name(), Tool: clipped(of.Key.Tool), Class: string(f.class.kind), Host: f.class.host, After: of.After,
		RawArguments: []byte(of.Key.Arguments), PredictedP: of.P, Predicted: estimate(of.Bytes),
		Edge: of.Why.Edge, Configured: of.Why.Configured,
	}
}

// land notes how the fetch has ended.
func (f *prefetchEntry) land(answer upstream.Answer, err error) {
	f.failed, f.size = err != nil || !shareable(answer), len(answer.Result)
	if !f.failed {
		f.sum = sum(answer.Result)
	}
	f.landed.Store(true)
}

// known completes the event if it is known what became of the prefetch, and its fetch
// has ended.
func (f *prefetchEntry) known(e *record.Event) bool {
	fate := f.guess.Fate()
	if fate == call.Pending || !f.landed.Load() {
		return false
	}
	switch fate {
	case call.Ready:
		e.Fate = record.Used
	case call.Late:
		e.Fate = record.Late
	case call.Compared:
		e.Fate = record.Compared
	default:
		e.Fate, e.Cause = record.Wasted, f.guess.Why()
	}
	if e.Fate != record.Wasted {
		by, ok := f.guess.By()
		if !ok {
			return false // it will be told of with its call
		}
		e.UsedBy, e.BySession = by.Seq, elsewhere(by, call.Number{Session: e.Session})
	}
	if at := f.record.timing.At(); !at.IsZero() {
		e.At = at
	}
	e.LatencyMS, e.Sent = ms(f.record.timing.Took()), int(f.record.requests.Swap(0))
	e.IsError, e.Bytes, e.Tokens, e.ResultSum = f.failed, int64(f.size), estimate(f.size), f.sum
	return true
}

// openPrefetches are those whose fate is not known yet, in the order in which they began.
type openPrefetches struct {
	asking sync.Mutex // held while they are asked

	mu  sync.Mutex
	all []openPrefetch
}

type openPrefetch struct {
	event record.Event
	known func(*record.Event) bool // completes the event, once the fate is known
}

// mostOpen is how many fates may be unknown at once; the oldest beyond it count as wasted.
const mostOpen = 1 << 14

// prefetchBegun records a prefetch as soon as its fate is known.
func (r *recorder) prefetchBegun(e record.Event, known func(*record.Event) bool) {
	r.open.mu.Lock()
	r.open.all = append(r.open.all, openPrefetch{e, known})
	many := len(r.open.all) > mostOpen
	r.open.mu.Unlock()
	if many {
		r.recordPrefetches(false)
	}
}

// recordPrefetches records the prefetches whose fate is known by now. The last time those
// are wasted whose fate is not.
func (r *recorder) recordPrefetches(last bool) {
	o := &r.open
	o.asking.Lock()
	defer o.asking.Unlock()
	o.mu.Lock()
	open := o.all
	o.all = nil
	o.mu.Unlock()
	still := open[:0]
	for i := range open {
		p := &open[i]
		known := p.known(&p.event)
		if !known && !last && len(open)-i <= mostOpen {
			still = append(still, *p)
			continue
		}
		if !known {
			p.event.Fate, p.event.Cause = record.Wasted, "never_asked"
		}
		r.log.Add(p.event)
	}
	clear(open[len(still):])
	if len(still) == 0 {
		still = nil
	}
	o.mu.Lock()
	o.all = append(still, o.all...)
	o.mu.Unlock()
}

// close records what is open, and ends the record.
func (r *recorder) close() {
	r.recordPrefetches(true)
	r.log.Close()
}
