package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/record"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// work serves a request of a stateless client that may have to be asked for input. The request
// that makes the call or runs the plan is the work's own, and outlives the client's: the proxy
// answers the client's request with the questions and a handle for one use, and the work is
// suspended until the client repeats its request with the replies and the handle.
//
//	client's request ─► routeWork ─► the work's request: route ─► … ─► its outcome
//	                        │                                              │
//	                        └─► serve ──┬─► the work has ended: its answer ◄─┘
//	        resume ────────────▲        └─► input needed: suspend ─► questions and a handle
//	          ▲                                                                 │
//	          └─────────── repeated request with the handle ◄── client ◄────────┘
//
// A handle is valid while its work has no request to answer. It becomes invalid when it is used,
// when it expires, when another request brings it, and when the session ends.
type work struct {
	request     *request       // the work's own; cancelled with the work
	repeated    *front.Message // the client's first message, which each later one repeats
	inputNeeded chan struct{}  // capacity 1: the client may have to be asked
	result      chan outcome   // capacity 1: the work has ended

	// Guarded by questions.mu.
	answering *request    // the client's request; nil while the work is suspended
	handle    string      // of the suspended work
	expiry    *time.Timer // abandons the suspended work
}

// Limits of suspended work.
const (
	suspendTimeout = 10 * time.Minute // until the client must repeat its request, or be reachable if its question was sent on a stream
	maxSuspended   = 1024             // calls and plans of one session
)

// suspendable reports whether a work serves the request: its client can be asked to repeat it.
func suspendable(x *request) bool {
	return x.msg.Stateless() && x.step == nil && slices.Contains([]string{"tools/call", "prompts/get", "resources/read"}, x.msg.Method)
}

// routeWork routes the request to the work that it resumes, or to a new one with a request that is
// routed in its place. It runs on the client's reader, as route does.
func (x *request) routeWork() error {
	c := &x.s.questions
	w, err := c.resume(x)
	switch {
	case err != nil:
		return err
	case w != nil:
		x.work, x.handler = w, w.serve
		return nil
	}
	w = &work{
		request: &request{s: x.s, msg: x.msg, client: x.client, view: x.view}, repeated: x.msg, answering: x,
		inputNeeded: make(chan struct{}, 1), result: make(chan outcome, 1),
	}
	own := w.request
	own.work = w
	own.ctx, own.cancel = context.WithCancelCause(x.s.ctx)
	err = own.route()
	if err == nil && handleOf(x.msg) != nil && !mayBeResumed(own) {
		if own.call != nil {
			own.call.release()
			x.s.requests.removeCall(own.call)
			if o := own.call.observed; o != nil && o.endSpan != nil {
				o.endSpan(&record.Event{Kind: record.Call, Upstream: own.call.lease.Name(), Disposition: record.Failed, Error: "refused"})
			}
		}
		err = invalidParams("params.requestState: unknown, or used before")
	}
	if err != nil {
		own.cancel(nil)
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.works[w] = struct{}{}
	x.work, x.handler = w, func(x *request) outcome {
		x.s.running.Go(w.run)
		return w.serve(x)
	}
	return nil
}

// mayBeResumed reports whether the request may reach a stateless server, which has handles of its own.
func mayBeResumed(x *request) bool {
	if x.call != nil {
		return x.call.lease.Stateless()
	}
	return x.msg.Method != "tools/call" // those are the proxy's own
}

// run serves the work's request, which ends the work.
func (w *work) run() {
	x := w.request
	o := x.respond()
	if o.err != nil {
		o = outcome{answer: x.failure(o)}
	}
	x.endCall()
	x.cancel(nil)
	w.result <- o
}

// carrier returns the client's request that carries the notifications of x, or nil if the work that
// x belongs to is suspended.
func (x *request) carrier() *request {
	if x.step != nil {
		x = x.step.run.request
	}
	if x.work == nil {
		return x
	}
	c := &x.s.questions
	c.mu.Lock()
	defer c.mu.Unlock()
	return x.work.answering
}

// serve serves x, the client's request, until the work needs input or ends. If it needs
// input, serve suspends the work and returns the questions, else it returns the result.
// If the client cancels x, the work is cancelled too.
func (w *work) serve(x *request) outcome {
	c, cancelled := &x.s.questions, x.ctx.Done()
	for {
		select {
		case o := <-w.result:
			x.view, x.call = w.request.view, w.request.call // for which the answer is counted
			c.release(w)
			return o
		case <-cancelled:
			w.request.cancel(context.Cause(x.ctx))
			cancelled = nil
		case <-w.inputNeeded:
			if x.ctx.Err() != nil || len(w.result) > 0 { // cancelled, or ended: there is nothing more to ask
				continue
			}
			questions, err := c.suspend(w)
			if err != nil {
				w.request.cancel(err)
			}
			if questions != nil {
				return outcome{answer: ownAnswer(questions, true), kind: suspended}
			}
		}
	}
}

// wake notifies the work that it may have something to ask.
func (w *work) wake() {
	select {
	case w.inputNeeded <- struct{}{}:
	default:
	}
}

// wakeLocked notifies all works of a question that any of them may ask.
func (c *questions) wakeLocked() {
	for w := range c.works {
		w.wake()
	}
}

// release ends the questions of a work that has ended. Those that belong to no call wait
// for another work.
func (c *questions) release(w *work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.works, w)
	for _, q := range c.assignedLocked(w) {
		if q.work = nil; !q.shared {
			c.answerLocked(q, reply{err: errWithdrawn})
		} else {
			c.wakeLocked()
		}
	}
}

// assignedLocked returns the open questions that only w asks.
func (c *questions) assignedLocked(w *work) (all []*question) {
	for _, q := range c.open {
		if q.work == w {
			all = append(all, q)
		}
	}
	return all
}

