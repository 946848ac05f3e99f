package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// route says what answers a request: the proxy itself, or an upstream, where it takes
// the request's turn. It runs on the reader, so that requests leave in the order they
// came in.
func (x *request) route() *jsonrpc.Error {
	switch method := x.msg.Method; method {
	case "tools/call":
		return x.routeName(upstream.Tools)
	case "prompts/get":
		return x.routeName(upstream.Prompts)
	case "logging/setLevel":
		x.local = func() { x.finish([]byte("{}")) }
		return setLevel(x.s, &x.msg.Index)
	case "ping":
		x.local = func() { x.finish([]byte("{}")) }
	case "initialize":
		x.local = func() { x.finish(introduce(x.s, x.hop.Info).initializeResult(x.s.client.facts().negotiated)) }
	case "server/discover":
		x.local = func() { x.finish(introduce(x.s, x.hop.Info).discoverResult()) }
	case "tools/list":
		x.local = func() { serveList(x, upstream.Tools) }
	case "prompts/list":
		x.local = func() { serveList(x, upstream.Prompts) }
	case "resources/list":
		x.local = func() { serveList(x, upstream.Resources) }
	case "resources/templates/list":
		x.local = func() { serveList(x, upstream.Templates) }
	case "subscriptions/listen":
		x.local = func() { serveListen(x) }
	case "tasks/list":
		x.local = func() { serveTaskList(x) }
	default:
		return x.locate()
	}
	return nil
}

// routeName routes by params.name.
func (x *request) routeName(l upstream.List) *jsonrpc.Error {
	name, err := routing(&x.msg.Index, "name")
	if err != nil {
		return err
	}
	p := x.s.srv.policy.Load()
	if l == upstream.Tools && x.part == nil {
		if own := x.s.identity.view.ownTool(p, name); own != nil {
			x.local = func() { serveOwnTool(x, own) }
			return nil
		}
	}
	t, lease := x.s.named(p, l, name)
	if lease == nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown %s %q", l.Capability()[:len(l.Capability())-1], name)}
	}
	c := newCall(x, p, lease, nil)
	if t.name != name {
		c.target = jsonrpc.AppendString(nil, t.name)
	}
	if l != upstream.Tools {
		x.bind(c)
		return nil
	}
	if err := checkHeader(x.msg, lease, t.name); err != nil {
		return err
	}
	c.tool = t.name
	c.arrived()
	x.bind(c)
	c.observe(x.stateless && x.msg.Index.Get("requestState") != nil, !x.stateless)
	return nil
}

// outcome is how a call has ended.
type outcome struct {
	answer upstream.Answer
	from   source // of the answer, where it is another's
	asks   bool   // the answer is questions: the call goes on
	err    error
}

// ownAnswer is an answer that no server wrote, at least not just now.
func ownAnswer(result []byte, stateless bool) upstream.Answer {
	return upstream.Answer{Message: jsonrpc.Message{Result: result}, Stateless: stateless}
}

