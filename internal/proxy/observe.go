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
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/record"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/speculate"
)

// Two observers follow the path of a call. The recorder is notified of every call's result. The
// prefetch worker is notified of the calls it is interested in: when they arrive, are sent and
// have a result. Both receive plain values and never delay the call.

// observedSession is a session as its observers see it.
type observedSession struct {
	speculate.Client
	lastSeq  atomic.Int64 // number of calls and prefetches so far
	turns    turns
	spending spending
}

func newObservedSession(ctx context.Context, multiplexed bool) *observedSession {
	return &observedSession{Client: speculate.Client{Name: recordID(), ID: rand.Uint64(), Multiplexed: multiplexed, Context: ctx}}
}

// next returns the number of the next call or prefetch.
func (s *observedSession) next() call.Number {
	return call.Number{Session: s.Name, Seq: s.lastSeq.Add(1)}
}

// turns divides a session's calls into the model's turns. Calls of one turn were decided
// together: the model had read none of their answers.
type turns struct {
	mu         sync.Mutex
	number     int
	lastAnswer time.Time // time of the last answer in the turn; zero if there was none
}

// minReadingTime is the least time in which a model can read an answer and decide on another
// call. A call that follows an answer sooner belongs to the same turn.
const minReadingTime = 5 * time.Millisecond

func (t *turns) begin(now time.Time) (turn int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.lastAnswer.IsZero() && now.Sub(t.lastAnswer) > minReadingTime {
		t.number++
		t.lastAnswer = time.Time{}
	}
	return t.number
}

// current returns the number of the current turn, judged by the calls so far.
func (t *turns) current() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.number
}

func (t *turns) end(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lastAnswer = now
}

// observation is a tools/call or a prefetch as its observers see it.
type observation struct {
	call     *speculate.Call // facts about its arrival
	number   call.Number
	timing   speculate.Timing
	requests atomic.Int32 // requests sent upstream but not recorded yet
	recorded atomic.Bool  // its end has been recorded
	span     span
	answer   answerFacts
	announce bool // its answer may name the prefetches that it causes
	notified bool // the prefetch worker has been notified of its result
}

// span is a call's span in a trace.
type span struct {
	context speculate.Trace     // trace context sent upstream; zero if there is none
	end     func(*record.Event) // nil if there is no span
}

// answerFacts describes an answer before enrichment.
type answerFacts struct {
	source  dedup.Outcome // where the answer came from; only Comparison is set if this call fetched it
	size    int           // bytes
	saved   int           // bytes saved by sending a reference instead
	hash    uint64        // zero if not computed
	inlined int           // number of other calls' results added to the answer

	joinWait time.Duration // time waited for a prefetch that took too long, before the call was sent itself
}

// watched returns the call for the prefetch worker, or nil if the worker ignores it.
func (o *observation) watched() *speculate.Call {
	if o.call.ID == 0 {
		return nil
	}
	return o.call
}

// wantsResult reports whether the prefetch worker must be notified of the result: it watches the
// call, a prefetch was compared with the answer, or the call waited for a prefetch in vain.
func (o *observation) wantsResult() bool {
	return !o.notified && (o.watched() != nil || o.answer.source.Comparison != dedup.NotCompared || o.answer.joinWait > 0)
}

// needsCacheable reports whether the store or an observer needs outcome.cacheable, which takes a
// scan of the answer.
func (c *upstreamCall) needsCacheable() bool {
	return c.observed != nil && (c.class.storable() || c.class.kind.Reads() || c.observed.watched() != nil)
}

// beginObservation numbers a tools/call. It runs on the session's reader.
func (c *upstreamCall) beginObservation() {
	s, now := c.s.observed, time.Now()
	n := s.next()
	c.observed = &observation{number: n, call: &speculate.Call{
		Client: &s.Client, Upstream: c.lease.prefetchUpstream, Seq: n.Seq, Trace: traceContext(c.params), At: now, Turn: s.turns.begin(now), Tool: c.tool,
	}}
	if begin := c.policy.Trace; begin != nil {
		span, trace := &c.observed.span, &c.observed.call.Trace
		if span.context.Parent, span.context.State, span.end = begin(trace.Parent, trace.State, c.tool, now); span.context.Parent != "" {
			*trace = span.context
		}
	}
}

