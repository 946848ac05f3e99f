package proxy

import (
	"context"
	"sync/atomic"
	"time"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// This file holds the path of a call from its arrival to its answer:
//
//	the client's reader:  bind ──► register
//	any goroutine:        ask ──► fetch ──► the store: an answer, or another call's flight
//	                               └──────► send: the turn, the server, the host's slot
//	                      answer ◄── deliver ◄── complete ◄── endWrite ◄──┘
//
// No step blocks its goroutine: each takes a callback that continues with the outcome.
// For a small call this saves the switch to a waiting goroutine and back, which is most
// of its cost.

// upstreamCall is one request to an upstream, classified by the policy: which places it
// may change, and whether the store may answer it.
type upstreamCall struct {
	s      *session
	lease  *sessionLease
	turn   upstream.Turn // position in the order of sending; zero for a prefetch and a step of a plan
	method string        // JSON-RPC method
	tool   string        // tool name at the upstream; "" unless the method is tools/call
	target []byte        // raw JSON name of the target at the upstream; nil if the client uses the same name
	params *revision.Params

	policy   *policy       // snapshot that routed the request and classifies the call
	class    callClass     // classification by that policy
	observed *observation  // nil unless the request is a tools/call
	step     *planStep     // step of a plan that makes this call; nil if a client does
	gate     gate          // checked before the call is sent; nil if it may always be sent
	prefetch *dedup.Flight // flight of a prefetch; nil for a client's call
	answered atomic.Bool   // set when the upstream has answered and no longer works on the call
	onLate   func()        // called when the server answers a prefetch that was given up; nil for other calls

	// pending is the store's record of the places that the call may change. It is set on
	// arrival and cleared when the call is sent, as send then owns it, or dropped.
	pending atomic.Pointer[dedup.PendingWrite]
}

// newCall returns the request's call to an upstream, under the policy that routed the
// request. target is the raw JSON name at the upstream, or nil if the client uses the
// same name.
func newCall(x *request, l *sessionLease, target []byte) *upstreamCall {
	c := &upstreamCall{
		s: x.s, policy: x.policy, lease: l, method: x.msg.Method, target: target, params: &x.msg.Index, step: x.step,
	}
	if x.step != nil {
		c.gate = x.step.gate
	}
	return c
}

// bind assigns the call to the request, takes its turn, registers its write and notifies
// the observers of a tools/call. A step of a plan takes no turn: it starts when its inputs
// are ready, and must not delay the session's other calls while its host has no free slot.
func (x *request) bind(c *upstreamCall) {
	if x.step == nil {
		c.turn = c.lease.Turn()
	}
	if c.tool != "" {
		c.beginObservation()
	}
	x.s.requests.bind(x, c)
	c.register()
	if c.tool != "" {
		c.observeArrival(x.stateless && x.msg.Index.Get("requestState") != nil, !x.stateless)
	}
	if x.step == nil && x.msg.Repeated && !c.repeatable() {
		x.refuseRepeat()
	}
}

// register classifies the call by its policy and registers its write with the store. It
// runs on the session's reader before the next message is read, and again each time the
// call is repeated. It then loads the policy a second time and starts over if the policy
// has changed. As the write registers before that load, either the reload sees the pending
// write or the call sees the reload.
func (c *upstreamCall) register() {
	srv := c.s.srv
	for {
		version := srv.catalog.version.Load()
		c.class = c.classify(c.policy)
		write := srv.store.RegisterWrite(c.class.effect)
		now := srv.policy.Load()
		if now == c.policy && version == srv.catalog.version.Load() {
			c.pending.Store(write)
			return
		}
		write.End()
		c.policy = now
	}
}

// ask makes the upstream request. It returns at once; done is called once with the outcome,
// on any goroutine. If client and server are of different eras, the server's questions are
// translated on the way: a server of the handshake era asks by requests, a stateless server
// by a result.
func (x *request) ask(done func(outcome)) {
	c, req := x.call, x.upstreamRequest()
	deliver := func(o outcome) { x.deliver(o, done) }
	switch {
	case subscribes(x.msg.Method):
		x.s.running.Go(func() { subscribe(x, req, deliver) })
	case !x.stateless || c.lease.Stateless() || !interruptible(x.msg.Method): // never suspended
		c.fetch(x.ctx, req, func(o outcome) { x.complete(x.ctx, req, o, deliver) })
	case x.step == nil:
		x.s.running.Go(func() {
			w := newCallWork(x)
			w.startCall(req)
			deliver(w.serve(x))
		})
	default: // a step of a plan; the plan outlives the request
		x.fetchBridged(x.ctx, req, func(o outcome) { x.complete(x.ctx, req, o, deliver) })
	}
}

// upstreamRequest returns the request to send to the upstream.
func (x *request) upstreamRequest() *upstream.Request {
	l := x.call.lease
	req := &upstream.Request{
		Method: x.msg.Method, Index: x.call.observed.withTrace(x.call.params), Target: x.call.target, Hop: x.hop,
		Notify:  func(method string, params []byte) { x.forward(l, method, params) },
		Timeout: l.member.Timeout,
		Token:   x.msg.Index.Token() != nil || x.step != nil && l.member.Timeout > 0, // progress restarts the timeout
	}
	if !x.stateless {
		req.Ask = x.askClient
	}
	return req
}

// fetch answers the call from the store, from another call's flight, or from its upstream.
// It calls done once.
func (c *upstreamCall) fetch(ctx context.Context, req *upstream.Request, done func(outcome)) {
	if !c.class.storable() {
		c.send(ctx, req, done)
		return
	}
	f := &lookup{c: c, ctx: ctx, req: req, done: done}
	if c.class.query.Reuse.File != "" || c.s.srv.store.HasPeers() {
		c.s.running.Go(f.run) // reading the file's state, or asking other replicas, may block
		return
	}
	f.run()
}

// lookup is a call that the store may answer.
type lookup struct {
	c    *upstreamCall
	ctx  context.Context
	req  *upstream.Request
	done func(outcome)

	leads   bool    // the call began the flight
	fetched outcome // outcome of that flight
}

// run asks the store. A call that needs no upstream request gives up its turn at once. One
// that joined a prefetch keeps its turn until the prefetch has been sent.
func (f *lookup) run() {
	c := f.c
	turn := c.turn // lead may replace c.turn before Do returns
	w := &dedup.Waiter{Notify: f.notify, Sent: turn.Release, Done: f.finish}
	unsent := c.s.srv.store.Do(f.ctx, c.class.query, w, f.lead)
	switch {
	case f.leads:
	case unsent:
		turn.Follow(c.class.host)
	default:
		turn.Release()
	}
}

// lead fetches the answer for all calls that wait for the flight.
func (f *lookup) lead(ctx context.Context, flight *dedup.Flight) {
	c := f.c
	f.leads = true
	c.turn = c.turn.Reclaim() // kept even if this client gives up while others wait for the flight
	c.s.srv.running.Add(1)    // the flight may outlive its session
	settle := func(o outcome) {
		defer c.s.srv.running.Done()
		f.fetched = o
		flight.SetUnloadedLatency(c.observed.timing.Unloaded())
		flight.Settle(o.answer.Result, o.answer.Stateless, o.cacheable)
	}
	c.send(ctx, flightRequest(f.req, flight), func(o outcome) {
		if c.class.query.Reuse.File == "" {
			settle(o)
		} else {
			c.s.srv.running.Go(func() { settle(o) }) // reads the file's state again
		}
	})
}

// flightRequest returns the request that a flight makes for req. Notifications go to every
// waiting call. A question to this client taints the flight: the answer is for this client
// alone.
func flightRequest(req *upstream.Request, f *dedup.Flight) *upstream.Request {
	shared := *req
	shared.Notify = f.Notify
	if req.Ask != nil {
		shared.Ask = func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
			f.Taint()
			return req.Ask(ctx, method, params)
		}
	}
	return &shared
}

