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

// The path of a call stands here from its arrival to its answer:
//
//	the client's reader:  bind ──► arrive
//	any goroutine:        serveCall ──► ask ──► fetch ──► the store: an answer, or another call's flight
//	                                     │        └─────► send: the turn, the server, the host's slot
//	                      answer ◄── deliver ◄── complete ◄── settle ◄──┘
//
// No step waits on the goroutine that takes it: each is given a function that goes on with
// the outcome. That saves a small call the switches to a goroutine that waits and back,
// which is most of what it costs.

// upstreamCall is one request for an upstream as the policy sees it: what it may change,
// and whether anything but the upstream may answer it.
type upstreamCall struct {
	s      *session
	lease  *leased
	turn   upstream.Turn // its place in the order of sending; a prefetch and a step of a plan have none
	method string        // tools/call, or another
	tool   string        // of a tools/call, as its upstream names it
	target []byte        // raw, of what it names, where its upstream has another name for that than the client; else nil
	params *revision.Params

	policy   *policy       // by which it was routed and is classified: the one snapshot for all of it
	class    callClass     // what that says of it
	observed *observation  // nil: it is no tools/call
	part     *planPart     // the step of a plan that it is; nil: of none
	gate     gate          // asked before it is sent; nil: it may be
	prefetch *dedup.Flight // of a prefetch; nil: it is a client's
	answered atomic.Bool   // by its upstream, which does not work on it any more
	onLate   func()        // of a prefetch: called when its server has answered after all; nil: of none

	// pending is what the call may change, as the store knows it: from its arrival until
	// it is sent, which takes it over, or will not be. nil: it has been taken over.
	pending atomic.Pointer[dedup.PendingWrite]
}

// newCall is a call of the request's to an upstream, by the policy that it was routed by.
// target, raw, is what it names there, where the client has another name for that; else nil.
func newCall(x *request, l *leased, target []byte) *upstreamCall {
	c := &upstreamCall{
		s: x.s, policy: x.policy, lease: l, method: x.msg.Method, target: target, params: &x.msg.Index, part: x.part,
	}
	if x.part != nil {
		c.gate = x.part.gate
	}
	return c
}

