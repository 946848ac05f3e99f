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

// work is a call or a plan that its client may have to be asked about. It outlives the
// request that began it if the client is stateless: it is suspended until the client
// has fetched the answers.
type work struct {
	owner       *suspended
	first       *request // the first request; each later one repeats it
	ctx         context.Context
	cancel      context.CancelCauseFunc
	inputNeeded chan struct{}                        // capacity 1: the client has to be asked
	done        chan struct{}                        // closed at the end
	finish      func(x *request, done func(outcome)) // called at the end: a call calls done with its outcome, a plan answers the request
	abandoned   func(why error)                      // called at the end in place of finish, if there is no request

	// Guarded by of.mu.
	request   *request             // the request that is to be answered; nil: the client fetches replies
	resumed   chan struct{}        // closed when it is back with them; nil: it is there
	expiry    *time.Timer          // abandons the work meanwhile
	open      map[string]*question // key in inputRequests → a question without an answer
	questions int                  // questions so far
}

// newWork makes a work of the request. It has ended when done is closed.
func newWork(x *request, finish func(*request, func(outcome)), abandoned func(error)) *work {
	w := &work{
		owner: &x.s.suspended, finish: finish, abandoned: abandoned, first: x, request: x,
		inputNeeded: make(chan struct{}, 1), done: make(chan struct{}), open: make(map[string]*question),
	}
	w.ctx, w.cancel = context.WithCancelCause(x.s.ctx)
	x.work = w
	return w
}

func (w *work) isPlan() bool { return w.first.callsOwnTool() }

// currentRequest is the request that the work is done for at this moment. If it is nil the
// client fetches replies, and back is closed when it is there again.
func (w *work) currentRequest() (x *request, back <-chan struct{}) {
	w.owner.mu.Lock()
	defer w.owner.mu.Unlock()
	return w.request, w.resumed
}

// serve serves x, the request that the work is done for, until the work has to ask its
// client or has ended. In the first case it suspends the work and calls done with the
// questions, in the second with the outcome. If x is withdrawn, so is the work.
func (w *work) serve(x *request, done func(outcome)) {
	withdrawn := x.ctx.Done()
	for {
		select {
		case <-w.done:
			w.cancel(nil)
			w.close(nil)
			w.finish(x, done)
			return
		case <-withdrawn:
			w.cancel(context.Cause(x.ctx))
			withdrawn = nil
		case <-w.inputNeeded:
			if x.ctx.Err() != nil {
				continue
			}
			asks, err := w.suspend()
			if err != nil {
				w.cancel(err)
			}
			if asks != nil {
				done(outcome{answer: ownAnswer(asks, true), inputRequired: true})
				return
			}
		}
	}
}

// suspend keeps the work for the client's next request, and returns the result that asks
// what is open. It is nil if nothing is; the error says why the work cannot be suspended.
func (w *work) suspend() (asks []byte, err error) {
	s := w.owner
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(w.open) == 0:
		return nil, nil
	case s.ended:
		return nil, front.ErrEnded
	case w.isPlan() && s.plansLocked() >= maxSuspendedPlans:
		return nil, fmt.Errorf("%d plans of this client wait for its answers already", maxSuspendedPlans)
	}
	handle := rand.Text()
	s.byHandle[handle] = w
	w.request, w.resumed = nil, make(chan struct{})
	w.expiry = time.AfterFunc(suspendedFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.abandonLocked(handle, fmt.Errorf("the client did not answer within %v", suspendedFor))
	})
	select {
	case <-w.inputNeeded: // all that is open is asked now
	default:
	}
	return inputRequired(handle, w.open), nil
}

// close releases the questions of a work that has ended. Those that belong to no call
// are told why they were not answered, or, if why is nil, wait for other work.
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
			w.owner.stray[q] = struct{}{}
		}
	}
	w.open = nil
	w.owner.placeLocked()
}

// addQuestionsLocked opens the questions of one call, or says why not.
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

// requestInputLocked has the client asked if there is something to ask and a request to answer.
func (w *work) requestInputLocked() {
	if w.request == nil || len(w.open) == 0 {
		return
	}
	select {
	case w.inputNeeded <- struct{}{}:
	default:
	}
}

// repeats reports whether x is y made again: for the same tool, prompt or resource, and,
// where that is a plan's, with the same arguments, however they are formatted.
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
