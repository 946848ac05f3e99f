package proxy

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/speculate"
)

// Two observe the path of a call, and are told plain values: the recorder of every call,
// when it has arrived, was sent and has its result; the prefetch worker of a call that it
// wants to look at, and of its result. Neither holds the call up.

// observedSession is a session as its observers know it.
type observedSession struct {
	speculate.Client
	numbered atomic.Int64 // calls and prefetches so far
	turns    turns
}

func newObservedSession(ctx context.Context, several bool) *observedSession {
	return &observedSession{Client: speculate.Client{Name: recordID(), ID: rand.Uint64(), Several: several, Context: ctx}}
}

// next numbers a call or a prefetch of the session.
func (s *observedSession) next() call.Number {
	return call.Number{Session: s.Name, Seq: s.numbered.Add(1)}
}

// turns tells the calls that a model made at once from those it made one after
// the other: it has read no answer that had not come when it called.
type turns struct {
	mu     sync.Mutex
	number int
	heard  time.Time // of the last answer since the turn began; zero: there was none
}

// readingTime is what no model needs less of to read an answer and call again. A
// client that calls sooner sends out what was decided at once.
const readingTime = 5 * time.Millisecond

func (t *turns) begin(now time.Time) (turn int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.heard.IsZero() && now.Sub(t.heard) > readingTime {
		t.number++
		t.heard = time.Time{}
	}
	return t.number
}

func (t *turns) end(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard = now
}

// source is the store, or another call's flight, as where an answer came from.
type source struct {
	how        dedup.Disposition // "": it was fetched for this call, or there is none
	prefetched bool
	backedOff  bool
	age, took  time.Duration   // since the fetch behind it began; how long that took
	first      *dedup.Prefetch // of which it is the first use; nil: of none
	size       int             // bytes of it
	spared     int             // bytes of it that a reference stood for

	trial    dedup.Trial   // of one that was fetched: how it compares with what had been prefetched
	joinWait time.Duration // for a prefetch that took too long, before the call was made by itself
}

// resultFacts is what observers are told of the end of a call.
type resultFacts struct {
	source
	at       time.Time
	failure  string        // in a word, why it was not answered; "": it was
	isError  bool          // its server says that it failed
	complete bool          // another call could be given the same; only of one that the prefetcher observes
	body     []byte        // as it is sent, lent for as long as an observer is told of it
	size     int           // bytes, before anything was added
	sum      uint64        // a hash of it; 0: not taken
	inlined  int           // results of other calls that were added
	upstream time.Duration // from its sending to its answer; 0: it was not sent, or not answered
}

// observation is what the observers of a call are told of it, and were.
type observation struct {
	observed *speculate.Call // as the prefetch worker knows it; nil: it does not observe the call
	result   resultFacts
	announce bool // its answer may say what is prefetched because of it
	told     bool // the prefetcher, of the result
}

// wantsResult reports whether the prefetcher is to be told of the result: of a call
// that it observes, and of any that a prefetch was compared with or that waited for one
// in vain.
func (o *observation) wantsResult() bool {
	return !o.told && (o.observed != nil || o.result.trial != dedup.NotTried || o.result.joinWait > 0)
}

// observeArrival has the call recorded, on the reader of its session.
func (c *upstreamCall) observeArrival(p *policy) {
	c.record = c.s.srv.recorder.arrived(c.s.observed)
	if p.Trace != nil {
		c.record.trace(p.Trace, c.params, c.tool)
	}
}

// observe tells the prefetcher of the call, which has been classified. mayAnnounce: its
// client may be told what is prefetched because of it.
func (c *upstreamCall) observe(mayAnnounce bool) {
	w := c.s.srv.prefetch
	rules, client := &c.policy.Enrichment, &c.s.observed.Client
	if c.lease.nothingToPrefetch() || !w.Wants(rules, client) {
		w.Changed(rules, client, c.class.effect)
		return
	}
	c.seen.observed = c.facts()
	w.Called(c.seen.observed)
	c.seen.announce = mayAnnounce && c.announces()
}

