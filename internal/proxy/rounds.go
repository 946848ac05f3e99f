package proxy

import (
	"context"
	"fmt"
	"sync/atomic"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// Servers of the handshake era send questions (sampling, elicitation, roots)
// as requests; stateless ones end the call with a result that asks, and the
// client makes the call again with the answers (multi round-trip requests).
// This file joins a client of the one kind with a server of the other.

// maxRounds bounds how often one call may come back for more input.
const maxRounds = 32

// interruptible reports whether the answer to method may be a result that asks
// for input.
func interruptible(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// fulfil puts the questions of a stateless server's result to the client and makes the
// call again with the answers, until the result is complete.
func fulfil(ctx context.Context, x *request, req *upstream.Request, result []byte) outcome {
	x.part.noteDoubt() // it may have begun before it asked
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
		if x.part == nil {
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

func askedTooOften(l *leased) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: fmt.Sprintf("upstream %q asked for input %d times", l.Name(), maxRounds)}
}

// responses are the client's answers to inputRequests, by the same keys; nil if nothing
// is asked.
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
	answers, err := x.s.ask(ctx, x.way(x.part.prefix()), questions...)
	if err != nil {
		return nil, err
	}
	out := []byte("{}")
	for i, answer := range answers {
		out = jsonrpc.Set(out, keys[i], answer)
	}
	return out, nil
}

// beginAcross begins a stateless client's call to a server of the handshake era, or one that its
// user has confirmed, as a work that the request may attend: it outlives that if the server has
// questions.
func beginAcross(x *request, req *upstream.Request) *work {
	call, began := x.call, x.ctx
	var ended outcome
	w := newWork(x,
		func(_ *request, done func(outcome)) { done(ended) },
		func(why error) { call.observeResult(began, outcome{err: why}) })
	req.Notify = func(method string, params []byte) {
		if at, _ := w.currentRequest(); at != nil {
			at.forward(call.lease, method, params)
		}
	}
	x.s.running.Add(1)
	x.fetchAcross(w.ctx, req, func(o outcome) {
		x.complete(w.ctx, req, o, func(o outcome) {
			defer x.s.running.Done()
			call.release()
			ended = o
			close(w.done)
		})
	})
	return w
}

// fetchAcross is fetch for a stateless client's call to a server of the handshake era,
// which may ask until the call has ended.
func (x *request) fetchAcross(ctx context.Context, req *upstream.Request, done func(outcome)) {
	call, end := context.WithCancel(context.WithoutCancel(ctx)) // without the cause: a server that learnt it might answer with it
	var asked atomic.Int32
	req.Ask = func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
		x.part.noteDoubt() // it may have begun before it asked
		ctx, withdraw := context.WithCancel(ctx)
		defer withdraw()
		defer context.AfterFunc(call, withdraw)()
		if x.part != nil && asked.Add(1) > maxRounds { // no user sees how often a call of a plan asks
			err := askedTooOften(x.call.lease)
			x.cancel(err)
			<-ctx.Done() // a server that learnt it first might answer the call
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

// resume takes up suspended work with the answers its client has fetched, and reports
// whether x was such a request.
func (x *request) resume(done func(outcome)) bool {
	own := x.call
	w, err := x.s.suspended.resume(x)
	switch {
	case err != nil:
		done(outcome{err: err})
	case w != nil:
		if own != nil { // in its place it goes on with the call that was suspended
			own.release()
		}
		w.serve(x, done)
	default:
		return false
	}
	return true
}