// notify forwards a notification of the flight: progress to every waiting call, log
// messages only to the client whose call the server is running.
func (f *lookup) notify(method string, params []byte) {
	if f.leads || method == "notifications/progress" {
		f.req.Notify(method, params)
	}
}

// finish handles the store's outcome.
func (f *lookup) finish(o dedup.Outcome) {
	c := f.c
	switch {
	case o.Err == dedup.ErrJoinTimeout:
		c.observed.answer.joinWait = time.Since(c.observed.call.At)
		f.sendDirect()
	case o.Refetch:
		f.sendDirect()
	case o.Err != nil:
		f.done(outcome{err: o.Err})
	case o.How == dedup.Fetched:
		f.fetched.answer, c.observed.answer.source.Comparison = withBackOff(f.fetched.answer, o), o.Comparison
		f.done(f.fetched)
	default:
		f.done(outcome{answer: c.storedAnswer(o), cacheable: true})
	}
}

// sendDirect sends the call itself because the answer of the flight it joined cannot be used.
func (f *lookup) sendDirect() {
	f.c.turn = f.c.turn.Reclaim()
	f.c.send(f.ctx, f.req, f.done)
}

// send sends the request to its upstream, in its turn and within the limits of its host.
func (c *upstreamCall) send(ctx context.Context, req *upstream.Request, done func(outcome)) {
	write, slot := c.pending.Swap(nil), (*limit.Slot)(nil)
	req.Late = func() {
		write.End()
		if c.observed != nil {
			c.observed.timing.AnsweredLate()
		}
		if c.onLate != nil {
			c.onLate()
		}
	}
	req.Reads, req.Host = onlyReads(c.method, c.class.kind), c.class.host
	var giveUp context.CancelCauseFunc // nil if no other replica has to see the write
	if !write.Announced() {
		ctx, giveUp = context.WithCancelCause(ctx)
		req.Fence = write.Fence
	}
	req.Admit = func(ctx context.Context, wait bool) (ok bool, err error) {
		if !write.Announced() {
			if !wait {
				return false, nil
			}
			if err := write.Announce(ctx, giveUp); err != nil {
				return false, err
			}
		}
		if slot, err = c.acquireSlot(ctx, wait); slot == nil {
			return false, err
		}
		c.observeSent()
		return true, nil
	}
	c.lease.Start(ctx, c.turn, req, func(answer upstream.Answer, err error) {
		o := outcome{answer: answer, err: err, verdict: verdict(answer, err)}
		if slot != nil {
			c.observeReturned(err, o.verdict.Limited)
			c.s.srv.common.releaseSlot(slot, c.class.host, o.verdict)
		}
		c.endWrite(write, answer, err)
		if giveUp != nil {
			giveUp(nil)
		}
		o.cacheable = err == nil && c.needsCacheable() && cacheable(answer)
		done(o)
	})
}

