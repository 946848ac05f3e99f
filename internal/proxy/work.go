package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// gatherFor is how long a question waits for other calls under way to end or to ask,
// too. Each of them may itself wait for the call that asks: for the answer of the same
// call, for its place at the host, or because a process does not say for which of its
// calls it asks.
const gatherFor = time.Second

// question is what a server wants to know from its client.
type question struct {
	method string
	params []byte
	reply  chan reply      // capacity 1
	first  *question       // of those that are asked together
	lease  *upstream.Lease // of one that belongs to no call: where it came from
	lent   *work           // of such a one: the work that asks it; nil: none yet
}

func newQuestion(method string, params []byte) *question {
	return &question{method: method, params: params, reply: make(chan reply, 1)}
}

// suspendable is what a work does: a call or a plan.
type suspendable interface {
	finish(x *request, done func(outcome)) // at the end: a call has done hear its outcome, a plan answers the request
	abandoned(why error)                   // called after the end, in place of finish, if there is no request
}

// work is a call or a plan that its client may have to be asked about. It outlives the
// request that began it if the client is stateless: it is suspended until the client
// has fetched the answers. A call is a work with one call under way, a plan one with
// any number.
type work struct {
	of     *suspended
	what   suspendable
	began  *request // the first request
	same   identity // of each later one
	ctx    context.Context
	cancel context.CancelCauseFunc
	asking chan struct{} // capacity 1: the client has to be asked
	done   chan struct{} // closed at the end

	// Guarded by of.mu.
	request   *request             // the request that is to be answered; nil: the client fetches answers
	back      chan struct{}        // closed when it is back with them
	running   int                  // calls under way
	open      map[string]*question // key in inputRequests → a question of one of them
	asked     int                  // questions so far
	gathering bool                 // further questions are waited for
}

func (w *work) isPlan() bool { return w.same.arguments != identity{}.arguments }

// first is the request that began the call which x answers, or goes on with.
func (x *request) first() *request {
	if x.work == nil || x.part != nil {
		return x
	}
	return x.work.began
}

// end is called once, when the work is done.
func (w *work) end() {
	w.cancel(nil)
	close(w.done)
}

// current is the request that the work is done for at this moment; nil: none, the client
// fetches answers.
func (w *work) current() *request {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	return w.request
}

// unattended is closed when the client is back; nil: it has a request open, which it
// could withdraw.
func (w *work) unattended() <-chan struct{} {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if w.request != nil {
		return nil
	}
	return w.back
}

// await waits, on behalf of the work's request, until the work has ended, or has to ask
// its client: then it is suspended, and the result that asks is returned. If the request
// ends, so does the work.
func (w *work) await(x *request) (asks []byte) {
	withdrawn := x.ctx.Done()
	for {
		select {
		case <-w.done:
			return nil
		case <-withdrawn:
			w.cancel(context.Cause(x.ctx))
			withdrawn = nil
		case <-w.asking:
			if x.ctx.Err() != nil {
				continue
			}
			asks, err := w.of.suspend(w)
			if asks != nil {
				return asks
			}
			if err != nil {
				w.cancel(err)
			}
		}
	}
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
	switch {
	case w.request == nil:
	case w.carriesAnyLocked(), len(w.open) > 0 && w.blockedLocked() >= w.running:
		w.askNow()
	case len(w.open) > 0 && !w.gathering:
		w.gathering = true
		time.AfterFunc(gatherFor, func() {
			w.of.mu.Lock()
			defer w.of.mu.Unlock()
			if w.gathering = false; len(w.open) > 0 && w.request != nil {
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

// blockedLocked is how many calls wait for the client.
func (w *work) blockedLocked() int {
	calls := make(map[*question]struct{})
	for _, q := range w.open {
		calls[q.first] = struct{}{}
	}
	return len(calls)
}

func (w *work) carriesAnyLocked() bool {
	for _, q := range w.of.stray {
		if w.of.carriesLocked(w, q) {
			return true
		}
	}
	return false
}

// canAnswer reports whether the client has said that it can.
func (w *work) canAnswer(q *question) bool { return capable(w.began.hop.Capabilities, q.method) }

// ask puts the questions of one call to the stateless client of the work, with the next
// answer that it gets, and waits for all the answers. Their keys begin with prefix.
func (w *work) ask(ctx context.Context, prefix string, questions []*question) ([][]byte, *jsonrpc.Error) {
	for _, q := range questions {
		if !w.canAnswer(q) {
			return nil, cannotBeAsked(q.method)
		}
	}
	keys := w.put(prefix, questions)
	defer w.withdraw(keys)
	answers := make([][]byte, len(questions))
	for i, q := range questions {
		select {
		case r := <-q.reply:
			if r.err != nil {
				return nil, r.err
			}
			answers[i] = r.result
		case <-ctx.Done():
			return nil, w.unanswered()
		case <-w.ctx.Done():
			return nil, w.unanswered()
		}
	}
	return answers, nil
}

// put opens questions, and returns their keys.
func (w *work) put(prefix string, questions []*question) (keys []string) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	for _, q := range questions {
		w.asked++
		key := fmt.Sprintf("%s%d", prefix, w.asked)
		q.first = questions[0]
		w.open[key] = q
		keys = append(keys, key)
	}
	w.askIfDueLocked()
	return keys
}

// withdraw closes those of the questions that have no answer.
func (w *work) withdraw(keys []string) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	for _, key := range keys {
		delete(w.open, key)
	}
}

// unanswered is why a question has no answer: the work was ended, or the server no longer
// wants one.
func (w *work) unanswered() *jsonrpc.Error {
	if why := context.Cause(w.ctx); why != nil && !errors.Is(why, context.Canceled) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: why.Error()}
	}
	return errQuestionWithdrawn
}

// hear passes what a server says to the request that the work is done for.
func (w *work) hear(method string, params []byte) {
	if x := w.current(); x != nil {
		x.hear(method, params)
	}
}
