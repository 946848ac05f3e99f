package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"mcpschedd/internal/budget"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/record"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
)

// Two observers follow the path of a call. The recorder is notified of every call's result. The
// prefetch worker is notified of the calls it is interested in: when they arrive, are sent and
// have a result. Both receive plain values and never delay the call.

// observedSession is a session as its observers see it.
type observedSession struct {
	speculate.Session
	lastSeq atomic.Int64 // number of calls and prefetches so far
	turns   turns
	join    func() *budget.Agent         // joins the budget pool at its first call, and returns the agent there
	agent   atomic.Pointer[budget.Agent] // nil until then
}

func newObservedSession(ctx context.Context, multiplexed bool) *observedSession {
	var name [6]byte
	rand.Read(name[:])
	return &observedSession{Session: speculate.Session{Name: hex.EncodeToString(name[:]), ID: mathrand.Uint64(), Multiplexed: multiplexed, Context: ctx}}
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
	run      speculate.Run       // at its upstream
	attempts atomic.Int32        // times that it was admitted to be sent upstream
	asked    atomic.Bool         // its client was asked meanwhile, so its latency says nothing about its tool
	recorded bool                // its end has been recorded
	trace    speculate.Trace     // trace context sent upstream; zero if there is none
	endSpan  func(*record.Event) // ends its span in a trace; nil if there is none
	notified bool                // the prefetch worker has been notified of its result

	source   dedup.Outcome // where the answer came from; only Comparison is set if this call fetched it
	saved    int           // bytes saved by sending a reference instead of the answer
	inlined  int           // number of other calls' results added to the answer
	joinWait time.Duration // time waited for a prefetch that took too long, before the call was sent itself
}

// wantsResult reports whether the prefetch worker must be notified of the result: it observes the
// call, a prefetch was compared with the answer, or the call waited for a prefetch in vain.
func (o *observation) wantsResult() bool {
	return !o.notified && (o.call.ID != 0 || o.source.Comparison != dedup.NotCompared || o.joinWait > 0)
}

// beginObservation numbers a tools/call.
func (c *upstreamCall) beginObservation() {
	s, now := c.s.observed, time.Now()
	n := s.next()
	o := &observation{number: n, call: &speculate.Call{
		Session: &s.Session, Lease: c.lease.Prefetch, Seq: n.Seq, At: now, Turn: s.turns.begin(now), Tool: c.tool,
	}}
	o.call.Trace.Parent, o.call.Trace.State = c.params.Meta.Text("traceparent"), c.params.Meta.Text("tracestate")
	if begin := c.policy.Trace; begin != nil {
		if o.trace.Parent, o.trace.State, o.endSpan = begin(o.call.Trace.Parent, o.call.Trace.State, c.tool, now); o.trace.Parent != "" {
			o.call.Trace = o.trace
		}
	}
	c.observed = o
}

// observeArrival records the call's classification and notifies the prefetch worker, unless the
// call resumes an earlier one.
func (c *upstreamCall) observeArrival(resumes bool) {
	f := c.observed.call
	f.Key, f.Effect, f.Host = c.class.query.Key, c.class.effect, c.class.host
	if f.Key.Arguments != "" {
		f.Arguments = []byte(f.Key.Arguments) // in canonical form
	} else if raw, _ := arguments(c.params); len(raw) <= maxArguments {
		f.Arguments = bytes.Clone(raw)
	}
	switch w := c.s.srv.prefetch; {
	case resumes:
	case c.lease.NothingToPrefetch():
		w.Unobserved(f.Session, f.Effect)
	default:
		w.Called(f)
	}
}

// withTrace returns params with the trace context of the call's span. o may be nil.
func (o *observation) withTrace(params *revision.Params) *revision.Params {
	if o == nil || o.trace.Parent == "" {
		return params
	}
	meta := jsonrpc.Set(params.Meta.Raw(), "traceparent", jsonrpc.AppendString(nil, o.trace.Parent))
	if o.trace.State != "" {
		meta = jsonrpc.Set(meta, "tracestate", jsonrpc.AppendString(nil, o.trace.State))
	}
	return parsedParams(jsonrpc.Set(params.Raw(), "_meta", meta))
}

// observeSent records that a tools/call may be sent to its upstream now.
func (c *upstreamCall) observeSent() {
	if o := c.observed; o != nil {
		o.attempts.Add(1)
		c.s.srv.prefetch.Scheduler.Sent(&o.run, c.lease.Prefetch, c.tool, o.call.Claim, time.Now())
	}
}