// facts is the call as its observers are told of it.
func (c *upstreamCall) facts() *speculate.Call {
	r := c.record
	return &speculate.Call{
		Client: &c.s.observed.Client, Upstream: c.lease.observable, Seq: r.number.Seq, Trace: r.context(c.params), At: r.at, Turn: r.turn,
		Tool: c.tool, Arguments: argumentsToObserve(&c.class.query.Key, c.params),
		Key: c.class.query.Key, Effect: c.class.effect, Host: c.class.host,
	}
}

// argumentsToObserve are the arguments of a call, canonical if it has a key, but for
// longer ones than a key may have.
func argumentsToObserve(key *call.Key, params *revision.Params) []byte {
	if key.Arguments != "" {
		return []byte(key.Arguments)
	}
	raw, _ := arguments(params)
	if len(raw) > longest {
		return nil
	}
	return bytes.Clone(raw)
}

var errUnanswered = errors.New("not answered")

// noteResult keeps what the answer is like, before anything is added to it.
func (c *upstreamCall) noteResult(o outcome) {
	r := &c.seen.result
	r.source, r.size, r.sum = o.from, len(o.answer.Result), 0
	switch {
	case c.record == nil || o.err != nil:
	case o.from.how != "":
		r.size = o.from.size
	case c.class.kind.Reads() && shareable(o.answer):
		r.sum = sum(o.answer.Result)
	}
}

// observeResult tells the observers how the call ended, once, unless it goes on after
// this answer: then only the prefetcher, which has no use for the rest. ctx is that of
// the request that is answered. A call whose client was asked something on the way is
// one, from the arrival of the request that began it.
func (c *upstreamCall) observeResult(ctx context.Context, o outcome) {
	if c.record == nil {
		return
	}
	record, prefetch := !o.asks && !c.record.told.Load(), c.seen.wantsResult()
	if !record && !prefetch {
		return
	}
	r := c.resultNow(ctx, o)
	if record {
		c.s.srv.recorder.answered(c, c.toldAs(), &r)
	}
	if prefetch {
		c.observeForPrefetch(&r, nil)
	}
}

// recordAbandoned records a call that has ended while its client was fetching answers.
func (c *upstreamCall) recordAbandoned(ctx context.Context, why error) {
	if c.record != nil {
		r := c.resultNow(ctx, outcome{err: why})
		c.s.srv.recorder.answered(c, c.toldAs(), &r)
	}
}

// toldAs is the call as its observers are told of its end.
func (c *upstreamCall) toldAs() *speculate.Call {
	if c.seen.observed != nil {
		return c.seen.observed
	}
	return c.facts()
}

// recordRefusal records a message that was not taken up, if it is a tools/call.
func recordRefusal(s *session, m *front.Message) {
	if m.Method == "tools/call" {
		name, _ := jsonrpc.String(m.Index.Get("name"))
		s.srv.recorder.refused(s.observed, name)
	}
}

// observeForPrefetch tells the prefetcher, before anything is added to the answer. reply
// is to hear what it begins then; nil: nothing waits for that.
func (c *upstreamCall) observeForPrefetch(r *resultFacts, reply chan<- speculate.Announcement) bool {
	c.seen.told = true
	return c.s.srv.prefetch.Answered(c.toldAs(), speculate.Result{
		At: r.at, Complete: r.complete, Body: r.body, Took: r.upstream, Trial: r.trial, JoinWait: r.joinWait,
	}, reply)
}

// resultNow is how the call ends.
func (c *upstreamCall) resultNow(ctx context.Context, o outcome) resultFacts {
	r := c.seen.result
	r.at, r.upstream, r.body = time.Now(), c.record.timing.Took(), o.answer.Result
	r.complete = c.seen.observed != nil && o.err == nil && shareable(o.answer)
	if gone := ctx.Err() != nil; gone || o.err != nil {
		r.failure = reasonFor(o.err, gone)
	} else {
		_, r.isError = complaint(o.answer)
	}
	return r
}
