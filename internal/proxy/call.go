package proxy

import (
	"context"
	"sync/atomic"
	"time"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/deliver"
	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
)

// This file holds the path of a call from its arrival to its answer:
//
//	the client's reader:  Accept ──► admit ──► route (route.go) ──► bind ──► registerWrite
//	any goroutine:        makeCall ──► run ──► lookUp ─► the store: an answer, or another call's flight
//	                                             └─────► send: the turn, the server, the host's slot
//	                      answer ◄── deliver ◄── run ◄── endWrite ◄────────────┘
//
// No step blocks its goroutine: each takes a callback that continues with the outcome.
// With a goroutine that waits for each call instead, a call of 1 KB takes a third longer,
// and a stored answer twice as long (BenchmarkCall, BenchmarkStored).

// upstreamCall is one request to an upstream, classified by the policy: which places it
// may change, and whether the store may answer it. A client's call and a plan's step take
// the path above; a prefetch begins at send, and a notification is only registered. It has
// 16 fields, as each step of the path is given the call alone.
type upstreamCall struct {
	s       *session
	request *request         // that began the call; nil for a prefetch and a notification
	fetch   *speculate.Fetch // prefetch that the call makes; nil for a client's call

	lease   *catalog.Lease
	turn    *upstream.Turn // position in the order of sending; nil for a prefetch, a step of a plan and a notification
	method  string         // JSON-RPC method
	tool    string         // tool name at the upstream; "" unless the method is tools/call
	params  *revision.Params
	renamed []byte // raw JSON of the upstream's own name for the tool, the prompt or the reference; nil if the client uses it

	policy   *policy       // snapshot that routed the request and classifies the call
	class    callClass     // classification by that policy
	observed *observation  // nil unless the request is a tools/call
	gate     gate          // checked before the call is sent; nil if it may always be sent
	flight   *dedup.Flight // flight of a prefetch; nil for a client's call

	slot atomic.Pointer[limit.Slot] // at its host while it is in flight

	// pendingWrite is the store's record of the places that the call may change. It is set on
	// arrival, and taken either to send the call or to drop it.
	pendingWrite atomic.Pointer[dedup.PendingWrite]
}

// step returns the step of a plan that makes the call, or nil if a client or the proxy does.
func (c *upstreamCall) step() *planStep {
	if c.request == nil {
		return nil
	}
	return c.request.step
}

// Accept takes one message from the client. It runs on the client's reader and does
// everything that depends on the order of arrival before it returns. It returns a function
// that serves the request and may block, or nil if nothing is left to do.
func (s *session) Accept(ctx context.Context, m *front.Message, to front.Outlet) (serve func()) {
	switch {
	case m.IsResponse():
		s.questions.handleResponse(m.Message)
		return nil
	case m.IsNotification():
		s.handleNotification(m)
		return nil
	}
	x := &request{s: s, msg: m, key: string(m.ID), stream: responseStream{out: to}, client: m.Client}
	if err := x.admit(s.ctx); err != nil {
		recordRefusal(s, x.msg)
		x.answer(outcome{err: err})
		return nil
	}
	if !s.identity.NonBlocking || x.handler != nil {
		return func() {
			// If the request may outlive its connection, ctx has no end.
			defer context.AfterFunc(ctx, func() { x.cancel(cancelledByClient{"the client has disconnected"}) })()
			defer x.leave()
			x.answer(x.respond())
		}
	}
	s.running.Add(1) // the request may end before makeCall returns
	defer s.running.Done()
	x.makeCall(func(o outcome) {
		defer x.leave()
		x.answer(o)
	})
	return nil
}

// admit registers the request, opens the session if this is its first one, and routes the
// request, which takes its turn at its upstream. It returns why the request is refused, if it is.
func (x *request) admit(ctx context.Context) error {
	s := x.s
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	if err := s.requests.add(x); err != nil {
		x.cancel(nil)
		return err
	}
	if x.msg.Stateless() {
		s.open(*x.client)
	} else if x.msg.Method == "initialize" {
		openHandshake(s, &x.msg.Index)
	} else if x.msg.Method != "ping" {
		s.open(revision.Client{})
		s.questions.setReady() // a client that makes requests can also receive messages
	}
	if !x.msg.Stateless() {
		x.client = &s.client.load().Client
	}
	x.view = x.s.view()
	route := x.route
	if suspendable(x) {
		route = x.routeWork
	}
	if err := route(); err != nil {
		x.leave()
		return err
	}
	return nil
}

