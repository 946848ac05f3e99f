package proxy

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// gatherFor is how long a question waits for other calls under way to end or to ask,
// too. Each of them may itself wait for the call that asks: for the answer of the same
// call, for its place at the host, or because a process does not say for which of its
// calls it asks.
const gatherFor = time.Second

// work is a call or a plan that its client may have to be asked about. It outlives the
// request that began it if the client is stateless: it is suspended until the client
// has fetched the answers. A call is a work with one call under way, a plan one with
// any number.
type work struct {
	of        *suspended
	began     *request // the first request; each later one repeats it
	ctx       context.Context
	cancel    context.CancelCauseFunc
	asking    chan struct{}                        // capacity 1: the client has to be asked
	done      chan struct{}                        // closed at the end
	finish    func(x *request, done func(outcome)) // called at the end: a call calls done with its outcome, a plan answers the request
	abandoned func(why error)                      // called at the end in place of finish, if there is no request

	// Guarded by of.mu.
	request   *request             // the request that is to be answered; nil: the client fetches replies
	back      chan struct{}        // closed when it is back with them; nil: it is there
	expiry    *time.Timer          // abandons the work meanwhile
	running   int                  // calls under way
	open      map[string]*question // key in inputRequests → a question without an answer
	asked     int                  // questions so far
	gathering bool                 // further questions are waited for
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

// newWork makes a work of the request. It has ended when done is closed.
func newWork(x *request, finish func(*request, func(outcome)), abandoned func(error)) *work {
	w := &work{
		of: &x.s.suspended, finish: finish, abandoned: abandoned, began: x, request: x, running: 1,
		asking: make(chan struct{}, 1), done: make(chan struct{}), open: make(map[string]*question),
	}
	w.ctx, w.cancel = context.WithCancelCause(x.s.ctx)
	x.work = w
	return w
}

func (w *work) isPlan() bool { return w.began.callsOwnTool() }

// attended is the request that the work is done for at this moment. If it is nil the
// client fetches replies, and back is closed when it is there again.
func (w *work) attended() (x *request, back <-chan struct{}) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	return w.request, w.back
}

// attend serves x, the request that the work is done for, until the work has to ask its
// client or has ended. In the first case it suspends the work and calls done with the
// questions, in the second with the outcome. If x is withdrawn, so is the work.
func (w *work) attend(x *request, done func(outcome)) {
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
		case <-w.asking:
			if x.ctx.Err() != nil {
				continue
			}
			asks, err := w.of.suspend(w)
			if err != nil {
				w.cancel(err)
			}
			if asks != nil {
				done(outcome{answer: upstream.Answer{Result: asks, Stateless: true}, asks: true})
				return
			}
		}
	}
}

// close releases the questions of a work that has ended. Those that belong to no call
// are told why they were not answered, or, if why is nil, wait for other work.
func (w *work) close(why error) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	for _, q := range w.open {
		switch {
		case q.server == nil:
			q.reply <- reply{err: errQuestionWithdrawn}
		case why != nil:
			q.reply <- reply{err: &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: why.Error()}}
		default:
			q.work = nil
			w.of.stray[q] = struct{}{}
		}
	}
	w.open = nil
	w.of.placeLocked()
}

// returnLocked gives the work its next request, and the servers the replies that it
// brings. What is missing is asked again.
func (w *work) returnLocked(x *request) {
	x.s.requests.bind(x, w.began.call)
	x.work, w.request = w, x
	close(w.back)
	w.back = nil
	replies := x.msg.Index.Get("inputResponses")
	for key, q := range w.open {
		if result := jsonrpc.Get(replies, key); result != nil {
			q.reply <- reply{result: bytes.Clone(result)}
			delete(w.open, key)
		}
	}
	w.askIfDueLocked()
}

// takeLocked opens the questions of one call, or says why not.
func (w *work) takeLocked(prefix string, questions []*question) *jsonrpc.Error {
	if w.open == nil {
		return errQuestionWithdrawn // the work has ended
	}
	for _, q := range questions {
		if !capable(w.began.hop.Capabilities, q.method) {
			return cannotBeAsked(q.method)
		}
	}
	for _, q := range questions {
		w.asked++
		q.key, q.work, q.first = fmt.Sprintf("%s%d", prefix, w.asked), w, questions[0]
		w.open[q.key] = q
	}
	w.askIfDueLocked()
	return nil
}

// runs says how many calls of the work are under way.
func (w *work) runs(calls int) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.running = calls
	w.askIfDueLocked()
}

// askIfDueLocked has the client asked, if there is something to ask and a request to
// answer: at once if nothing goes on without it, else when others have had time to ask,
// too.
func (w *work) askIfDueLocked() {
	blocked := make(map[*question]struct{}) // one of each call that waits
	for _, q := range w.open {
		blocked[q.first] = struct{}{}
	}
	switch {
	case w.request == nil || len(w.open) == 0:
	case len(blocked) >= w.running:
		w.askNow()
	case !w.gathering:
		w.gathering = true
		time.AfterFunc(gatherFor, func() {
			w.of.mu.Lock()
			defer w.of.mu.Unlock()
			if w.gathering = false; w.request != nil && len(w.open) > 0 {
				w.askNow()
			}
		})
	}
}

func (w *work) askNow() {
	select {
	case w.asking <- struct{}{}:
	default:
	}
}
