package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// work is a call or a plan that may need input from its client. With a stateless client it
// outlives the request that began it: it is suspended until the client repeats the request
// with its replies.
type work struct {
	set         *suspended
	first       *request // each later request repeats it
	ctx         context.Context
	cancel      context.CancelCauseFunc
	inputNeeded chan struct{} // capacity 1: the client has to be asked
	done        chan struct{} // closed by end
	result      outcome       // set before done is closed

	// Guarded by set.mu.
	request   *request             // request to answer; nil while the client fetches replies
	expiry    *time.Timer          // abandons the suspended work
	open      map[string]*question // key in inputRequests → unanswered question; nil when the work has ended
	questions int                  // number of questions so far
}

// newWork returns a work for the request, which the caller ends with end.
func newWork(x *request) *work {
	w := &work{
		set: &x.s.suspended, first: x, request: x,
		inputNeeded: make(chan struct{}, 1), done: make(chan struct{}), open: make(map[string]*question),
	}
	w.ctx, w.cancel = context.WithCancelCause(x.s.ctx)
	x.work = w
	return w
}

// end ends the work with its result.
func (w *work) end(o outcome) {
	w.result = o
	close(w.done)
}

// closeQuestions closes the open questions of a work that has ended. Those that belong to no
// call wait for other work.
func (w *work) closeQuestions() {
	w.set.mu.Lock()
	defer w.set.mu.Unlock()
	for _, q := range w.open {
		if q.server != nil {
			w.set.unassigned[q] = struct{}{}
		}
	}
	w.open = nil
	w.set.assignLocked()
}

// currentRequest returns the request to answer, or nil if the work is suspended.
func (w *work) currentRequest() *request {
	w.set.mu.Lock()
	defer w.set.mu.Unlock()
	return w.request
}

// serve serves x, the current request, until the work needs input or ends. If it needs input,
// serve suspends the work and returns the questions, else it returns the result. If the client
// cancels x, the work is cancelled too.
func (w *work) serve(x *request) outcome {
	cancelled := x.ctx.Done()
	for {
		select {
		case <-w.done:
			w.cancel(nil)
			w.closeQuestions()
			return w.result
		case <-cancelled:
			w.cancel(context.Cause(x.ctx))
			cancelled = nil
		case <-w.inputNeeded:
			if x.ctx.Err() != nil {
				continue
			}
			questions, err := w.suspend()
			if err != nil {
				w.cancel(err)
			}
			if questions != nil {
				return outcome{answer: ownAnswer(questions, true), inputRequired: true}
			}
		}
	}
}

// suspend suspends the work until the client's next request and returns the result that asks
// the open questions, or nil if there are none. The error says why it cannot be suspended.
func (w *work) suspend() (questions []byte, err error) {
	s := w.set
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(w.open) == 0:
		return nil, nil
	case s.ended:
		return nil, front.ErrEnded
	case len(s.byHandle) >= maxSuspended:
		return nil, fmt.Errorf("%d calls and plans already wait for this client's answers", maxSuspended)
	}
	handle := rand.Text()
	s.byHandle[handle] = w
	w.request = nil
	w.expiry = time.AfterFunc(suspendTimeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.abandonLocked(handle, fmt.Errorf("the client did not answer within %v", suspendTimeout))
	})
	select {
	case <-w.inputNeeded: // the result asks all open questions
	default:
	}
	return inputRequired(handle, w.open), nil
}

// addQuestionsLocked adds the questions of one call, or returns why they cannot be asked.
func (w *work) addQuestionsLocked(questions ...*question) *jsonrpc.Error {
	if w.open == nil {
		return errQuestionWithdrawn // the work has ended
	}
	for _, q := range questions {
		if !capable(w.first.hop.Capabilities, q.method) {
			return cannotBeAsked(q.method)
		}
	}
	for _, q := range questions {
		w.questions++
		q.key, q.work = "q"+strconv.Itoa(w.questions), w
		w.open[q.key] = q
	}
	w.requestInputLocked()
	return nil
}

// requestInputLocked signals inputNeeded if there is a question to ask and a request to answer.
func (w *work) requestInputLocked() {
	if w.request == nil || len(w.open) == 0 {
		return
	}
	select {
	case w.inputNeeded <- struct{}{}:
	default:
	}
}

// inputRequired returns the result that asks the client the open questions, by key. The client
// returns the handle with its replies.
func inputRequired(handle string, open map[string]*question) []byte {
	requests := []byte("{}")
	for key, q := range open {
		request := jsonrpc.Set(nil, "method", jsonrpc.AppendString(nil, q.method))
		if q.params != nil {
			request = jsonrpc.Set(request, "params", q.params)
		}
		requests = jsonrpc.Set(requests, key, request)
	}
	out := jsonrpc.Set([]byte(`{"resultType":"input_required"}`), "inputRequests", requests)
	return jsonrpc.Set(out, "requestState", jsonrpc.AppendString(nil, handle))
}

// Limits of suspended work.
const (
	suspendTimeout = 10 * time.Minute // until the client must repeat its request
	maxSuspended   = 32               // calls and plans of one session
)

// suspended holds the calls and plans of one session that wait for input from a stateless
// client. The proxy answers the client's request with the questions and a handle for one
// use, and the call or plan continues. The client repeats its request with the replies and
// the handle, which resumes the work.
//
//	request ──► newWork ─► serve ──┬─► the work has ended: its result
//	  resume ────────────────▲     └─► input needed: suspend ─► questions and a handle
//	    ▲                                                            │
//	    └───────── repeated request with the handle ◄── client ◄─────┘
//
// A handle is valid while its work has no request. It becomes invalid when it is used, when
// it expires, when another request brings it, and when the session ends.
type suspended struct {
	mu         sync.Mutex
	ended      bool                   // no more work may be suspended
	byHandle   map[string]*work       // handle → suspended work
	calling    map[*request]struct{}  // requests with an open call to a server of the handshake era, which may ask questions; the requests may be answered already
	unassigned map[*question]struct{} // questions that belong to no call and are not assigned to work
}

