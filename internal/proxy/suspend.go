package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// work is a call or a plan that may need input from its client. With a stateless client
// it outlives the request that began it: the proxy answers the request with the questions
// and a handle for one use, and the work is suspended until the client repeats the
// request with its replies and the handle.
//
//	request ──► newWork ─► serve ──┬─► the work has ended: its result
//	  resume ────────────────▲     └─► input needed: suspend ─► questions and a handle
//	    ▲                                                            │
//	    └───────── repeated request with the handle ◄── client ◄─────┘
//
// A handle is valid while its work has no request. It becomes invalid when it is used,
// when it expires, when another request brings it, and when the session ends.
type work struct {
	questions   *questions // of the session
	first       *request   // each later request repeats it
	ctx         context.Context
	cancel      context.CancelCauseFunc
	inputNeeded chan struct{} // capacity 1: the client has to be asked
	done        chan struct{} // closed by end
	result      outcome       // set before done is closed

	// Guarded by questions.mu.
	request *request    // request to answer; nil while the client fetches replies
	expiry  *time.Timer // abandons the suspended work
	ended   bool        // no more questions may be asked
}

// Limits of suspended work.
const (
	suspendTimeout = 10 * time.Minute // until the client must repeat its request
	maxSuspended   = 32               // calls and plans of one session
)

// newWork returns a work for the request, which the caller ends with end.
func newWork(x *request) *work {
	w := &work{questions: &x.s.questions, first: x, request: x, inputNeeded: make(chan struct{}, 1), done: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancelCause(x.s.ctx)
	w.questions.mu.Lock()
	defer w.questions.mu.Unlock()
	x.work = w
	return w
}

// end ends the work with its result.
func (w *work) end(o outcome) {
	w.result = o
	close(w.done)
}

// currentRequest returns the request to answer, or nil if the work is suspended.
func (w *work) currentRequest() *request {
	w.questions.mu.Lock()
	defer w.questions.mu.Unlock()
	return w.request
}

// carrier returns the request that carries the notifications of x: the current one of its
// work, if it has any. It returns nil if the work is suspended.
func (c *questions) carrier(x *request) *request {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x.work == nil {
		return x
	}
	return x.work.request
}

// serve serves x, the current request, until the work needs input or ends. If it needs
// input, serve suspends the work and returns the questions, else it returns the result.
// If the client cancels x, the work is cancelled too.
func (w *work) serve(x *request) outcome {
	cancelled := x.ctx.Done()
	for {
		select {
		case <-w.done:
			w.cancel(nil)
			w.questions.release(w)
			return w.result
		case <-cancelled:
			w.cancel(context.Cause(x.ctx))
			cancelled = nil
		case <-w.inputNeeded:
			if x.ctx.Err() != nil {
				continue
			}
			questions, err := w.questions.suspend(w)
			if err != nil {
				w.cancel(err)
			}
			if questions != nil {
				return outcome{answer: ownAnswer(questions, true), inputRequired: true}
			}
		}
	}
}

// ofLocked returns the open questions that w asks.
func (c *questions) ofLocked(w *work) (all []*question) {
	for _, q := range c.open {
		if q.work == w {
			all = append(all, q)
		}
	}
	return all
}

// assignLocked assigns each question without work that belongs to no call to a work with
// a call to the same server and a current request, and notifies the works that have to
// ask something.
func (c *questions) assignLocked() {
	for _, q := range slices.Clone(c.open) {
		if q.work == nil && q.server != nil {
			for _, x := range c.callsToLocked(q.server) {
				if x.work.request != nil && !x.work.ended {
					q.work = x.work
				}
			}
			if q.work != nil && !c.capable(q) {
				c.answerLocked(q, reply{err: cannotBeAsked(q.method)})
				continue
			}
		}
		if q.work != nil && q.work.request != nil {
			select {
			case q.work.inputNeeded <- struct{}{}:
			default:
			}
		}
	}
}

// release ends the questions of a work that has ended. Those that belong to no call wait
// for another work.
func (c *questions) release(w *work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.ended = true
	for _, q := range c.ofLocked(w) {
		if q.server == nil {
			c.answerLocked(q, reply{err: errWithdrawn})
			continue
		}
		q.work = nil
	}
	c.assignLocked()
}

// suspend suspends w until the client's next request and returns the result that asks its
// open questions, or nil if there are none. The error says why it cannot be suspended.
func (c *questions) suspend(w *work) (result []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := c.ofLocked(w)
	switch {
	case len(open) == 0:
		return nil, nil
	case c.ended:
		return nil, front.ErrEnded
	case len(c.byHandle) >= maxSuspended:
		return nil, fmt.Errorf("%d calls and plans already wait for this client's answers", maxSuspended)
	}
	handle := rand.Text()
	c.byHandle[handle] = w
	w.request = nil
	w.expiry = time.AfterFunc(suspendTimeout, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.abandonLocked(handle, fmt.Errorf("the client did not answer within %v", suspendTimeout))
	})
	requests := []byte("{}")
	for _, q := range open {
		request := jsonrpc.Set(nil, "method", jsonrpc.AppendString(nil, q.method))
		if q.params != nil {
			request = jsonrpc.Set(request, "params", q.params)
		}
		requests = jsonrpc.Set(requests, q.key, request)
	}
	result = jsonrpc.Set([]byte(`{"resultType":"input_required"}`), "inputRequests", requests)
	return jsonrpc.Set(result, "requestState", jsonrpc.AppendString(nil, handle)), nil
}