// serveCall carries the request to its upstream. It returns at once, and done is called
// with the outcome, once, by the goroutine that has it. That saves a small call the switch
// from the goroutine that reads to one that waits, which is most of what it costs.
//
//	serveCall ──► ask ──► fetch ──► the store: an answer, or another call's flight, or
//	                 │        └───► send: the turn, the host's limit, the server
//	      done ◄── deliver ◄── complete ◄──┘
func (x *request) serveCall(done func(outcome)) {
	deliver := func(o outcome) { x.deliver(o, done) }
	if !x.stateless || x.msg.Index.Get("requestState") == nil {
		x.ask(deliver)
		return
	}
	x.s.work.Go(func() {
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
		x.s.work.Go(func() { subscribe(x, req, done) })
	case !x.stateless || c.lease.Stateless() || !interruptible(x.msg.Method): // of one era, or nothing can be asked
		c.fetch(x.ctx, req, func(o outcome) { x.complete(req, o, done) })
	case x.part == nil:
		x.s.work.Go(func() { beginAcross(x, req).attend(x, done) })
	default: // its plan outlives it
		x.fetchAcross(x.ctx, req, func(o outcome) { x.complete(req, o, done) })
	}
}

// complete calls done with an outcome once there is nothing left to ask the client.
func (x *request) complete(req *upstream.Request, o outcome, done func(outcome)) {
	if o.err != nil || !o.answer.Stateless || x.stateless && x.part == nil || !revision.InputRequired(o.answer.Result) {
		x.call.answered.Store(true)
		done(o)
		return
	}
	questions := o.answer.Result // a function that kept all of o would put every outcome on the heap
	x.s.work.Go(func() { done(fulfil(x, req, questions)) })
}

// deliver calls done with an outcome and what enrichment adds to its answer.
func (x *request) deliver(o outcome, done func(outcome)) {
	c := x.call
	if c == nil { // its suspended work could not be resumed
		done(o)
		return
	}
	if !o.asks { // else its server still works on it
		c.answered.Store(true)
		c.noteResult(o)
	}
	if c.seen == nil || !c.seen.announce || o.err != nil || !deliver.Plain(o.answer.Result) {
		done(o)
		return
	}
	kept := o // a function that kept o itself would put every outcome on the heap
	x.s.work.Go(func() { done(c.accompanied(x.ctx, kept)) })
}

// fetch answers the call from the store, from another call's flight, or by its upstream.
// It calls done once.
func (c *upstreamCall) fetch(ctx context.Context, req *upstream.Request, done func(outcome)) {
	if !c.class.storable() {
		c.send(ctx, c.turn, req, done)
		return
	}
	f := &fetching{c: c, ctx: ctx, req: req, done: done}
	if c.class.query.Use.File != "" {
		c.s.work.Go(f.do) // the file may be slow to look at
		return
	}
	f.do()
}

// fetching is a call that the store may answer.
type fetching struct {
	c    *upstreamCall
	ctx  context.Context
	req  *upstream.Request
	done func(outcome)

	leads bool    // it has begun a flight
	own   outcome // of that
}

// do asks the store. Where nothing of the call goes upstream its place is free, save
// that what waits for a prefetch keeps it until that has been sent.
func (f *fetching) do() {
	c := f.c
	w := &dedup.Waiter{Notify: f.forward, Sent: c.turn.Leave, Done: f.answered}
	unsent := c.s.srv.store.Do(f.ctx, c.class.query, w, f.lead)
	switch {
	case f.leads:
	case unsent:
		c.turn.Follow(c.class.host)
	default:
		c.turn.Leave()
	}
}

// lead fetches the answer for every call that waits for it.
func (f *fetching) lead(ctx context.Context, flight *dedup.Flight) {
	c := f.c
	f.leads = true
	c.turn.Hold()       // its client may give up, and others wait for the flight
	c.s.srv.work.Add(1) // the flight may outlive its session
	settle := func(o outcome) {
		defer c.s.srv.work.Done()
		f.own = o
		flight.Worth(c.worth())
		flight.Settle(o.answer.Result, o.answer.Stateless, o.err == nil && shareable(o.answer))
	}
	c.send(ctx, c.turn, shared(f.req, flight), func(o outcome) {
		if c.class.query.Use.File == "" {
			settle(o)
		} else {
			c.s.srv.work.Go(func() { settle(o) }) // which looks at the file once more
		}
	})
}

// answered is what the store has for the call.
func (f *fetching) answered(o dedup.Outcome) {
	c := f.c
	switch {
	case o.Err == dedup.ErrJoinTimeout:
		waited, done := time.Since(c.seen.At), f.done
		f.done = func(o outcome) { o.from.joinWait = waited; done(o) }
		f.alone()
	case o.Alone:
		f.alone()
	case o.Err != nil:
		c.turn.Leave()
		f.done(outcome{err: o.Err})
	case o.How == dedup.Fetched:
		f.own.answer, f.own.from.trial = noted(f.own.answer, o), o.Trial
		f.done(f.own)
	default:
		c.turn.Leave()
		answer, from := c.stored(o)
		f.done(outcome{answer: answer, from: from})
	}
}

// alone makes the call that another was to answer.
func (f *fetching) alone() { f.c.send(f.ctx, f.c.turn.Again(), f.req, f.done) }

// forward passes on a notification of the flight. Progress is for every call that waits,
// logs are for the client of the call that the server works on.
func (f *fetching) forward(method string, params []byte) {
	if f.leads || method == "notifications/progress" {
		f.req.Notify(method, params)
	}
}

// shared is the request as the flight makes it: notifications go to every call that waits,
// and a question to this client makes the answer this client's own.
func shared(req *upstream.Request, f *dedup.Flight) *upstream.Request {
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

// shareable reports whether another call may get the same answer: a result that
// says neither that it failed nor that more is to come.
func shareable(answer upstream.Answer) bool {
	if answer.Result == nil {
		return false
	}
	for m := range jsonrpc.Members(answer.Result) {
		switch string(m.Name) {
		case "isError":
			if string(m.Value) != "false" {
				return false
			}
		case "resultType":
			if string(m.Value) != `"complete"` {
				return false
			}
		case "task":
			return false
		}
	}
	return true
}

// request is what the upstream is asked.
func (x *request) upstreamRequest() *upstream.Request {
	x.token = x.msg.Index.Token()
	l := x.call.lease
	req := &upstream.Request{
		Method: x.msg.Method, Index: x.call.seen.traced(x.call.params), Target: x.call.target, Hop: x.hop,
		Notify:  func(method string, params []byte) { x.forward(l, method, params) },
		Timeout: l.member.Timeout,
		Token:   x.token != nil || x.part != nil && l.member.Timeout > 0, // progress restarts it
	}
	if !x.stateless {
		req.Ask = x.question
	}
	return req
}

// forward passes on a notification of the upstream of a lease that works on the request,
// until the request has been answered. The request may have another call by now.
func (x *request) forward(l *leased, method string, params []byte) {
	switch method {
	case "notifications/progress":
		if x.token == nil {
			return
		}
		params = jsonrpc.Set(params, "progressToken", x.token)
	case "notifications/message":
		level := "" // what the session last set
		if x.stateless {
			if level = x.hop.LogLevel; level == "" {
				return
			}
		}
		if !l.Admits(level, params) {
			return
		}
	case "notifications/tasks/status", "notifications/tasks":
		x.s.tasks.noteStatus(l, jsonrpc.Get(params, "taskId"), jsonrpc.Get(params, "status"))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.answered && x.ctx.Err() == nil {
		sendNotification(x.s.srv.log, x.to, method, params)
	}
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
		noteTaskAnswer(x, answer)
		x.write(answer.Reframe(x.msg.ID, result))
		answer.Buffer.Release() // here and nowhere else: it has been written, and nothing keeps any part of it
	}
}

// failed turns an error of ours into what MCP has for it: a tool that could
// not be run is a result with isError, so that the model reads why; anything
// else is a JSON-RPC error.
func (x *request) failed(err error) {
	// Not one that err wraps: that was said to the proxy, or of a server's line.
	if refused, ok := err.(*jsonrpc.Error); ok {
		x.fail(refused)
		return
	}
	if errors.Is(err, upstream.ErrTimeout) {
		err = fmt.Errorf("upstream %q: no answer within %v", x.call.lease.Name(), x.call.lease.member.Timeout)
	}
	if !unavailable(err) && x.ctx.Err() == nil {
		err = fmt.Errorf("upstream %q: %w", x.call.lease.Name(), err)
	}
	level := slog.LevelWarn
	if x.ctx.Err() != nil {
		level = slog.LevelDebug // the client's own wish
	}
	x.s.srv.log.Log(x.ctx, level, "call not answered by its upstream", "upstream", x.call.lease.Name(), "method", x.msg.Method, "err", err)
	if x.msg.Method != "tools/call" {
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: err.Error()})
		return
	}
	x.finish(append(jsonrpc.AppendString([]byte(`{"content":[{"type":"text","text":`), err.Error()), `}],"isError":true}`...))
}