// observeReturned records that the call has returned.
func (c *upstreamCall) observeReturned(err error, limited bool) {
	o, scheduler, now := c.observed, c.s.srv.prefetch.Scheduler, time.Now()
	switch {
	case o == nil:
		return
	case err == nil && !o.asked.Load():
		scheduler.Answered(&o.run, now)
	default:
		scheduler.Abandoned(&o.run, err != nil && !unavailable(err), now)
	}
	if limited && o.call.Claim == nil {
		scheduler.Limited(c.class.host, false, now)
	}
}

var errUnanswered = errors.New("not answered")

// observeResult notifies the observers of the end of a request's call, once. o is its outcome before anything
// is added to the answer. A call that was suspended counts as one call from its arrival.
func (c *upstreamCall) observeResult(o outcome) {
	if c.observed == nil {
		return
	}
	now := time.Now()
	if !c.observed.recorded {
		c.observed.recorded = true
		c.s.observed.turns.end(now)
		c.s.srv.recorder.recordCall(c, now, o)
	}
	if c.observed.wantsResult() {
		c.notifyWorker(now, o, nil)
	}
}

// notifyWorker notifies the prefetch worker of the result, without what is added to it, and reports whether the
// worker will handle it. The worker sends the prefetches that it begins to reply, unless reply is nil.
func (c *upstreamCall) notifyWorker(now time.Time, o outcome, reply chan<- speculate.Reply) bool {
	r := c.observed
	r.notified = true
	return c.s.srv.prefetch.Answered(r.call, speculate.Result{
		At: now, Complete: o.kind == complete, Body: o.answer.Result, Took: r.run.Took(), Unloaded: r.run.Unloaded(),
		Comparison: r.source.Comparison, JoinWait: r.joinWait,
	}, reply)
}

// recorder writes to the event log: every call of a server's tool once, when it has been
// answered or has failed, and every refused call; every prefetch once, when its fate is
// known; plans; the begin and the end of sessions; and changes of prefetch levels and harm.
// All figures are sums over these events.
type recorder struct {
	srv     *Server
	log     *record.Log
	tally   *record.Tally
	updates throttle     // records what has changed besides calls, and notifies clients that subscribed to the stats
	begin   record.Event // start event of this process, as far as the program provides it

	status throttle // makes the log write a new status, which contains the state of hosts and budgets

	mu   sync.Mutex
	open []*openPrefetch // in the order in which they began
}

// openLog opens the event log of the server.
func (r *recorder) openLog(s *Server, o Options) {
	r.srv, r.tally, r.begin = s, record.NewTally(), o.Record.Begin
	r.status.interval, r.status.call = 10*time.Second, func() { r.log.StatusChanged() }
	r.updates.interval, r.updates.call = statsInterval, func() {
		r.record()
		announceStats(s.sessions.list())
	}
	recording := o.Record
	recording.Log, recording.Status = o.Log, s.status
	recording.OnEvent = func(e record.Event) {
		r.tally.Add(&e)
		if e.Kind != record.Begin { // the first event of every log
			r.updates.trigger()
		}
		if e.Kind == record.Session || e.Kind == record.End || e.Kind == record.Level {
			r.log.StatusChanged()
		}
		if o.Record.OnEvent != nil {
			o.Record.OnEvent(e)
		}
	}
	r.log = record.Open(recording)
}

// recordCall records the end of a request's call.
func (r *recorder) recordCall(c *upstreamCall, now time.Time, o outcome) {
	s, arrival, from := c.observed, c.observed.call, &c.observed.source
	size, hash := len(o.answer.Result), uint64(0)
	switch {
	case from.How != "":
		size = len(from.Body)
	case c.class.kind.Reads():
		hash = r.resultHash(o)
	}
	e := record.Event{
		Kind: record.Call, At: arrival.At, Session: s.number.Session, Seq: s.number.Seq,
		Upstream: arrival.Lease.Name, Tool: arrival.Tool, Class: string(c.class.kind), Turn: arrival.Turn + 1, Host: arrival.Host,
		LatencyMS: ms(now.Sub(arrival.At)), UpstreamMS: ms(s.run.Took()), Sent: int(s.attempts.Load()),
		Disposition: record.Fetched, Bytes: int64(size), Tokens: estimateTokens(size), ResultSum: hash,
		Inlined: s.inlined, RawArguments: arrival.Arguments, IsError: o.onHost.Failed,
	}
	if e.IsError && c.lease.Listed() {
		if _, has := c.lease.Offer().Find(upstream.Tools, e.Tool); !has {
			e.Upstream, e.Class = "", "" // the client made the name up, which must not become a label in Prometheus
		}
	}
	if p := c.step(); p != nil {
		e.Plan, e.Step = p.run.number, p.Step.ID
	}
	if from.How != "" {
		e.Disposition = record.Disposition(from.How)
		e.Prefetched, e.BackedOff = from.Prefetched, from.BackedOff
		e.HiddenMS = max(0, ms(from.Took)-e.LatencyMS)
		e.NotResent = int64(s.saved)
		if first := from.FirstUseOf; first != nil {
			e.UseOf, e.UseOfSession = first.Number().Seq, otherSession(first.Number(), s.number)
		}
	}
	if cancelled := c.request.ctx.Err() != nil; cancelled || o.err != nil {
		e.Disposition, e.Error, e.IsError = record.Failed, failureReason(o.err, cancelled), false
		e.HiddenMS, e.NotResent = 0, 0
	}
	r.log.Add(e)
	if s.endSpan != nil {
		ended := e // capturing e itself would move every event to the heap
		s.endSpan(&ended)
	}
}