// resume returns the suspended work for the handle in x, after passing the replies in x
// to the questions. It returns nil and no error if x has no handle, or one that may
// belong to a stateless server.
func (c *questions) resume(x *request) (*work, *jsonrpc.Error) {
	handle, ok := jsonrpc.String(x.handle())
	if !ok {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.byHandle[handle]
	switch {
	case w == nil && !x.callsOwnTool() && (x.call == nil || x.call.lease.Stateless()):
		return nil, nil
	case w == nil:
		return nil, invalidParams("params.requestState: unknown, or used before")
	case !repeats(x, w.first):
		c.abandonLocked(handle, errors.New("its handle was used with another request"))
		return nil, invalidParams("params.requestState: of another request")
	}
	delete(c.byHandle, handle)
	w.expiry.Stop()
	x.s.requests.bind(x, w.first.call)
	x.work, w.request = w, x
	replies := x.msg.Index.Get("inputResponses")
	for _, q := range c.ofLocked(w) {
		if result := jsonrpc.Get(replies, q.key); result != nil {
			c.answerLocked(q, reply{result: bytes.Clone(result)})
		}
	}
	c.assignLocked()
	return w, nil
}

// repeats reports whether x repeats y: the same tool, prompt or resource and, if that is
// one of the proxy's tools, equal arguments after canonicalization.
func repeats(x, y *request) bool {
	for _, member := range []string{"name", "uri"} {
		if !bytes.Equal(x.msg.Index.Get(member), y.msg.Index.Get(member)) {
			return false
		}
	}
	return x.msg.Method == y.msg.Method && (!x.callsOwnTool() || sameJSON(x.msg.Index.Get("arguments"), y.msg.Index.Get("arguments")))
}

// abandonLocked cancels the suspended work with the given handle, if any.
func (c *questions) abandonLocked(handle string, cause error) {
	w := c.byHandle[handle]
	if w == nil {
		return
	}
	delete(c.byHandle, handle)
	w.ended = true
	w.expiry.Stop()
	w.cancel(cause)
	for _, q := range c.ofLocked(w) {
		c.answerLocked(q, reply{err: &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: cause.Error()}})
	}
}

