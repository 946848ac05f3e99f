package proxy

import (
	"sync/atomic"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/events"
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
func (f *prefetchEntry) begun(l *leased, of *speculate.Fetch, now time.Time) events.Event {
	return events.Event{
		Kind: events.Prefetch, At: now, Session: f.record.number.Session, Seq: f.record.number.Seq,
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
func (f *prefetchEntry) known(e *events.Event) bool {
	fate := f.guess.Fate()
	if fate == call.Pending || !f.landed.Load() {
		return false
	}
	switch fate {
	case call.Ready:
		e.Fate = events.Used
	case call.Late:
		e.Fate = events.Late
	case call.Compared:
		e.Fate = events.Compared
	default:
		e.Fate, e.Cause = events.Wasted, f.guess.Why()
	}
	if e.Fate != events.Wasted {
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