// suspend suspends w until the client's next request and returns the result that asks its
// open questions, or nil if there are none. The error says why it cannot be suspended.
func (c *questions) suspend(w *work) (result []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := c.assignLocked(w)
	switch {
	case len(open) == 0:
		return nil, nil
	case c.s.lifecycle.draining.Err() != nil:
		return nil, front.ErrEnded
	case len(c.suspendedLocked()) >= maxSuspended:
		return nil, fmt.Errorf("%d calls and plans already wait for a client's answers", maxSuspended)
	}
	w.answering, w.handle = nil, rand.Text()
	w.expiry = time.AfterFunc(suspendTimeout, func() {
		c.abandon(w, errors.New("the client did not answer within "+age.Text(suspendTimeout)))
	})
	return revision.InputResult(open, w.handle), nil
}

// assignLocked assigns to w the open questions that it can ask, and returns them.
func (c *questions) assignLocked(w *work) (open []revision.InputRequest) {
	for _, q := range slices.Clone(c.open) {
		if q.work != w && (q.work != nil || !q.shared || !slices.Contains(c.callingLocked(q.lease.Lease), w)) {
			continue // another work asks it
		}
		if q.work = w; c.capable(q) {
			open = append(open, q.InputRequest)
		} else {
			c.answerLocked(q, reply{err: cannotBeAsked(q.Method)})
		}
	}
	return open
}

// resume returns the suspended work for the handle in x, after passing the replies in x
// to the questions. It returns nil and no error if there is none.
func (c *questions) resume(x *request) (*work, error) {
	handle, ok := jsonrpc.String(handleOf(x.msg))
	if !ok {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var w *work
	for _, suspended := range c.suspendedLocked() {
		if suspended.handle == handle {
			w = suspended
		}
	}
	switch {
	case w == nil:
		return nil, nil
	case !repeats(x.msg, w.repeated):
		c.abandonLocked(w, errors.New("its handle was used with another request"))
		return nil, invalidParams("params.requestState: of another request")
	}
	w.expiry.Stop()
	w.answering = x
	replies := x.msg.Index.Get("inputResponses")
	for _, q := range c.assignedLocked(w) {
		if result := jsonrpc.Get(replies, q.Key); result != nil {
			c.answerLocked(q, reply{result: bytes.Clone(result)})
		}
	}
	w.wake() // the client may have left out a reply
	return w, nil
}

// repeats reports whether two messages make the same request: of the same tool, prompt or resource,
// with equal arguments after canonicalization.
func repeats(m, n *front.Message) bool {
	for _, member := range []string{"name", "uri"} {
		if !bytes.Equal(m.Index.Get(member), n.Index.Get(member)) {
			return false
		}
	}
	return m.Method == n.Method && sameJSON(m.Index.Get("arguments"), n.Index.Get("arguments"))
}

// suspendedLocked returns the works that wait for the client's next request.
func (c *questions) suspendedLocked() (all []*work) {
	for w := range c.works {
		if w.answering == nil {
			all = append(all, w)
		}
	}
	return all
}

// abandon cancels a work if it is still suspended.
func (c *questions) abandon(w *work, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandonLocked(w, cause)
}

// abandonLocked is abandon with c.mu held.
func (c *questions) abandonLocked(w *work, cause error) {
	if _, running := c.works[w]; !running || w.answering != nil {
		return
	}
	delete(c.works, w)
	w.expiry.Stop()
	w.request.cancel(cause)
	for _, q := range c.assignedLocked(w) {
		c.answerLocked(q, reply{err: &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: cause.Error()}})
	}
}

// endSuspended cancels all suspended works of a session that drains or has ended, in which
// no more works are suspended.
func (c *questions) endSuspended(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.suspendedLocked() {
		c.abandonLocked(w, cause)
	}
}

// anySuspended reports whether any work is suspended.
func (c *questions) anySuspended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.suspendedLocked()) > 0
}

// callingLocked returns the works with a call that l's server works on.
func (c *questions) callingLocked(l *upstream.Lease) (all []*work) {
	calls, _ := c.s.requests.callsAt(l)
	for _, call := range calls {
		if w := call.request.work; w != nil && !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return all
}

// maxRounds limits how often one call to a stateless server may ask for input.
const maxRounds = 32

// resolveInput asks the client the questions in a stateless server's result and repeats
// the call with the answers, until the result is complete.
func resolveInput(x *request, req *upstream.Request, result []byte) outcome {
	for range maxRounds {
		var responses []byte
		for _, q := range revision.InputRequests(result) {
			answer, err := x.askClient(x.ctx, x.call, q.Method, q.Params)
			if err != nil {
				return outcome{err: err}
			}
			responses = jsonrpc.Set(responses, q.Key, answer)
		}
		next := *req
		next.Index, next.Params, next.Fence = nil, revision.WithInput(req.Index.Raw(), result, responses), nil // the fence is of a write that has ended
		if x.step == nil {
			x.call.turn = x.call.lease.Turn()
		}
		x.call.registerWrite()
		o := waitFor(func(done func(outcome)) { x.call.send(x.ctx, x.call.pendingWrite.Swap(nil), &next, done) })
		if o.kind != inputRequired {
			return o
		}
		result = o.answer.Result
	}
	return outcome{err: &jsonrpc.Error{
		Code: jsonrpc.CodeInternal, Message: fmt.Sprintf("server %q asked for input %d times", x.call.lease.Name(), maxRounds),
	}}
}

// handleOf returns the raw handle of suspended work that a request may resume, or of a
// stateless server; nil if it has none. A request that an earlier process may have received
// has no valid handle.
func handleOf(m *front.Message) []byte {
	if !m.Stateless() || m.Replayed {
		return nil
	}
	return m.Index.Get("requestState")
}