// newCall returns the request's call to an upstream, under the policy that routed the
// request. renamed is that of the call.
func newCall(x *request, l *catalog.Lease, renamed []byte) *upstreamCall {
	c := &upstreamCall{
		s: x.s, request: x, policy: x.view.policy, lease: l, method: x.msg.Method, renamed: renamed, params: &x.msg.Index,
	}
	if x.step != nil {
		c.gate = x.step.Refused
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
	x.s.requests.addCall(c)
	c.registerWrite()
	if c.tool != "" {
		c.observeArrival(x.msg.Stateless() && x.msg.Index.Get("requestState") != nil)
	}
	if x.step == nil && x.msg.Replayed && !c.repeatable() {
		c.pendingWrite.Swap(nil).Doubt()
		x.handler = func(*request) outcome { return outcome{err: errOutcomeUnknown} }
	}
}

// registerWrite classifies the call by its policy and registers its write with the store. For a client's
// request it runs on the session's reader before the next message is read; it runs again each time the
// call is repeated. It then loads the policy a second time and starts over if the policy
// has changed. As the write registers before that load, either the reload sees the pending
// write or the call sees the reload.
func (c *upstreamCall) registerWrite() {
	srv := c.s.srv
	for {
		version := srv.catalog.Version()
		c.class = c.classify(c.policy)
		write := srv.common.store.RegisterWrite(c.class.effect)
		now := srv.policy.Load()
		if now == c.policy && version == srv.catalog.Version() {
			c.pendingWrite.Store(write)
			return
		}
		write.End()
		c.policy = now
	}
}

// makeCall makes the request's call. It returns at once; done is called once with the outcome, on
// any goroutine.
func (x *request) makeCall(done func(outcome)) {
	x.run(func(o outcome) { x.deliver(o, done) })
}

// run makes the call, lets the client answer the server's questions, and calls done once. If
// client and server are of different eras, the questions are translated on the way: a server of
// the handshake era asks by requests, a stateless server by a result. Such a result passes
// unchanged to a stateless client if the request that it then repeats is routed to the same server.
func (x *request) run(done func(outcome)) {
	c, req := x.call, x.upstreamRequest()
	unchanged := x.msg.Stateless() && x.handler == nil && x.step == nil
	if x.work != nil {
		x.work.wake() // it may ask what the server has asked before
		c.lease.SetLevel(x.client.LogLevel)
	}
	c.lookUp(x.ctx, req, func(o outcome) {
		if o.kind != inputRequired || !o.answer.Stateless || unchanged {
			done(o)
			return
		}
		questions := o.answer.Result // capturing o itself would move every outcome to the heap
		x.s.running.Go(func() { done(resolveInput(x, req, questions)) })
	})
}

// upstreamRequest returns the request to send to the upstream.
func (x *request) upstreamRequest() *upstream.Request {
	c := x.call
	l := c.lease
	req := &upstream.Request{
		Method: x.msg.Method, Index: c.observed.withTrace(c.params), Target: c.renamed, Client: x.client,
		Notify:  func(method string, params []byte) { x.forward(l, method, params) },
		Timeout: l.Member.Timeout,
		// Progress restarts a step's timeout, and is told to the client of its plan.
		Token: x.msg.Index.Token() != nil || x.step != nil && (l.Member.Timeout > 0 || x.step.run.request.msg.Index.Token() != nil),
	}
	if !x.msg.Stateless() || x.work != nil {
		req.Ask = func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
			return x.askClient(ctx, c, method, params)
		}
	}
	return req
}

