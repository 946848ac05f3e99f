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
func fulfil(x *request, req *upstream.Request, result []byte) outcome {
	x.part.noteDoubt() // it may have begun before it asked
	params := req.Index.Raw()
	if params == nil {
		params = []byte("{}")
	}
	for range maxRounds {
		responses, err := responses(x, jsonrpc.Get(result, "inputRequests"))
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
		var turn upstream.Turn
		if x.part == nil {
			turn = x.call.lease.Turn()
		}
		x.call.arrive()
		o := waitFor(func(done func(outcome)) { x.call.send(x.ctx, turn, &next, done) })
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
func responses(x *request, inputRequests []byte) ([]byte, *jsonrpc.Error) {
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
	answers, err := x.s.ask(x.ctx, x.way(x.part.prefix()), questions...)
	if err != nil {
		return nil, err
	}
	out := []byte("{}")
	for i, answer := range answers {
		out = jsonrpc.Set(out, keys[i], answer)
	}
	return out, nil
}

// callAcross is a stateless client's call to a server of the handshake era. It outlives
// the request that began it if the server has questions.
type callAcross struct {
	call *upstreamCall
	ctx  context.Context // of the request that began it
	outcome
}

// beginAcross begins the call, as a work that the request may attend.
func beginAcross(x *request, req *upstream.Request) *work {
	c := &callAcross{call: x.call, ctx: x.ctx}
	w := newWork(x, c)
	req.Notify = func(method string, params []byte) {
		if at, _ := w.attended(); at != nil {
			at.hear(c.call.lease, method, params)
		}
	}
	x.s.work.Add(1)
	x.fetchAcross(w.ctx, req, func(o outcome) {
		defer x.s.work.Done()
		c.call.release()
		c.outcome = o
		close(w.done)
	})
	return w
}

func (c *callAcross) finish(_ *request, done func(outcome)) { done(c.outcome) }

func (c *callAcross) abandoned(why error) { c.call.recordAbandoned(c.ctx, why) }

// fetchAcross is fetch for a stateless client's call to a server of the handshake era,
// which may ask until the call has ended.
func (x *request) fetchAcross(ctx context.Context, req *upstream.Request, done func(outcome)) {
	call, end := context.WithCancel(context.WithoutCancel(ctx)) // a server that is told why is not to answer with it
	var rounds atomic.Int32
	req.Ask = func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
		x.part.noteDoubt() // it may have begun before it asked
		if x.part != nil && rounds.Add(1) > maxRounds {
			err := askedTooOften(x.call.lease)
			x.cancel(err) // no user sees what a plan calls
			select {      // a server that hears of it before that may answer the call
			case <-call.Done():
			case <-ctx.Done():
			}
			return nil, err
		}
		ctx, withdraw := context.WithCancel(ctx)
		defer withdraw()
		defer context.AfterFunc(call, withdraw)()
		return x.question(ctx, method, params)
	}
	leave := x.s.suspended.enter(&openCall{x.work, x.call.lease.Lease, x.hop.LogLevel})
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
		w.attend(x, done)
	default:
		return false
	}
	return true
}