// bind has the request make a call, takes its turn, notes what it may change, and lets the
// observers know of a tools/call. A step of a plan has no turn: it begins when what it needs
// is there, and must not keep the session's other calls waiting while its host has no slot
// for it.
func (x *request) bind(c *upstreamCall) {
	if x.part == nil {
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
	if x.part == nil && x.msg.Repeated && !c.repeatable() {
		x.refuseRepeat()
	}
}

// register classifies the call by the policy that it was routed by, and notes with the store what
// it may change: on the reader of its session, before the next message is read, and once
// more before it is made again. The policy is then read once more, only to compare: if it
// has changed meanwhile, all is done over by the new one. As the write registers before
// that, either the change finds the write pending, or the call finds the change.
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

// serveCall carries the request to its upstream. It returns at once, and done is called
// with the outcome, once, by the goroutine that has it.
func (x *request) serveCall(done func(outcome)) {
	deliver := func(o outcome) { x.deliver(o, done) }
	if !x.stateless || x.msg.Index.Get("requestState") == nil {
		x.ask(deliver)
		return
	}
	x.s.running.Go(func() {
		if !x.resume(deliver) {
			x.ask(deliver)
		}
	})
}

// ask makes the request of its upstream. Where client and server are of different eras,
// questions stand between the call and its answer: a server of the handshake era asks by
// requests, a stateless one by a result.
func (x *request) ask(done func(outcome)) {
	c, req := x.call, x.upstreamRequest()
	switch {
	case subscribes(x.msg.Method):
		x.s.running.Go(func() { subscribe(x, req, done) })
	case !x.stateless || c.lease.Stateless() && !x.confirmed || !interruptible(x.msg.Method): // of one era, or nothing can be asked
		c.fetch(x.ctx, req, func(o outcome) { x.complete(x.ctx, req, o, done) })
	case x.part == nil:
		x.s.running.Go(func() { beginAcross(x, req).serve(x, done) })
	default: // its plan outlives it
		x.fetchAcross(x.ctx, req, func(o outcome) { x.complete(x.ctx, req, o, done) })
	}
}

// upstreamRequest is what the upstream is asked.
func (x *request) upstreamRequest() *upstream.Request {
	l := x.call.lease
	req := &upstream.Request{
		Method: x.msg.Method, Index: x.call.observed.withTrace(x.call.params), Target: x.call.target, Hop: x.hop,
		Notify:  func(method string, params []byte) { x.forward(l, method, params) },
		Timeout: l.member.Timeout,
		Token:   x.msg.Index.Token() != nil || x.part != nil && l.member.Timeout > 0, // progress restarts it
	}
	if !x.stateless {
		req.Ask = x.askClient
	}
	return req
}

// fetch answers the call from the store, from another call's flight, or by its upstream.
// It calls done once.
func (c *upstreamCall) fetch(ctx context.Context, req *upstream.Request, done func(outcome)) {
	if !c.class.storable() {
		c.send(ctx, req, done)
		return
	}
	f := &lookup{c: c, ctx: ctx, req: req, done: done}
	if c.class.query.Reuse.File != "" || c.s.srv.store.HasPeers() {
		c.s.running.Go(f.run) // the file, or what other replicas know, may be slow to look at
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

	leads   bool    // it has begun a flight
	fetched outcome // of that
}

// run asks the store. Where nothing of the call goes upstream its place is free, save
// that what waits for a prefetch keeps it until that has been sent.
func (f *lookup) run() {
	c := f.c
	turn := c.turn // it may have another by the time that the store returns
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

// lead fetches the answer for every call that waits for it.
func (f *lookup) lead(ctx context.Context, flight *dedup.Flight) {
	c := f.c
	f.leads = true
	c.turn = c.turn.Reclaim() // held: its client may give up, and others wait for the flight
	c.s.srv.running.Add(1)    // the flight may outlive its session
	settle := func(o outcome) {
		defer c.s.srv.running.Done()
		f.fetched = o
		flight.SetUnloadedLatency(c.observed.timing.Alone())
		flight.Settle(o.answer.Result, o.answer.Stateless, o.cacheable)
	}
	c.send(ctx, flightRequest(f.req, flight), func(o outcome) {
		if c.class.query.Reuse.File == "" {
			settle(o)
		} else {
			c.s.srv.running.Go(func() { settle(o) }) // which looks at the file once more
		}
	})
}

// flightRequest is the request as the flight makes it: notifications go to every call that waits,
// and a question to this client makes the answer this client's own.
func flightRequest(req *upstream.Request, f *dedup.Flight) *upstream.Request {
	lead := *req
	lead.Notify = f.Notify
	if req.Ask != nil {
		lead.Ask = func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
			f.Taint()
			return req.Ask(ctx, method, params)
		}
	}
	return &lead
}

// notify passes on a notification of the flight. Progress is for every call that waits,
// logs are for the client of the call that the server works on.
func (f *lookup) notify(method string, params []byte) {
	if f.leads || method == "notifications/progress" {
		f.req.Notify(method, params)
	}
}

// finish is what the store has for the call.
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
		f.fetched.answer, c.observed.answer.from.Comparison = withBackOff(f.fetched.answer, o), o.Comparison
		f.done(f.fetched)
	default:
		f.done(outcome{answer: c.storedAnswer(o), cacheable: true})
	}
}

// sendDirect makes the call that another was to answer.
func (f *lookup) sendDirect() {
	f.c.turn = f.c.turn.Reclaim()
	f.c.send(f.ctx, f.req, f.done)
}

