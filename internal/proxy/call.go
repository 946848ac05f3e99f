package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// route finds the one upstream a request is for and takes its turn there. It
// runs on the reader, so that requests leave in the order they came in.
func (x *exchange) route() *jsonrpc.Error {
	switch x.msg.Method {
	case "tools/call":
		return x.routeName(upstream.Tools)
	case "prompts/get":
		return x.routeName(upstream.Prompts)
	case "logging/setLevel":
		return x.setLevel()
	}
	return nil // by URI, reference or task: found when served, for it may take asking
}

// routeName routes by params.name.
func (x *exchange) routeName(l upstream.List) *jsonrpc.Error {
	raw, err := routing(x.msg.Params, "name")
	if err != nil {
		return err
	}
	name, ok := jsonrpc.String(raw)
	if !ok {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.name: want a string"}
	}
	p := x.s.srv.policy.Load()
	t, ok := x.s.view.resolve(p, l, name)
	if !ok {
		t, ok = x.s.offered(l, name)
	}
	lease := x.s.find(t.upstream)
	if !ok || lease == nil || l == upstream.Tools && !lease.member.allows(t.name) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown %s %q", l.Capability()[:len(l.Capability())-1], name)}
	}
	if t.name != name {
		x.name = jsonrpc.AppendString(nil, t.name)
	}
	x.bind(lease)
	return nil
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
func (x *exchange) call() {
	if x.resume() {
		return
	}
	if x.lease == nil && !x.locate() {
		return
	}
	x.answer(x.ask())
}

// begin sends a request at once if nothing has to be waited for first, and says
// whether it did: the upstream's reader then writes the answer.
func (x *exchange) begin() bool {
	if x.lease == nil || x.stateless != x.lease.Stateless() || jsonrpc.Get(x.msg.Params, "requestState") != nil {
		return false
	}
	req := x.request()
	return x.lease.Begin(x.ctx, x.turn, req, func(answer upstream.Answer, err error) {
		if err == nil && answer.Stateless != x.stateless { // another server has just taken its place
			go func() { // x.leave is waited for
				defer x.leave()
				x.answer(x.complete(req, answer))
			}()
			return
		}
		defer x.leave()
		x.answer(answer, err)
	})
}

// ask sends the request and waits until its answer is complete. What stands in
// the way of that is the difference of eras: a server of the one asks its
// client by requests, of the other by a result.
func (x *exchange) ask() (upstream.Answer, error) {
	if x.watched() {
		return upstream.Answer{Result: []byte("{}")}, nil
	}
	req := x.request()
	if x.stateless && !x.lease.Stateless() && interruptible(x.msg.Method) {
		return x.askAcross(req)
	}
	answer, err := x.watching(x.lease.Call(x.ctx, x.turn, req))
	if err != nil {
		return answer, err
	}
	return x.complete(req, answer)
}

// request is what the upstream is asked.
func (x *exchange) request() *upstream.Request {
	req := &upstream.Request{
		Method: x.msg.Method, Params: x.msg.Params, Target: x.name, Hop: x.hop,
		Notify: x.hear, Timeout: x.lease.member.Timeout,
		Token: revision.Token(x.msg.Params) != nil,
	}
	if !x.stateless {
		req.Ask = x.question
	}
	return req
}

// complete asks the client, and the server again, as long as its answer wants
// that.
func (x *exchange) complete(req *upstream.Request, answer upstream.Answer) (upstream.Answer, error) {
	if answer.Stateless && !x.stateless && revision.InputRequired(answer.Result) {
		return x.fulfil(req, answer.Result)
	}
	return answer, nil
}

// hear passes on what the upstream says while it works on the request; nothing
// once that has been answered.
func (x *exchange) hear(method string, params []byte) {
	switch method {
	case "notifications/progress":
		token := revision.Token(x.msg.Params)
		if token == nil {
			return
		}
		params = jsonrpc.Set(params, "progressToken", token)
	case "notifications/message":
		if x.stateless && x.hop.LogLevel == "" {
			return
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.answered && x.ctx.Err() == nil {
		x.s.send(x.to, method, params)
	}
}

// answer writes what came back.
func (x *exchange) answer(answer upstream.Answer, err error) {
	switch {
	case err != nil:
		x.failed(err)
	case answer.Error != nil:
		x.send(jsonrpc.AppendError(nil, x.msg.ID, revision.Error(answer.Error, x.msg.Method, x.stateless)))
	default:
		result := revision.Result(answer.Result, x.msg.Method, answer.Stateless, x.stateless)
		x.noteTask(answer)
		x.send(answer.Whole.Reframe(x.msg.ID, result))
		answer.Whole.Buffer.Release() // here and nowhere else: it has been written, and nobody keeps any of it
	}
}

// failed turns an error of ours into what MCP has for it: a tool that could
// not be run is a result with isError, so that the model reads why; anything
// else is a JSON-RPC error.
func (x *exchange) failed(err error) {
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

// tasksKnown bounds how many tasks a session remembers the upstream of.
const tasksKnown = 4096

// noteTask remembers who runs a task that a request began, so that later
// questions about it find their way: the client asked for one, or, in the
// stateless era, the server made one of the call.
func (x *exchange) noteTask(answer upstream.Answer) {
	result := answer.Result
	switch {
	case jsonrpc.Get(x.msg.Params, "task") != nil:
		result = jsonrpc.Get(result, "task")
	case !answer.Stateless || x.msg.Method != "tools/call" || string(jsonrpc.Get(result, "resultType")) != `"task"`:
		return
	}
	if id, ok := jsonrpc.String(jsonrpc.Get(result, "taskId")); ok {
		x.s.mu.Lock()
		if len(x.s.tasks) >= tasksKnown {
			clear(x.s.tasks) // who runs a task can still be found by asking
		}
		x.s.tasks[id] = x.lease
		x.s.mu.Unlock()
	}
}

// question puts a server's question, asked while it works on this request, to
// the client on the request's own stream.
func (x *exchange) question(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
	return x.s.put(ctx, x.to, method, params)
}
