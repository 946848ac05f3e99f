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
		return x.setLevel()
	case "ping":
		x.local = func() { x.finish([]byte("{}")) }
	case "initialize":
		x.local = func() { x.finish(x.s.introduction(x.hop.Info).initializeResult(x.s.client.facts().negotiated)) }
	case "server/discover":
		x.local = func() { x.finish(x.s.introduction(x.hop.Info).discoverResult()) }
	case "tools/list":
		x.local = func() { x.list(upstream.Tools) }
	case "prompts/list":
		x.local = func() { x.list(upstream.Prompts) }
	case "resources/list":
		x.local = func() { x.list(upstream.Resources) }
	case "resources/templates/list":
		x.local = func() { x.list(upstream.Templates) }
	case "subscriptions/listen":
		x.local = x.listen
	case "tasks/list":
		x.local = x.listTasks
	default:
		return x.locate()
	}
	return nil
}

// routeName routes by params.name.
func (x *request) routeName(l upstream.List) *jsonrpc.Error {
	name, err := routing(x.params, "name")
	if err != nil {
		return err
	}
	p := x.s.srv.policy.Load()
	if l == upstream.Tools && !x.step {
		if x.own = x.s.identity.view.ownTool(p, name); x.own != nil {
			x.local = func() { x.own.serve(x) }
			return nil
		}
	}
	t, lease := x.s.named(p, l, name)
	if lease == nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown %s %q", l.Capability()[:len(l.Capability())-1], name)}
	}
	if t.name != name {
		x.name = jsonrpc.AppendString(nil, t.name)
	}
	if l != upstream.Tools {
		x.bind(lease)
		return nil
	}
	x.tool = t.name
	x.observeArrival()
	x.bind(lease)
	x.observeCall()
	return nil
}

// outcome is how a call has ended.
type outcome struct {
	answer upstream.Answer
	from   source // of the answer, where it is another's
	err    error
}

// call carries the request to its upstream. It waits for nothing: done hears the
// outcome, once, on the goroutine that brings it. That saves a small call the change
// from the goroutine that reads to one that waits, which is most of what it costs.
//
//	call ──► ask ──► fetch ──► the store: an answer, or another call's flight, or
//	            │        └───► send: the turn, the host's limit, the server
//	 done ◄── deliver ◄── complete ◄──┘
func (x *request) call(done func(outcome)) {
	brought := func(o outcome) { x.deliver(o, done) }
	ask := x.ask
	if x.among != nil {
		ask = func(done func(outcome)) { x.askEach(x.among, outcome{}, done) }
	}
	if !x.stateless || x.params.Get("requestState") == nil {
		ask(brought)
		return
	}
	x.s.work.Go(func() {
		if !x.resume(brought) {
			ask(brought)
		}
	})
}

// ask makes the request of its upstream. What stands in the way of a complete answer
// is the difference of eras: a server of the one asks its client by requests, of the
// other by a result.
func (x *request) ask(done func(outcome)) {
	req := x.upstreamRequest()
	switch {
	case x.subscribes():
		x.s.work.Go(func() { x.subscription(req, done) })
	case !x.goesAcross():
		x.fetch(x.ctx, x.turn, req, func(o outcome) { x.complete(req, o, done) })
	case x.part == nil:
		x.s.work.Go(func() { x.askAcross(req, done) })
	default: // its plan outlives it
		x.fetchAcross(x.ctx, x.turn, req, func(o outcome) { x.complete(req, o, done) })
	}
}

// complete has done hear an outcome once there is nothing left to ask the client.
func (x *request) complete(req *upstream.Request, o outcome, done func(outcome)) {
	x.back.Store(true)
	if o.err != nil || !o.answer.Stateless || x.stateless && x.part == nil || !revision.InputRequired(o.answer.Result) {
		done(o)
		return
	}
	x.s.work.Go(func() { done(x.fulfil(req, o.answer.Result)) })
}

// deliver has done hear an outcome together with what goes with the answer.
func (x *request) deliver(o outcome, done func(outcome)) {
	x.back.Store(true)
	x.noteResult(o)
	if !x.announce || o.err != nil || !deliver.Plain(o.answer.Result) {
		done(o)
		return
	}
	x.s.work.Go(func() {
		o.answer = x.accompanied(o.answer)
		done(o)
	})
}

// fetch answers the request from the store, from another call's flight, or by its
// upstream. done hears the outcome, once.
func (x *request) fetch(ctx context.Context, turn upstream.Turn, req *upstream.Request, done func(outcome)) {
	if !x.storable() {
		x.send(ctx, x.lease, turn, req, done)
		return
	}
	f := &fetching{x: x, ctx: ctx, turn: turn, req: req, done: done}
	if x.query.Use.File != "" {
		x.s.work.Go(f.do) // the file may be slow to look at
		return
	}
	f.do()
}

