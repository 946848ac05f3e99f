package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// route finds the one upstream a request is for and takes its turn there. It
// runs on the reader, so that requests leave in the order they came in.
func (x *request) route() *jsonrpc.Error {
	switch x.msg.Method {
	case "tools/call":
		return x.routeName(upstream.Tools)
	case "prompts/get":
		return x.routeName(upstream.Prompts)
	case "logging/setLevel":
		return x.setLevel()
	}
	x.arrive(x.s.current())
	switch x.msg.Method {
	case "resources/read", "resources/subscribe", "resources/unsubscribe", "tasks/get", "tasks/result", "tasks/cancel", "tasks/update":
		if lease := x.evident(); lease != nil {
			x.bind(lease)
		}
	}
	return nil // what is not known yet is found when served, for it may take asking
}

// routeName routes by params.name.
func (x *request) routeName(l upstream.List) *jsonrpc.Error {
	raw, err := routing(x.msg.Params, "name")
	if err != nil {
		return err
	}
	name, ok := jsonrpc.String(raw)
	if !ok {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.name: want a string"}
	}
	p := x.s.srv.policy.Load()
	if l == upstream.Tools && !x.step {
		if x.own = x.s.ownTool(p, name); x.own != nil {
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
	x.bind(lease)
	if l == upstream.Tools {
		x.tool = t.name
		x.enter()
	}
	x.one[0] = lease
	x.arrive(x.one[:])
	if l == upstream.Tools {
		x.sight()
	}
	return nil
}

// named finds what a tool or prompt of that name stands for; nil: nothing that the
// session may use.
func (s *session) named(p *policy, l upstream.List, name string) (target, *leased) {
	t, ok := s.identity.view.resolve(p, l, name)
	if !ok {
		t, ok = s.offered(l, name)
	}
	lease := s.find(t.upstream)
	if !ok || lease == nil || l == upstream.Tools && !lease.member.allows(t.name) {
		return target{}, nil
	}
	return t, lease
}

// routing reads the member that routes a request. One that is written twice,
// or once more in other letters, is refused: the server might read the other.
func routing(params []byte, member string) ([]byte, *jsonrpc.Error) {
	var value []byte
	for m := range jsonrpc.Members(params) {
		if !equalFold(m.Name, member) {
			continue
		}
		if value != nil || string(m.Name) != member {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params." + string(m.Name) + ": stands beside, or in place of, params." + member}
		}
		value = m.Value
	}
	if value == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params." + member + ": missing"}
	}
	return value, nil
}

// call carries the request to its upstream and the answer back.
func (x *request) call() {
	if x.resume(nil) {
		return
	}
	if x.lease == nil && !x.locate() {
		return
	}
	if x.part == nil && x.goesAcross() { // a plan outlives its steps
		x.askAcross()
		return
	}
	x.answer(x.ask())
}

// begin answers a request at once, or sends it, if nothing has to be waited for
// first, and says whether it did: whoever brings the answer then writes it.
func (x *request) begin() bool {
	if x.lease == nil || x.subscribes() || x.sighting.announce || x.stateless != x.lease.Stateless() || jsonrpc.Get(x.msg.Params, "requestState") != nil {
		return false
	}
	req := x.upstreamRequest()
	done := func(answer upstream.Answer, err error) {
		if err == nil && answer.Stateless != x.stateless { // another server has just taken its place
			go func() { // x.leave is waited for
				defer x.leave()
				x.answer(x.complete(req, answer))
			}()
			return
		}
		defer x.leave()
		x.answer(answer, err)
	}
	if !x.storable() {
		x.send(x.ctx, x.lease, x.turn, req, done)
		return true
	}
	if x.query.Use.File != "" {
		return false // the file may be slow to look at
	}
	x.obtain(x.ctx, x.turn, req, func(answer upstream.Answer, from source, err error) {
		x.entry.from = from
		done(answer, err)
	})
	return true
}

// ask sends the request and waits until its answer is complete. What stands in
// the way of that is the difference of eras: a server of the one asks its
// client by requests, of the other by a result.
func (x *request) ask() (upstream.Answer, error) {
	if x.watched() {
		return upstream.Answer{Result: []byte("{}")}, nil
	}
	req := x.upstreamRequest()
	fetch := x.fetch
	if x.goesAcross() {
		fetch = x.fetchAcross
	}
	o := fetch(x.ctx, x.turn, req)
	x.entry.from = o.from
	answer, err := x.watching(o.answer, o.err)
	if err != nil {
		return answer, err
	}
	return x.complete(req, answer)
}

// fetch answers the request from the store, from another call's flight, or by
// its upstream, and waits for the answer.
func (x *request) fetch(ctx context.Context, turn upstream.Turn, req *upstream.Request) outcome {
	if !x.storable() {
		answer, err := x.run(ctx, x.lease, turn, req)
		return outcome{answer: answer, err: err}
	}
	done := make(chan outcome, 1)
	x.obtain(ctx, turn, req, func(answer upstream.Answer, from source, err error) { done <- outcome{answer, from, err} })
	return <-done
}

// obtain answers a storable request from the store, from another call's flight,
// or by its upstream. It does not wait for any of them; done is called once.
func (x *request) obtain(ctx context.Context, turn upstream.Turn, req *upstream.Request, done func(upstream.Answer, source, error)) {
	var own outcome // of the flight that this call began, if it did
	leads := false
	alone := func() {
		x.send(ctx, x.lease, turn.Again(), req, func(answer upstream.Answer, err error) { done(answer, source{}, err) })
	}
	hear := func(method string, params []byte) {
		if leads || method == "notifications/progress" { // logs are for who made the call
			req.Notify(method, params)
		}
	}
	w := &dedup.Waiter{Notify: hear, Sent: turn.Leave, Done: func(o dedup.Outcome) {
		if o.Err != dedup.ErrJoinTimeout && !o.Alone {
			turn.Leave()
		}
		switch {
		case o.Err == dedup.ErrJoinTimeout:
			x.joinTimedOut()
			alone()
		case o.Err != nil:
			done(upstream.Answer{}, source{}, o.Err)
		case o.How == dedup.Fetched:
			x.s.srv.prefetcher.compared(x.lease, x.tool, o.Trial)
			done(x.noted(own.answer, o), source{}, own.err)
		case o.Alone:
			alone()
		default:
			answer, from := x.stored(o)
			done(answer, from, nil)
		}
	}}
	unsent := x.s.srv.store.Do(ctx, x.query, w, func(ctx context.Context, f *dedup.Flight) {
		leads = true
		turn.Hold() // its client may give up, and others wait for the flight
		lead := x.shared(req, f)
		settle := func(answer upstream.Answer, err error) {
			own = outcome{answer: answer, err: err}
			f.Worth(x.worth(x.lease))
			f.Settle(answer.Result, answer.Stateless, err == nil && shareable(answer))
		}
		if x.query.Use.File == "" {
			x.send(ctx, x.lease, turn, lead, settle)
			return
		}
		// The file may be slow to look at, which must not hold up the server's reader.
		x.s.srv.work.Go(func() { settle(x.run(ctx, x.lease, turn, lead)) })
	})
	if leads {
		return
	}
	if unsent {
		turn.Follow(x.hostOn(x.lease)) // until the prefetch that it waits for has been sent
	} else {
		turn.Leave() // nothing of it goes upstream
	}
	x.drop()
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
	x.token = revision.Token(x.msg.Params)
	req := &upstream.Request{
		Method: x.msg.Method, Params: x.traced(x.msg.Params), Target: x.name, Hop: x.hop,
		Notify: x.hear, Timeout: x.lease.member.Timeout,
		Token: x.token != nil || x.step && x.lease.member.Timeout > 0, // progress resets that, whoever hears of it
	}
	if !x.stateless {
		req.Ask = x.question
	}
	return req
}

// complete asks the client, and the server again, as long as its answer wants
// that.
func (x *request) complete(req *upstream.Request, answer upstream.Answer) (upstream.Answer, error) {
	if answer.Stateless && (!x.stateless || x.part != nil) && revision.InputRequired(answer.Result) {
		return x.fulfil(req, answer.Result)
	}
	return answer, nil
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
		x.s.sendNotification(x.to, method, params)
	}
}

// answer writes what came back.
func (x *request) answer(answer upstream.Answer, err error) {
	x.back.Store(true)
	x.weigh(answer, err)
	if x.sighting.announce && err == nil && deliver.Plain(answer.Result) {
		answer = x.accompanied(answer)
	}
	x.record(answer, err)
	x.sightEnd(answer, err, nil)
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

// question puts a server's question, asked while it works on this request, to
// the client on the request's own stream.
func (x *request) question(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
	return first(x.askClient(ctx, newQuestion(method, params)))
}
