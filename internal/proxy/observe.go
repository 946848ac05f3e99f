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
	"mcpschedd/internal/record"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/speculate"
)

// Two observe the path of a call, and are told plain values: the recorder of every call,
// when it has its result; the prefetch worker of a call that it wants to look at, when it
// has arrived, was sent and has its result. Neither holds the call up.

// observedSession is a session as its observers know it.
type observedSession struct {
	speculate.Client
	numbered atomic.Int64 // calls and prefetches so far
	turns    turns
	spending spending
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
	mu         sync.Mutex
	number     int
	lastAnswer time.Time // of the last answer since the turn began; zero: there was none
}

// minReadingTime is what no model needs less of to read an answer and call again. A
// client that calls sooner sends out what was decided at once.
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

// current is the turn that the model is in, as far as its calls tell.
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

// observation is a tools/call, or a prefetch, as its observers know it.
type observation struct {
	call     *speculate.Call // what they are told of its arrival
	number   call.Number
	timing   speculate.Timing
	requests atomic.Int32 // that went upstream, and were not recorded yet
	recorded atomic.Bool  // that it has ended
	span     span
	answer   answerFacts
	announce bool // its answer may say what is prefetched because of it
	notified bool // the prefetch worker, of its result
}

// span is a call's own span in a trace.
type span struct {
	context speculate.Trace     // its trace context; zero: there is none
	end     func(*record.Event) // nil: there is no span
}

// answerFacts are what the record says of an answer, before anything was added to it.
type answerFacts struct {
	from    dedup.Outcome // of the store, where the answer was not fetched for this call; else its Trial alone
	size    int           // bytes
	spared  int           // bytes of it that a reference stood for
	hash    uint64        // a hash; 0: not taken
	inlined int           // results of other calls that were added to it

	joinWait time.Duration // for a prefetch that took too long, before the call was made by itself
}

// watched is the call as the prefetch worker knows it; nil: that does not look at it.
func (o *observation) watched() *speculate.Call {
	if o.call.ID == 0 {
		return nil
	}
	return o.call
}

// wantsResult reports whether the prefetch worker is to be told of the result: of a call
// that it looks at, and of any that a prefetch was compared with or that waited for one
// in vain.
func (o *observation) wantsResult() bool {
	return !o.notified && (o.watched() != nil || o.answer.from.Comparison != dedup.NotCompared || o.answer.joinWait > 0)
}

// needsCacheable reports whether the store or an observer asks if another call may get
// the same answer: to find out takes a walk over it.
func (c *upstreamCall) needsCacheable() bool {
	return c.observed != nil && (c.class.storable() || c.class.kind.Reads() || c.observed.watched() != nil)
}

// beginObservation numbers a tools/call, on the reader of its session.
func (c *upstreamCall) beginObservation() {
	s, now := c.s.observed, time.Now()
	n := s.next()
	c.observed = &observation{number: n, call: &speculate.Call{
		Client: &s.Client, Upstream: c.lease.observable, Seq: n.Seq, Trace: traceContext(c.params), At: now, Turn: s.turns.begin(now), Tool: c.tool,
	}}
	if begin := c.policy.Trace; begin != nil {
		own, given := &c.observed.span, &c.observed.call.Trace
		if own.context.Parent, own.context.State, own.end = begin(given.Parent, given.State, c.tool, now); own.context.Parent != "" {
			*given = own.context
		}
	}
}

// observeArrival adds what the call's class says of it, and tells the prefetch worker, unless the
// call only goes on with one that it was told of. mayAnnounce: the client may be told what
// is prefetched because of the call.
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

// observedArguments are the arguments of a call, canonical if it has a key, but for
// longer ones than a key may have.
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

// traceContext is the trace context that a client has given a call.
func traceContext(params *revision.Params) (t speculate.Trace) {
	t.Parent, _ = jsonrpc.String(params.Meta.Get("traceparent"))
	t.State, _ = jsonrpc.String(params.Meta.Get("tracestate"))
	return t
}

// withTrace are the params of a call with the trace context that goes upstream. o is nil if
// the call is not observed.
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

// observeSent notes that a tools/call goes to its upstream now.
func (c *upstreamCall) observeSent() {
	if o := c.observed; o != nil {
		c.s.srv.prefetch.Scheduler.Sent(&o.timing, c.lease.Instance(), c.tool, o.watched(), time.Now())
	}
}

// observeReturned notes that the call has come back.
func (c *upstreamCall) observeReturned(err error, limited bool) {
	if o := c.observed; o != nil {
		how := speculate.Outcome{Answered: err == nil, GoesOn: err != nil && !unavailable(err), Limited: limited}
		c.s.srv.prefetch.Scheduler.Returned(&o.timing, o.watched(), how, time.Now())
	}
}

var errUnanswered = errors.New("not answered")

// noteResult keeps what the answer is like, before anything is added to it.
func (c *upstreamCall) noteResult(o outcome) {
	if c.observed == nil {
		return
	}
	a := &c.observed.answer
	a.size, a.hash = len(o.answer.Result), 0
	switch {
	case a.from.How != "":
		a.size = len(a.from.Body)
	case c.class.kind.Reads():
		a.hash = c.s.srv.recorder.resultHash(o)
	}
}

// observeResult tells the observers how the call ended, once, unless it goes on after
// this answer: then only the prefetch worker, which has no use for the rest. ctx is that of
// the request that is answered. A call whose client was asked something on the way is
// one, from the arrival of the request that began it.
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

// notifyWorker tells the prefetch worker, before anything is added to the answer.
// reply is to hear what it begins then; nil: nothing waits for that.
func (c *upstreamCall) notifyWorker(now time.Time, o outcome, reply chan<- speculate.Announcement) bool {
	r := c.observed
	r.notified = true
	return c.s.srv.prefetch.Answered(r.call, speculate.Result{
		At: now, Complete: r.watched() != nil && o.cacheable, Body: o.answer.Result, Took: r.timing.Took(), Alone: r.timing.Alone(),
		Trial: r.answer.from.Comparison, JoinWait: r.answer.joinWait,
	}, reply)
}

// recordRefusal records a message that was not taken up, if it is a tools/call.
func recordRefusal(s *session, m *front.Message) {
	if m.Method == "tools/call" {
		name, _ := jsonrpc.String(m.Index.Get("name"))
		s.srv.recorder.recordRefused(s.observed, name)
	}
}
