package proxy

import (
	"context"
	"fmt"
	"sync/atomic"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// Servers of the handshake era send questions (sampling, elicitation, roots) as requests.
// Stateless servers end the call with an input_required result, and the client repeats the
// call with the answers (multi round-trip requests). This file connects clients and servers
// of different eras.

// maxRounds limits how often one call may ask for input.
const maxRounds = 32

// interruptible reports whether the response to method may be an input_required result.
func interruptible(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// resolveInput asks the client the questions in a stateless server's result and repeats the
// call with the answers, until the result is complete.
func resolveInput(ctx context.Context, x *request, req *upstream.Request, result []byte) outcome {
	x.step.noteDoubt() // the server may have had effects before it asked
	params := req.Index.Raw()
	if params == nil {
		params = []byte("{}")
	}
	for range maxRounds {
		responses, err := responses(ctx, x, jsonrpc.Get(result, "inputRequests"))
		if err != nil {
			return outcome{err: err}
		}
		next := *req
		next.Index, next.Params = nil, params
		if responses != nil {
			next.Params = jsonrpc.Set(next.Params, "inputResponses", responses)
		}
		if state := jsonrpc.Get(result, "requestState"); state != nil {
			next.Params = jsonrpc.Set(next.Params, "requestState", state)
		}
		if x.step == nil {
			x.call.turn = x.call.lease.Turn()
		}
		x.call.register()
		o := waitFor(func(done func(outcome)) { x.call.send(ctx, &next, done) })
		if o.err != nil || o.answer.Error != nil || !revision.InputRequired(o.answer.Result) {
			return o
		}
		result = o.answer.Result
	}
	return outcome{err: askedTooOften(x.call.lease)}
}

func askedTooOften(l *sessionLease) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: fmt.Sprintf("upstream %q asked for input %d times", l.Name(), maxRounds)}
}

// responses asks the client the questions in inputRequests and returns its answers by the
// same keys; nil if there are no questions.
func responses(ctx context.Context, x *request, inputRequests []byte) ([]byte, *jsonrpc.Error) {
	var keys []string
	var questions []*question
	for m := range jsonrpc.Members(inputRequests) {
		method, _ := jsonrpc.String(jsonrpc.Get(m.Value, "method"))
		keys = append(keys, string(m.Name))
		questions = append(questions, newQuestion(method, jsonrpc.Get(m.Value, "params")))
	}
	if questions == nil {
		return nil, nil
	}
	answers, err := x.s.ask(ctx, x.asker(x.step.prefix()), questions...)
	if err != nil {
		return nil, err
	}
	out := []byte("{}")
	for i, answer := range answers {
		out = jsonrpc.Set(out, keys[i], answer)
	}
	return out, nil
}

// newCallWork returns the work that makes the call of x: a stateless client's call to a server
// of the handshake era, or a call that its user has to confirm. It outlives the request if the
// client has to be asked. It ends with endCall.
func newCallWork(x *request) *work {
	w := newWork(x, nil, func(cause error) {
		if x.call != nil {
			x.call.observeResult(x.ctx, outcome{err: cause})
		}
	})
	w.finish = func(*request) outcome { return w.result }
	return w
}

// endCall ends a work of newCallWork with the outcome of its call.
func (w *work) endCall(o outcome) {
	w.result = o
	close(w.done)
}

// startCall makes the upstream request of the work's call, which ends the work.
func (w *work) startCall(req *upstream.Request) {
	x := w.first
	req.Notify = func(method string, params []byte) {
		if current, _ := w.currentRequest(); current != nil {
			current.forward(x.call.lease, method, params)
		}
	}
	x.s.running.Add(1)
	x.fetchBridged(w.ctx, req, func(o outcome) {
		x.complete(w.ctx, req, o, func(o outcome) {
			defer x.s.running.Done()
			x.call.release()
			w.endCall(o)
		})
	})
}

// fetchBridged is fetch for a stateless client's call to a server of the handshake era, which
// may ask questions until the call has ended.
func (x *request) fetchBridged(ctx context.Context, req *upstream.Request, done func(outcome)) {
	call, end := context.WithCancel(context.WithoutCancel(ctx)) // without ctx's cancel cause, which the server might return as the call's error
	var asked atomic.Int32
	req.Ask = func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
		x.step.noteDoubt() // the server may have had effects before it asked
		ctx, withdraw := context.WithCancel(ctx)
		defer withdraw()
		defer context.AfterFunc(call, withdraw)()
		if x.step != nil && asked.Add(1) > maxRounds { // no user notices how often a plan's call asks
			err := askedTooOften(x.call.lease)
			x.cancel(err)
			<-ctx.Done() // otherwise the server could receive the error first and answer the call
			return nil, err
		}
		return x.askClient(ctx, method, params)
	}
	leave := x.s.suspended.enter(x)
	if x.hop.LogLevel != "" {
		x.call.lease.SetLevel(x.s.suspended.level(x.call.lease.Lease))
	}
	x.call.fetch(ctx, req, func(o outcome) {
		end()
		leave()
		done(o)
	})
}

// handle returns the raw handle of suspended work that x may resume, or of a stateless server;
// nil if x has none. A request that an earlier process may have received has no valid handle.
func (x *request) handle() []byte {
	if !x.stateless || x.msg.Repeated {
		return nil
	}
	return x.msg.Index.Get("requestState")
}

// resume serves suspended work if x has its handle. It returns false if x has no handle of the
// proxy.
func (x *request) resume() (o outcome, resumed bool) {
	own := x.call
	w, err := x.s.suspended.resume(x)
	switch {
	case err != nil:
		return outcome{err: err}, true
	case w == nil:
		return outcome{}, false
	case own != nil: // x continues the suspended call instead
		own.release()
	}
	return w.serve(x), true
}