// A gate is called when a call has acquired a slot, possibly after a long wait, and decides
// whether the call may still be sent. It returns an error if not, or a channel whose closing
// means that the gate should be called again. Two nils mean that the call may be sent now.
type gate func() (retry <-chan struct{}, err error)

// acquireSlot acquires a slot at the call's host and passes the gate. If wait is false and
// the call cannot be sent at once, it returns nil.
func (c *upstreamCall) acquireSlot(ctx context.Context, wait bool) (*limit.Slot, error) {
	for {
		slot, err := c.hostSlot(ctx, wait)
		if slot == nil || c.gate == nil {
			return slot, err
		}
		retry, err := c.gate()
		if retry == nil && err == nil {
			return slot, nil
		}
		slot.Leave(notSent) // others need the slot meanwhile
		if err != nil || !wait {
			return nil, err
		}
		select {
		case <-retry:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// hostSlot acquires a slot at the call's host. Prefetches queue behind clients' calls.
func (c *upstreamCall) hostSlot(ctx context.Context, wait bool) (slot *limit.Slot, err error) {
	limits, host := c.s.srv.limits, c.class.host
	switch {
	case c.prefetch != nil && wait:
		return limits.Prefetch(ctx, host, c.prefetch.Promoted())
	case wait:
		return limits.Enter(ctx, host)
	case c.prefetch == nil:
		slot, _ = limits.TryEnter(host)
	}
	return slot, nil
}

// notSent is the verdict on a request that was not sent, which says nothing about its host.
var notSent = limit.Outcome{Failed: true}

// endWrite ends a pending write, or marks its outcome as unknown: the server may still run
// a request that it has not answered, and a task continues after the answer that names it.
func (c *upstreamCall) endWrite(write *dedup.PendingWrite, answer upstream.Answer, err error) {
	if c.observed != nil && answer.Sends > 0 {
		c.s.srv.recorder.recordSent(c, answer.Sends)
	}
	if err != nil && answer.Sent && !answer.Limited {
		write.Doubt()
		c.step.noteDoubt()
		return
	}
	if err == nil {
		if id, ok := startedTask(answer, c.class.task); ok {
			c.s.tasks.add(c.lease, id, write)
			return
		}
	}
	write.End()
}

// complete calls done with the outcome, after the client has answered any questions in it.
func (x *request) complete(ctx context.Context, req *upstream.Request, o outcome, done func(outcome)) {
	if o.err != nil || !o.answer.Stateless || x.stateless && x.work == nil || !revision.InputRequired(o.answer.Result) {
		done(o)
		return
	}
	questions := o.answer.Result // capturing o itself would move every outcome to the heap
	x.s.running.Go(func() { done(resolveInput(ctx, x, req, questions)) })
}

// deliver calls done with the outcome, enriched if hints or inlined answers are on.
func (x *request) deliver(o outcome, done func(outcome)) {
	c := x.call
	if c == nil { // suspended work that has no call, or could not be resumed
		done(o)
		return
	}
	if !o.inputRequired { // else the server still works on the call
		c.answered.Store(true)
		c.noteResult(o)
	}
	if c.observed == nil || !c.observed.announce || o.err != nil || !deliver.Plain(o.answer.Result) {
		done(o)
		return
	}
	kept := o // capturing o itself would move every outcome to the heap
	x.s.running.Go(func() { done(c.enrich(x.ctx, kept)) })
}

// answer writes the outcome to the client.
func (x *request) answer(o outcome) {
	answer, err := o.answer, o.err
	if x.call != nil {
		x.call.observeResult(x.ctx, o)
	} else if x.callsOwnTool() && !o.inputRequired {
		x.s.observed.turns.end(time.Now())
	}
	switch {
	case err != nil:
		x.failed(err)
	case answer.Error != nil:
		x.write(jsonrpc.AppendError(nil, x.msg.ID, revision.Error(answer.Error, x.msg.Method, x.stateless)))
	default:
		result := revision.Result(answer.Result, x.msg.Method, answer.Stateless, x.stateless)
		if !o.inputRequired {
			result = x.spend(result)
		}
		updateTask(x, answer)
		x.write(answer.Reframe(x.msg.ID, result))
		answer.Buffer.Release() // safe only here: the answer has been written and nothing retains it
	}
}

// release gives up the turn and the pending write of a call that goes no further.
func (c *upstreamCall) release() {
	c.dropWrite()
	c.turn.Release()
}

// dropWrite ends the pending write of a call that was not sent.
func (c *upstreamCall) dropWrite() {
	if write := c.pending.Swap(nil); write != nil {
		write.End()
	}
}