// observeArrival records the call's classification and notifies the prefetch worker, unless the
// call resumes an earlier one (goesOn). mayAnnounce reports whether the answer may name the
// prefetches that the call causes.
func (c *upstreamCall) observeArrival(goesOn, mayAnnounce bool) {
	f := c.observed.call
	f.Arguments, f.Key, f.Effect, f.Host = observedArguments(&c.class.query.Key, c.params), c.class.query.Key, c.class.effect, c.class.host
	w, rules := c.s.srv.prefetch, &c.policy.Enrichment
	switch {
	case goesOn:
	case c.lease.nothingToPrefetch() || !w.Wants(rules, f.Client):
		w.Changed(rules, f.Client, f.Effect)
	default:
		w.Called(f)
		c.observed.announce = mayAnnounce && c.mayAnnounce()
	}
}

// observedArguments returns a call's arguments, in canonical form if it has a key, or nil if
// they are longer than maxArguments.
func observedArguments(key *call.Key, params *revision.Params) []byte {
	if key.Arguments != "" {
		return []byte(key.Arguments)
	}
	raw, _ := arguments(params)
	if len(raw) > maxArguments {
		return nil
	}
	return bytes.Clone(raw)
}

// traceContext returns the trace context in a call's _meta.
func traceContext(params *revision.Params) (t speculate.Trace) {
	t.Parent, _ = jsonrpc.String(params.Meta.Get("traceparent"))
	t.State, _ = jsonrpc.String(params.Meta.Get("tracestate"))
	return t
}

// withTrace returns params with the trace context of the call's span. o may be nil.
func (o *observation) withTrace(params *revision.Params) *revision.Params {
	if o == nil || o.span.context.Parent == "" {
		return params
	}
	t := &o.span.context
	meta := jsonrpc.Set(params.Meta.Raw(), "traceparent", jsonrpc.AppendString(nil, t.Parent))
	if t.State != "" {
		meta = jsonrpc.Set(meta, "tracestate", jsonrpc.AppendString(nil, t.State))
	}
	return parsedParams(jsonrpc.Set(params.Raw(), "_meta", meta))
}

// observeSent records that a tools/call is being sent to its upstream.
func (c *upstreamCall) observeSent() {
	if o := c.observed; o != nil {
		c.s.srv.prefetch.Scheduler.Sent(&o.timing, c.lease.Instance(), c.tool, o.watched(), time.Now())
	}
}

// observeReturned records that the call has returned.
func (c *upstreamCall) observeReturned(err error, limited bool) {
	if o := c.observed; o != nil {
		how := speculate.Outcome{Answered: err == nil, StillRunning: err != nil && !unavailable(err), Limited: limited}
		c.s.srv.prefetch.Scheduler.Returned(&o.timing, o.watched(), how, time.Now())
	}
}

var errUnanswered = errors.New("not answered")

// noteResult records the size and the hash of the answer before enrichment.
func (c *upstreamCall) noteResult(o outcome) {
	if c.observed == nil {
		return
	}
	a := &c.observed.answer
	a.size, a.hash = len(o.answer.Result), 0
	switch {
	case a.source.How != "":
		a.size = len(a.source.Body)
	case c.class.kind.Reads():
		a.hash = c.s.srv.recorder.resultHash(o)
	}
}

// observeResult notifies the observers of the end of a call, once. If the call continues after
// this answer, only the prefetch worker is notified. A call that was suspended counts as one
// call from the arrival of its first request. ctx is the context of the answered request.
func (c *upstreamCall) observeResult(ctx context.Context, o outcome) {
	if c.observed == nil {
		return
	}
	now := time.Now()
	if !o.inputRequired && !c.observed.recorded.Swap(true) {
		c.s.observed.turns.end(now)
		c.s.srv.recorder.recordCall(c, now, o, ctx.Err() != nil)
	}
	if c.observed.wantsResult() {
		c.notifyWorker(now, o, nil)
	}
}

// notifyWorker notifies the prefetch worker of the result before enrichment. The worker sends the
// prefetches that it begins to reply, unless reply is nil.
func (c *upstreamCall) notifyWorker(now time.Time, o outcome, reply chan<- speculate.Announcement) bool {
	r := c.observed
	r.notified = true
	return c.s.srv.prefetch.Answered(r.call, speculate.Result{
		At: now, Complete: r.watched() != nil && o.cacheable, Body: o.answer.Result, Took: r.timing.Took(), Unloaded: r.timing.Unloaded(),
		Comparison: r.answer.source.Comparison, JoinWait: r.answer.joinWait,
	}, reply)
}