// endWork cancels all suspended work. No more work can be suspended.
func (c *questions) endWork(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for handle := range c.byHandle {
		c.abandonLocked(handle, cause)
	}
}

// anySuspended reports whether any work is suspended.
func (c *questions) anySuspended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byHandle) > 0
}

// enter registers the call of x as open until the returned function is called, which
// withdraws the call's questions.
func (c *questions) enter(x *request) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calling[x] = struct{}{}
	c.assignLocked()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calling, x)
		for _, q := range slices.Clone(c.open) {
			if q.request == x {
				c.answerLocked(q, reply{err: errWithdrawn})
			}
		}
	}
}

// callsTo returns the requests with an open call to l.
func (c *questions) callsTo(l *upstream.Lease) []*request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.callsToLocked(l)
}

func (c *questions) callsToLocked(l *upstream.Lease) (found []*request) {
	for x := range c.calling {
		if x.call.lease.Lease == l {
			found = append(found, x)
		}
	}
	return found
}

// Servers of the handshake era send questions (sampling, elicitation, roots) as requests.
// Stateless servers end the call with an input_required result, and the client repeats
// the call with the answers (multi round-trip requests). The functions below connect
// clients and servers of different eras.

// startCall makes the upstream request of the work's call, which ends the work.
func (w *work) startCall(req *upstream.Request) {
	x := w.first
	x.s.running.Add(1)
	x.fetchBridged(w.ctx, req, func(o outcome) {
		x.complete(w.ctx, req, o, func(o outcome) {
			defer x.s.running.Done()
			x.call.release()
			x.call.noteResult(o)
			x.call.observeResult(w.ctx, o)
			w.end(o)
		})
	})
}

// fetchBridged is fetch for a stateless client's call to a server of the handshake era,
// which may ask questions until the call has ended.
func (x *request) fetchBridged(ctx context.Context, req *upstream.Request, done func(outcome)) {
	req.Ask = x.askClient
	leave := x.s.questions.enter(x)
	if x.hop.LogLevel != "" {
		x.call.lease.SetLevel(x.hop.LogLevel)
	}
	x.call.fetch(ctx, req, func(o outcome) {
		leave()
		done(o)
	})
}

// maxRounds limits how often one call to a stateless server may ask for input.
const maxRounds = 32

// resolveInput asks the client the questions in a stateless server's result and repeats
// the call with the answers, until the result is complete.
func resolveInput(ctx context.Context, x *request, req *upstream.Request, result []byte) outcome {
	params := req.Index.Raw()
	if params == nil {
		params = []byte("{}")
	}
	for range maxRounds {
		var keys []string
		var questions []*question
		for m := range jsonrpc.Members(jsonrpc.Get(result, "inputRequests")) {
			method, _ := jsonrpc.String(jsonrpc.Get(m.Value, "method"))
			keys = append(keys, string(m.Name))
			questions = append(questions, x.newQuestion(method, jsonrpc.Get(m.Value, "params")))
		}
		next := *req
		next.Index, next.Params = nil, params
		if questions != nil {
			answers, err := x.s.questions.ask(ctx, questions...)
			if err != nil {
				return outcome{answer: upstream.Answer{Sent: true}, err: err} // the server may have had effects before it asked
			}
			responses := []byte("{}")
			for i, answer := range answers {
				responses = jsonrpc.Set(responses, keys[i], answer)
			}
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
	return outcome{answer: upstream.Answer{Sent: true}, err: &jsonrpc.Error{
		Code: jsonrpc.CodeInternal, Message: fmt.Sprintf("upstream %q asked for input %d times", x.call.lease.Name(), maxRounds),
	}}
}

// handle returns the raw handle of suspended work that x may resume, or of a stateless
// server; nil if x has none. A request that an earlier process may have received has no
// valid handle.
func (x *request) handle() []byte {
	if !x.stateless || x.msg.Repeated {
		return nil
	}
	return x.msg.Index.Get("requestState")
}