// resume returns the suspended work for the handle in x, after passing the replies in x to
// the questions. It returns nil and no error if x has no handle, or one that may belong to a
// stateless server.
func (s *suspended) resume(x *request) (*work, *jsonrpc.Error) {
	handle, ok := jsonrpc.String(x.handle())
	if !ok {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.byHandle[handle]
	switch {
	case w == nil && !x.callsOwnTool() && (x.call == nil || x.call.lease.Stateless()):
		return nil, nil
	case w == nil:
		return nil, invalidParams("params.requestState: unknown, or used before")
	case !repeats(x, w.first):
		s.abandonLocked(handle, errors.New("its handle was used with another request"))
		return nil, invalidParams("params.requestState: of another request")
	}
	delete(s.byHandle, handle)
	w.expiry.Stop()
	x.s.requests.bind(x, w.first.call)
	x.work, w.request = w, x
	replies := x.msg.Index.Get("inputResponses")
	for key, q := range w.open {
		if result := jsonrpc.Get(replies, key); result != nil {
			q.reply <- reply{result: bytes.Clone(result)}
			delete(w.open, key)
		}
	}
	w.requestInputLocked() // for questions without a reply
	s.assignLocked()
	return w, nil
}

// repeats reports whether x repeats y: the same tool, prompt or resource and, if that is one of
// the proxy's tools, equal arguments after canonicalization.
func repeats(x, y *request) bool {
	for _, member := range []string{"name", "uri"} {
		if !bytes.Equal(x.msg.Index.Get(member), y.msg.Index.Get(member)) {
			return false
		}
	}
	return x.msg.Method == y.msg.Method && (!x.callsOwnTool() || sameJSON(x.msg.Index.Get("arguments"), y.msg.Index.Get("arguments")))
}

// abandonLocked cancels the suspended work with the given handle, if any.
func (s *suspended) abandonLocked(handle string, cause error) {
	if w := s.byHandle[handle]; w != nil {
		delete(s.byHandle, handle)
		w.expiry.Stop()
		w.cancel(cause)
		for _, q := range w.open {
			q.reply <- reply{err: &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: cause.Error()}}
		}
		w.open = nil
	}
}

// end cancels all suspended work. No more work can be suspended.
func (s *suspended) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for handle := range s.byHandle {
		s.abandonLocked(handle, cause)
	}
}

// any reports whether any work is suspended.
func (s *suspended) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byHandle) > 0
}

// enter registers the call of x as open until the returned function is called.
func (s *suspended) enter(x *request) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calling[x] = struct{}{}
	s.assignLocked()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calling, x)
	}
}

// callsTo returns the requests with an open call to l.
func (s *suspended) callsTo(l *upstream.Lease) []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callsToLocked(l)
}

func (s *suspended) callsToLocked(l *upstream.Lease) (found []*request) {
	for x := range s.calling {
		if x.call.lease.Lease == l {
			found = append(found, x)
		}
	}
	return found
}

// assignLocked assigns each unassigned question to work that has an open call to the same server
// and a current request.
func (s *suspended) assignLocked() {
	for q := range s.unassigned {
		for _, x := range s.callsToLocked(q.server) {
			if x.work.request == nil {
				continue
			}
			delete(s.unassigned, q)
			if err := x.work.addQuestionsLocked(q); err != nil {
				q.reply <- reply{err: err}
			}
			break
		}
	}
}

// Servers of the handshake era send questions (sampling, elicitation, roots) as requests.
// Stateless servers end the call with an input_required result, and the client repeats the
// call with the answers (multi round-trip requests). The functions below connect clients and
// servers of different eras.

// startCall makes the upstream request of the work's call, which ends the work.
func (w *work) startCall(req *upstream.Request) {
	x := w.first
	req.Notify = func(method string, params []byte) {
		if current := w.currentRequest(); current != nil {
			current.forward(x.call.lease, method, params)
		}
	}
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

// fetchBridged is fetch for a stateless client's call to a server of the handshake era, which
// may ask questions until the call has ended.
func (x *request) fetchBridged(ctx context.Context, req *upstream.Request, done func(outcome)) {
	call, end := context.WithCancel(context.WithoutCancel(ctx)) // without ctx's cancel cause, which the server might return as the call's error
	req.Ask = func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
		ctx, withdraw := context.WithCancel(ctx)
		defer withdraw()
		defer context.AfterFunc(call, withdraw)()
		return x.askClient(ctx, method, params)
	}
	leave := x.s.suspended.enter(x)
	if x.hop.LogLevel != "" {
		x.call.lease.SetLevel(x.hop.LogLevel)
	}
	x.call.fetch(ctx, req, func(o outcome) {
		end()
		leave()
		done(o)
	})
}

// maxRounds limits how often one call to a stateless server may ask for input.
const maxRounds = 32

// resolveInput asks the client the questions in a stateless server's result and repeats the
// call with the answers, until the result is complete.
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
			questions = append(questions, newQuestion(method, jsonrpc.Get(m.Value, "params")))
		}
		next := *req
		next.Index, next.Params = nil, params
		if questions != nil {
			answers, err := x.s.ask(ctx, x.asker(), questions...)
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