// lookUp answers the call from the store, from another call's flight, or from its upstream.
// It calls done once.
func (c *upstreamCall) lookUp(ctx context.Context, req *upstream.Request, done func(outcome)) {
	if !c.class.storable() {
		c.send(ctx, c.pendingWrite.Swap(nil), req, done)
		return
	}
	f := &lookup{c: c, ctx: ctx, req: req, done: done}
	if c.class.query.Reuse.File != "" || c.s.srv.common.store.HasPeers() {
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

	leads   bool    // the call fetches for the flight
	fetched outcome // outcome of that flight
}

// run asks the store. A call that needs no upstream request gives up its turn at once. One
// that joined a prefetch keeps its turn until the prefetch has been sent. One that joined a call does
// not, even if that waits: two sessions with calls that joined each other's could wait for each other.
func (f *lookup) run() {
	c := f.c
	turn := c.turn // resolveInput may replace c.turn before Do returns
	w := &dedup.Waiter{Sent: turn.Release, Done: f.finish, Notify: func(method string, params []byte) {
		if f.leads || method == "notifications/progress" { // logs only go to the client of the call that the server is running
			f.req.Notify(method, params)
		}
	}}
	if unsent := c.s.srv.common.store.Do(f.ctx, c.class.query, w, f.lead); !unsent && !f.leads {
		turn.Release()
	}
}

// lead fetches the answer for all calls that wait for the flight. If the client gave the call up
// before it could be sent, the others fetch by themselves.
func (f *lookup) lead(ctx context.Context, flight *dedup.Flight) {
	c := f.c
	write := c.pendingWrite.Swap(nil)
	if write == nil { // release has taken it
		flight.Finish(nil, false, false)
		return
	}
	f.leads = true
	c.s.srv.running.Add(1) // the flight may outlive its session
	finishFlight := func(o outcome) {
		defer c.s.srv.running.Done()
		f.fetched = o
		flight.SetUnloadedLatency(c.observed.run.Unloaded())
		flight.Finish(o.answer.Result, o.answer.Stateless, o.kind == complete)
	}
	shared := *f.req
	shared.Notify = flight.Notify
	if f.req.Ask != nil {
		shared.Ask = func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
			flight.Taint() // the answer is for this client alone
			return f.req.Ask(ctx, method, params)
		}
	}
	c.send(ctx, write, &shared, func(o outcome) {
		if c.class.query.Reuse.File == "" {
			finishFlight(o)
		} else {
			c.s.srv.running.Go(func() { finishFlight(o) }) // reads the file's state again
		}
	})
}

// finish handles the store's outcome.
func (f *lookup) finish(o dedup.Outcome) {
	c := f.c
	switch {
	case o.Err == dedup.ErrJoinTimeout: // no call joins that prefetch any more
		c.observed.joinWait = time.Since(c.observed.call.At)
		c.lookUp(f.ctx, f.req, f.done)
	case o.Refetch: // the answer of the flight that it joined cannot be used
		c.send(f.ctx, c.pendingWrite.Swap(nil), f.req, f.done)
	case o.Err != nil:
		f.done(outcome{err: o.Err})
	case o.How == dedup.Fetched:
		c.observed.source.Comparison = o.Comparison
		if answer := &f.fetched.answer; o.BackOff > 0 && answer.Result != nil {
			answer.Result = withMeta(answer.Result, servedMeta(string(o.How), &o))
		}
		f.done(f.fetched)
	default:
		f.done(outcome{answer: c.storedAnswer(o), kind: complete})
	}
}

// send sends the request in its turn and within the limits of its host. It takes over the write, and the turn even
// if its client gives it up while others wait for the flight.
func (c *upstreamCall) send(ctx context.Context, write *dedup.PendingWrite, req *upstream.Request, done func(outcome)) {
	// The class is the one under which its write was registered: a reload that changes it invalidates all answers.
	req.ReadOnly = !c.class.effect.Changes()
	req.Late = func(m jsonrpc.Message) {
		answer := upstream.Answer{Message: m}
		c.endWrite(write.Unexpired(), &outcome{answer: answer, kind: kindOf(&answer)})
	}
	var giveUp context.CancelCauseFunc // nil if no other replica has to see the write
	if !write.Announced() {
		ctx, giveUp = context.WithCancelCause(ctx)
		req.Fence = write.Fence
	}
	req.Admit = func(ctx context.Context, wait bool) error {
		if !write.Announced() {
			if !wait {
				return upstream.ErrMustWait
			}
			if err := write.Announce(ctx, giveUp); err != nil {
				return err
			}
		}
		slot, err := c.acquireSlot(ctx, wait)
		if err == nil {
			c.slot.Store(slot)
			c.observeSent()
		}
		return err
	}
	c.lease.Send(ctx, c.turn.Reclaim(), req, func(answer upstream.Answer, err error) {
		o := outcome{answer: answer, kind: kindOf(&answer), err: err}
		o.onHost = o.hostOutcome()
		if slot := c.slot.Swap(nil); slot != nil {
			c.observeReturned(err, o.onHost.Limited)
			if notify, publish := slot.Leave(o.onHost), c.s.srv.common.replicas.PublishLimited; notify && publish != nil {
				publish(c.class.host, o.onHost.RetryAfter)
			}
		}
		c.endWrite(write, &o)
		if o.kind == startedTask {
			c.forwardTaskProgress(answer.ID)
		}
		if giveUp != nil {
			giveUp(nil)
		}
		done(o)
	})
}

