package proxy

import (
	"bytes"
	"time"

	"mcpschedd/internal/dedup"
)

// What the path of a call tells the prefetcher. It never waits for the prefetcher; what
// that is too slow for is left out, and counted.

// mostRead (bytes) is how much of a result is kept to be read.
const mostRead = 256 << 10

// observeCall is told of a call of a client to the upstream that l leases. It returns
// the call as it is observed from now on; nil: it is not.
func (p *prefetcher) observeCall(e *Enrichment, s *observedSession, l *leased, facts func() callFacts) *callFacts {
	if e.off() || l.nothingToPrefetch() || s.predictionOff.Load() || !p.queue.hasTime(time.Now()) {
		return nil
	}
	c := facts()
	c.id = p.ids.Add(1)
	p.queue.enqueue(len(c.arguments), func() { p.worker.called(&c) })
	return &c
}

// nothingToPrefetch reports whether the upstream is known to offer nothing that may ever
// be run early.
func (l *leased) nothingToPrefetch() bool {
	offer := l.member.nothingToPrefetch.Load()
	return offer != nil && offer == l.Offer()
}

// observedResult is the end of a call as the worker is told of it.
type observedResult struct {
	resultFacts
	call   *callFacts
	text   []byte              // the first bytes of the body; nil: it is of no use, or there was no room for it
	length int                 // bytes of the whole body
	reply  chan<- announcement // is to hear what is begun because of it; nil: nothing waits for that
}

// observeResult is told how a call has ended, and says whether the worker will hear of
// it. How an answer compares with what was prefetched is not left out, whatever call it
// belongs to: it may be what gives a tool away.
func (p *prefetcher) observeResult(c *callFacts, r *resultFacts, reply chan<- announcement) bool {
	h := observedResult{resultFacts: *r, call: c, length: len(r.body), reply: reply}
	h.body = nil // it is only lent
	if n := min(h.length, mostRead); c.id != 0 && r.complete && p.queue.hasRoom(n) {
		h.text = bytes.Clone(r.body[:n])
	}
	look := func() { p.worker.answered(&h) }
	switch {
	case r.trial != dedup.NotTried || r.joinWait > 0:
		return p.queue.enqueueAlways(look)
	case reply != nil:
		return p.queue.enqueueUrgent(len(h.text), look)
	}
	return p.queue.enqueue(len(h.text), look)
}

// sessionEnded is told that a session has ended, and its prefetches with it. then is
// called when the last has been said of it.
func (p *prefetcher) sessionEnded(s *observedSession, then func()) {
	p.underway.drop(s)
	if !p.queue.enqueueAlways(func() {
		defer then() // whatever becomes of the worker's part
		p.worker.leave(s)
	}) {
		then()
	}
}