// fetching is a request that the store may answer.
type fetching struct {
	x    *request
	ctx  context.Context
	turn upstream.Turn
	req  *upstream.Request
	done func(outcome)

	leads bool    // it has begun a flight
	own   outcome // of that
}

// do asks the store. Where nothing of the request goes upstream its place is free, save
// that what waits for a prefetch keeps it until that has been sent.
func (f *fetching) do() {
	x := f.x
	w := &dedup.Waiter{Notify: f.hear, Sent: f.turn.Leave, Done: f.answered}
	unsent := x.s.srv.store.Do(f.ctx, x.query, w, f.lead)
	switch {
	case f.leads:
	case unsent:
		f.turn.Follow(x.host)
	default:
		f.turn.Leave()
	}
}

// lead fetches the answer for all who wait for it.
func (f *fetching) lead(ctx context.Context, flight *dedup.Flight) {
	x := f.x
	f.leads = true
	f.turn.Hold() // its client may give up, and others wait for the flight
	settle := func(o outcome) {
		f.own = o
		flight.Worth(x.worth(x.lease))
		flight.Settle(o.answer.Result, o.answer.Stateless, o.err == nil && shareable(o.answer))
	}
	x.send(ctx, x.lease, f.turn, x.shared(f.req, flight), func(o outcome) {
		if x.query.Use.File == "" {
			settle(o)
		} else {
			x.s.srv.work.Go(func() { settle(o) }) // which looks at the file once more
		}
	})
}

// answered is what the store has for the request.
func (f *fetching) answered(o dedup.Outcome) {
	x := f.x
	switch {
	case o.Err == dedup.ErrJoinTimeout:
		waited, done := time.Since(x.record.at), f.done
		f.done = func(o outcome) { o.from.joinWait = waited; done(o) }
		f.alone()
	case o.Alone:
		f.alone()
	case o.Err != nil:
		f.turn.Leave()
		f.done(outcome{err: o.Err})
	case o.How == dedup.Fetched:
		f.own.answer, f.own.from.trial = x.noted(f.own.answer, o), o.Trial
		f.done(f.own)
	default:
		f.turn.Leave()
		answer, from := x.stored(o)
		f.done(outcome{answer: answer, from: from})
	}
}

// alone makes the call that another was to answer.
func (f *fetching) alone() { f.x.send(f.ctx, f.x.lease, f.turn.Again(), f.req, f.done) }

// hear passes on what the server says on the way: its logs are for the client of the
// call that it is at.
func (f *fetching) hear(method string, params []byte) {
	if f.leads || method == "notifications/progress" {
		f.req.Notify(method, params)
	}
}

// shared is the request as the flight makes it: what is said on the way goes to
// all who wait, and a question to this client makes the answer its own.
func (x *request) shared(req *upstream.Request, f *dedup.Flight) *upstream.Request {
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
	x.token = x.params.Token()
	req := &upstream.Request{
		Method: x.msg.Method, Index: x.traced(), Target: x.name, Hop: x.hop,
		Notify: x.hear, Timeout: x.lease.member.Timeout,
		Token: x.token != nil || x.step && x.lease.member.Timeout > 0, // progress resets that, whoever hears of it
	}
	if !x.stateless {
		req.Ask = x.question
	}
	return req
}

// hear passes on what the upstream says while it works on the request; nothing
// once that has been answered.
func (x *request) hear(method string, params []byte) {
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
		if !x.lease.Admits(level, params) {
			return
		}
	case "notifications/tasks/status", "notifications/tasks":
		x.s.tasks.noteStatus(x.lease, jsonrpc.Get(params, "taskId"), jsonrpc.Get(params, "status"))
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
	x.observeResult(answer, err)
	switch {
	case err != nil:
		x.failed(err)
	case answer.Error != nil:
		x.write(jsonrpc.AppendError(nil, x.msg.ID, revision.Error(answer.Error, x.msg.Method, x.stateless)))
	default:
		result := revision.Result(answer.Result, x.msg.Method, answer.Stateless, x.stateless)
		x.noteTask(answer)
		x.write(answer.Whole.Reframe(x.msg.ID, result))
		answer.Whole.Buffer.Release() // here and nowhere else: it has been written, and nobody keeps any of it
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
		err = fmt.Errorf("upstream %q: no answer within %v", x.lease.Name(), x.lease.member.Timeout)
	}
	var away *upstream.Unavailable
	if !errors.As(err, &away) && x.ctx.Err() == nil {
		err = fmt.Errorf("upstream %q: %w", x.lease.Name(), err)
	}
	level := slog.LevelWarn
	if x.ctx.Err() != nil {
		level = slog.LevelDebug // the client's own wish
	}
	x.s.srv.log.Log(x.ctx, level, "call not answered by its upstream", "upstream", x.lease.Name(), "method", x.msg.Method, "err", err)
	if x.msg.Method != "tools/call" {
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: err.Error()})
		return
	}
	x.finish(append(jsonrpc.AppendString([]byte(`{"content":[{"type":"text","text":`), err.Error()), `}],"isError":true}`...))
}