// A gate is called when a call has acquired a slot, possibly after a long wait. It returns
// the reason why the call must not be sent any more, if there is one.
type gate func() error

// acquireSlot acquires a slot at the call's host and passes the gate. Prefetches queue behind
// clients' calls. Without wait it fails if the call cannot be sent at once.
func (c *upstreamCall) acquireSlot(ctx context.Context, wait bool) (slot *limit.Slot, err error) {
	limits, host := c.s.srv.common.limits, c.class.host
	switch {
	case c.flight != nil && wait:
		slot, err = limits.EnterSpare(ctx, host, c.flight.Promoted())
	case wait:
		slot, err = limits.Enter(ctx, host)
	case c.flight == nil:
		slot, _ = limits.TryEnter(host)
	}
	switch {
	case slot == nil && err == nil:
		return nil, upstream.ErrMustWait
	case slot == nil:
		return nil, err
	case c.outlivesRules():
		err = errForbidden
	case c.gate != nil:
		err = c.gate()
	}
	if err != nil {
		slot.Leave(limit.Outcome{Failed: true}) // says nothing about the host, as nothing was sent
		return nil, err
	}
	return slot, nil
}

// endWrite ends a pending write, or marks its outcome as unknown: the server may still run
// a request that it has not answered, and a task continues after the answer that names it.
func (c *upstreamCall) endWrite(write *dedup.PendingWrite, o *outcome) {
	if o.err != nil && o.answer.Sent && !o.answer.Limited {
		write.Doubt()
		return
	}
	if o.kind != startedTask {
		write.End()
	} else if id, ok := taskID(o.answer.Result); ok {
		c.s.tasks.add(c.lease, id, write)
	} else {
		write.Doubt()
	}
}

// deliver notifies the observers of the outcome and calls done with it. If hints or inlined answers are on,
// announce first adds them.
func (x *request) deliver(o outcome, done func(outcome)) {
	c := x.call
	x.s.requests.removeCall(c) // what its server asks from now on is about another call
	if o.kind != complete || !c.mayAnnounce() || !deliver.Plain(o.answer.Result) {
		c.observeResult(o)
		done(o)
		return
	}
	kept := o // capturing o itself would move every outcome to the heap
	x.s.running.Go(func() {
		announced := c.announce(x.ctx, kept)
		c.observeResult(kept)
		done(announced)
	})
}

// respond returns the outcome of the request. It may block.
func (x *request) respond() outcome {
	if x.handler != nil {
		return x.handler(x)
	}
	return waitFor(x.makeCall)
}

// answer writes the outcome to the client.
func (x *request) answer(o outcome) {
	if x.call == nil && x.msg.Method == "tools/call" && o.kind != suspended { // of one of the proxy's own tools
		x.s.observed.turns.end(time.Now())
	}
	answer := o.answer
	if o.err != nil {
		answer = x.failure(o)
	}
	if answer.Error != nil {
		x.write(jsonrpc.AppendError(nil, x.msg.ID, revision.Error(answer.Error, x.msg.Method, x.msg.Stateless())))
		return
	}
	result := revision.Result(answer.Result, x.msg.Method, answer.Stateless, x.msg.Stateless())
	if o.kind != suspended {
		result = x.spend(result)
	}
	updateTask(x, answer)
	if err := x.write(answer.Reframe(x.msg.ID, result)); err != nil && o.kind == suspended {
		x.s.questions.abandon(x.work, err)
	}
	answer.Buffer.Release() // safe only here: the answer has been written and nothing retains it
}

// write writes the answer, or returns why the client does not get it.
func (x *request) write(line []byte) (err error) {
	if isCancelledByClient(x.ctx) {
		err = context.Cause(x.ctx)
	} else {
		x.stream.end()
		x.s.requests.forget(x) // the client may reuse the id as soon as it has read the answer
		if err = x.stream.out.Answer(line); err == nil {
			return nil
		}
		x.s.srv.log.Debug("answer not delivered", "method", x.msg.Method, "err", err)
	}
	if c := x.call; c != nil && c.class.storable() {
		x.s.identity.delivered.Lost(c.class.query.Key)
	}
	return err
}