// recordRefusal records a message that was refused without asking an upstream, if it is a
// tools/call: its tool does not exist, or its params are not valid.
func recordRefusal(s *session, m *front.Message) {
	if m.Method != "tools/call" {
		return
	}
	n := s.observed.next()
	s.srv.recorder.log.Add(record.Event{
		Kind: record.Call, At: time.Now(), Session: n.Session, Seq: n.Seq,
		Tool: m.Index.Text("name"), Disposition: record.Failed, Error: "refused",
	})
}

// openPrefetch is a prefetch that has not been recorded yet.
type openPrefetch struct {
	observed *observation
	event    record.Event // fields known so far
	prefetch *dedup.Prefetch
	ended    atomic.Bool // its fetch has ended, and the fields below are set
	failed   bool
	size     int    // bytes of the answer
	hash     uint64 // of the answer; zero if not computed
}

// complete fills in the event and returns true if the prefetch's fate is known and its fetch
// has ended.
func (p *openPrefetch) complete() bool {
	e, s, fate := &p.event, p.observed, p.prefetch.Fate()
	if fate == call.Pending || !p.ended.Load() {
		return false
	}
	e.Fate = map[call.Fate]record.Fate{call.Ready: record.Used, call.Late: record.Late, call.Compared: record.Compared, call.Wasted: record.Wasted}[fate]
	if e.Fate == record.Wasted {
		e.Cause = p.prefetch.Why()
	} else {
		by := p.prefetch.By()
		e.UsedBy, e.BySession = by.Seq, otherSession(by, s.number)
	}
	if at := s.run.SentAt(); !at.IsZero() {
		e.At = at
	}
	e.LatencyMS, e.Sent = ms(s.run.Took()), int(s.attempts.Load())
	e.IsError, e.Bytes, e.Tokens, e.ResultSum = p.failed, int64(p.size), estimateTokens(p.size), p.hash
	return true
}

// openPrefetchesLocked returns what is known of each prefetch of unknown fate. Read the tally with it, so
// that no fate is recorded in between: each prefetch is then counted once, and no counter falls.
func (r *recorder) openPrefetchesLocked() (all []record.Event) {
	for _, p := range r.open {
		e := p.event
		e.Sent = int(p.observed.attempts.Load())
		all = append(all, e)
	}
	return all
}

// recordChanges records prefetches, levels and harm since it was last called. If last is set, it
// records the prefetches of unknown fate as wasted.
func (r *recorder) recordChanges(last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = slices.DeleteFunc(r.open, func(p *openPrefetch) bool {
		if !p.complete() {
			if !last {
				return false
			}
			p.event.Fate, p.event.Cause = record.Wasted, "never_asked"
		}
		r.log.Add(p.event)
		return true
	})
	for _, e := range r.srv.prefetch.Scheduler.Events() {
		r.log.Add(e)
	}
}

// record records what has changed since it was last called.
func (r *recorder) record() {
	r.recordChanges(false)
	r.status.trigger()
}

// close records the last changes and closes the log.
func (r *recorder) close() {
	r.recordChanges(true)
	r.log.Close()
}

// otherSession returns the session of n, or "" if it is the session of here.
func otherSession(n, here call.Number) string {
	if n.Session == here.Session {
		return ""
	}
	return n.Session
}

// clientName returns a client's name and version.
func clientName(info []byte) string {
	return excerpt.Shorten(strings.TrimSpace(jsonrpc.Text(info, "name")+" "+jsonrpc.Text(info, "version")), 128)
}

// resultHash returns a hash of an answer, which the log keys, or 0 if none is recorded.
func (r *recorder) resultHash(o outcome) uint64 {
	if o.kind != complete || !r.log.Writes() {
		return 0
	}
	return xxhash.Sum64(o.answer.Result) | 1
}

// estimateTokens estimates the number of tokens in size bytes.
func estimateTokens(size int) int64 {
	return int64((size + record.BytesPerToken - 1) / record.BytesPerToken)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
