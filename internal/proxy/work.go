package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// work is a call or a plan that may need input from its client. With a stateless client it
// outlives the request that began it: it is suspended until the client repeats the request
// with its replies.
type work struct {
	owner       *suspended
	first       *request // each later request repeats it
	ctx         context.Context
	cancel      context.CancelCauseFunc
	inputNeeded chan struct{}            // capacity 1: the client has to be asked
	done        chan struct{}            // closed when the work has ended
	finish      func(x *request) outcome // called at the end: returns the answer to x
	abandoned   func(why error)          // called at the end instead of finish if there is no request
	result      outcome                  // of a call; set before done is closed

	// Guarded by owner.mu.
	request   *request             // request to answer; nil while the client fetches replies
	resumed   chan struct{}        // closed when the client resumes the work; nil unless suspended
	expiry    *time.Timer          // abandons the suspended work
	open      map[string]*question // key in inputRequests → unanswered question
	questions int                  // number of questions so far
}

// newWork returns a work for the request. The caller closes done when the work has ended.
func newWork(x *request, finish func(*request) outcome, abandoned func(error)) *work {
	w := &work{
		owner: &x.s.suspended, finish: finish, abandoned: abandoned, first: x, request: x,
		inputNeeded: make(chan struct{}, 1), done: make(chan struct{}), open: make(map[string]*question),
	}
	w.ctx, w.cancel = context.WithCancelCause(x.s.ctx)
	x.work = w
	return w
}

func (w *work) isPlan() bool { return w.first.callsOwnTool() }

// currentRequest returns the request to answer. If it is nil, the work is suspended, and
// resumed is closed when the client resumes it.
func (w *work) currentRequest() (x *request, resumed <-chan struct{}) {
	w.owner.mu.Lock()
	defer w.owner.mu.Unlock()
	return w.request, w.resumed
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
			w.close(nil)
			return w.finish(x)
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
	s := w.owner
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(w.open) == 0:
		return nil, nil
	case s.ended:
		return nil, front.ErrEnded
	case w.isPlan() && s.plansLocked() >= maxSuspendedPlans:
		return nil, fmt.Errorf("%d plans already wait for this client's answers", maxSuspendedPlans)
	}
	handle := rand.Text()
	s.byHandle[handle] = w
	w.request, w.resumed = nil, make(chan struct{})
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

// close releases the open questions of a work that has ended. Questions of its calls are
// withdrawn. Questions that belong to no call fail with why or, if why is nil, wait for other work.
func (w *work) close(why error) {
	w.owner.mu.Lock()
	defer w.owner.mu.Unlock()
	for _, q := range w.open {
		switch {
		case q.server == nil:
			q.reply <- reply{err: errQuestionWithdrawn}
		case why != nil:
			q.reply <- reply{err: &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: why.Error()}}
		default:
			q.work = nil
			w.owner.unassigned[q] = struct{}{}
		}
	}
	w.open = nil
	w.owner.assignLocked()
}

// addQuestionsLocked adds the questions of one call, or returns why they cannot be asked.
func (w *work) addQuestionsLocked(prefix string, questions []*question) *jsonrpc.Error {
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
		q.key, q.work = fmt.Sprintf("%s%d", prefix, w.questions), w
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

// repeats reports whether x repeats y: the same tool, prompt or resource and, if that is one of
// the proxy's tools, equal arguments after canonicalization.
func repeats(x, y *request) bool {
	for _, member := range []string{"name", "uri"} {
		if !bytes.Equal(x.msg.Index.Get(member), y.msg.Index.Get(member)) {
			return false
		}
	}
	return x.msg.Method == y.msg.Method && (!x.callsOwnTool() || bytes.Equal(canonicalArguments(&x.msg.Index), canonicalArguments(&y.msg.Index)))
}

func canonicalArguments(params *revision.Params) []byte {
	arguments := params.Get("arguments")
	if canonical, ok := jsonrpc.AppendCanonical(nil, arguments); ok {
		return canonical
	}
	return arguments
}