// send hands the request to its upstream in its turn, within the limits of its host.
func (c *upstreamCall) send(ctx context.Context, req *upstream.Request, done func(outcome)) {
	write, slot := c.pending.Swap(nil), (*limit.Slot)(nil)
	req.Late = func() {
		write.End()
		if c.observed != nil {
			c.observed.timing.Late()
		}
		if c.onLate != nil {
			c.onLate()
		}
	}
	req.Reads, req.Host = onlyReads(c.method, c.class.kind), c.class.host
	var giveUp context.CancelCauseFunc // nil: no other replica has to see its write
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

// gate is asked whether a call may be sent, when there is a slot for it: it may have
// waited long for that. It returns why not, or a channel that is closed when it is to be
// asked again; nil: the call may be sent now.
type gate func() (again <-chan struct{}, err error)

// acquireSlot finds the call a slot at its host with which its gate lets it pass. Where it must not
// wait and there is none, it returns nil.
func (c *upstreamCall) acquireSlot(ctx context.Context, wait bool) (*limit.Slot, error) {
	for {
		slot, err := c.hostSlot(ctx, wait)
		if slot == nil || c.gate == nil {
			return slot, err
		}
		again, err := c.gate()
		if again == nil && err == nil {
			return slot, nil
		}
		slot.Leave(notSent) // which others need meanwhile
		if err != nil || !wait {
			return nil, err
		}
		select {
		case <-again:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// hostSlot finds the call a slot, a prefetch behind every call of a client.
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

// notSent is the verdict on a request that was not sent: its host has not been tried.
var notSent = limit.Verdict{Failed: true}

// endWrite ends a pending write with what is known of the outcome: what was not answered
// may still be run, and a task goes on after the answer that names it.
func (c *upstreamCall) endWrite(write *dedup.PendingWrite, answer upstream.Answer, err error) {
	if c.observed != nil && answer.Sends > 0 {
		c.s.srv.recorder.recordSent(c, answer.Sends)
	}
	if err != nil && answer.Sent && !answer.Limited {
		write.Doubt()
		c.part.noteDoubt()
		return
	}
	if err == nil {
		if id, ok := taskBegun(answer, c.class.task); ok {
			c.s.tasks.begin(c.lease, id, write)
			return
		}
	}
	write.End()
}

// complete calls done with an outcome once there is nothing left to ask the client.
func (x *request) complete(ctx context.Context, req *upstream.Request, o outcome, done func(outcome)) {
	if o.err != nil || !o.answer.Stateless || x.stateless && x.work == nil || !revision.InputRequired(o.answer.Result) {
		done(o)
		return
	}
	questions := o.answer.Result // a function that kept all of o would put every outcome on the heap
	x.s.running.Go(func() { done(fulfil(ctx, x, req, questions)) })
}

// deliver calls done with an outcome and what enrichment adds to its answer.
func (x *request) deliver(o outcome, done func(outcome)) {
	c := x.call
	if c == nil { // its suspended work could not be resumed
		done(o)
		return
	}
	if !o.inputRequired { // else its server still works on it
		c.answered.Store(true)
		c.noteResult(o)
	}
	if c.observed == nil || !c.observed.announce || o.err != nil || !deliver.Plain(o.answer.Result) {
		done(o)
		return
	}
	kept := o // a function that kept o itself would put every outcome on the heap
	x.s.running.Go(func() { done(c.enrich(x.ctx, kept)) })
}

// answer writes what came back.
func (x *request) answer(o outcome) {
	answer, err := o.answer, o.err
	if x.call != nil {
		x.call.observeResult(x.ctx, o)
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
		noteTaskAnswer(x, answer)
		x.write(answer.Reframe(x.msg.ID, result))
		answer.Buffer.Release() // here and nowhere else: it has been written, and nothing keeps any part of it
	}
}

// release ends a call that goes no further: its place is free, and what it might have
// changed if it had been sent is not pending any more.
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
