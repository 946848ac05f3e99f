package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// asked is a question to the client.
type asked struct {
	key    string // of whoever asks
	method string
	params []byte
}

// held is a question that goes to a stateless client with the next answer it gets.
type held struct {
	question
	by *holdup
}

// holdup is a call that waits for the client.
type holdup struct {
	open int // its questions without an answer
}

// gatherFor is how long a question waits for calls under way to end or to ask, too.
// Each may itself wait for who asks: for the answer of the same call, for its place
// at the host, or because a process does not say for which of its calls it asks.
const gatherFor = time.Second

// idle says how many calls are under way while the plan waits for one of them.
func (r *planRun) idle(running int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = running
	r.pressLocked()
}

// pressLocked has the client asked if nothing goes on without it, else in a while.
func (r *planRun) pressLocked() {
	switch {
	case len(r.open) == 0:
	case r.blocked >= r.running:
		r.turnLocked()
	case !r.gathering:
		r.gathering = true
		time.AfterFunc(gatherFor, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.gathering = false; len(r.open) > 0 {
				r.turnLocked()
			}
		})
	}
}

// turnLocked makes it the client's turn.
func (r *planRun) turnLocked() {
	select {
	case r.asking <- struct{}{}:
	default:
	}
}

// answerLocked hands on the client's answer to one question.
func (r *planRun) answerLocked(key string, result []byte) {
	q := r.open[key]
	q.reply <- reply{result: bytes.Clone(result)}
	r.closeLocked(key)
}

// closeLocked takes a question back, if it is open.
func (r *planRun) closeLocked(key string) {
	q := r.open[key]
	if q == nil {
		return
	}
	delete(r.open, key)
	if q.by.open--; q.by.open == 0 {
		r.blocked--
	}
}

// unattended is closed when the client of a plan is back with its answers; nil: it is
// there. Nothing is changed while nobody has a request open that could be withdrawn.
func (r *planRun) unattended() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.x != nil {
		return nil
	}
	return r.back
}

// ask puts questions to the client on behalf of one call and waits for all the
// answers, which it returns in their order.
func (r *planRun) ask(ctx context.Context, questions []asked) ([][]byte, *jsonrpc.Error) {
	if r.stateless {
		return r.askLater(ctx, questions)
	}
	answers := make([][]byte, len(questions))
	for i, q := range questions {
		answer, err := r.s.questions.ask(ctx, &stepOutlet{r: r}, q.method, q.params)
		if err != nil {
			return nil, err
		}
		answers[i] = answer
	}
	return answers, nil
}

// askLater is ask for a stateless client: the questions go with the answer to its
// request, once nothing is under way any more that could add to them, or in a while.
func (r *planRun) askLater(ctx context.Context, questions []asked) ([][]byte, *jsonrpc.Error) {
	for _, q := range questions {
		if !capable(r.hop.Capabilities, q.method) {
			return nil, cannotBeAsked(q.method)
		}
	}
	waiting, keys := make([]*held, len(questions)), make([]string, len(questions))
	by := &holdup{open: len(questions)}
	r.mu.Lock()
	for i, q := range questions {
		r.asked++
		keys[i] = fmt.Sprintf("%s.%d", q.key, r.asked)
		waiting[i] = &held{question{method: q.method, params: q.params, reply: make(chan reply, 1)}, by}
		r.open[keys[i]] = waiting[i]
	}
	r.blocked++
	r.pressLocked()
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, key := range keys {
			r.closeLocked(key)
		}
	}()
	answers := make([][]byte, len(questions))
	for i, q := range waiting {
		select {
		case a := <-q.reply:
			if a.err != nil {
				return nil, a.err
			}
			answers[i] = a.result
		case <-ctx.Done():
			return nil, errQuestionWithdrawn
		}
	}
	return answers, nil
}

// shelvePlan answers the request with the open questions and puts the plan away
// under a new single-use handle. It is false if there are none any more, or nobody
// who would answer them.
func (x *request) shelvePlan(r *planRun) bool {
	if x.ctx.Err() != nil {
		return false
	}
	handle := rand.Text()
	r.mu.Lock()
	if len(r.open) == 0 {
		r.mu.Unlock()
		return false
	}
	result := inputRequired(handle, r.questionsLocked())
	r.x, r.back = nil, make(chan struct{})
	r.mu.Unlock()
	if err := x.s.holdPlan(handle, r); err != nil {
		r.mu.Lock()
		r.x = x
		close(r.back)
		r.mu.Unlock()
		r.cancel(err)
		return false
	}
	x.write(jsonrpc.AppendResult(nil, x.msg.ID, result))
	return true
}

// questionsLocked are those that have no answer yet, by their keys.
func (r *planRun) questionsLocked() iter.Seq2[string, *question] {
	return func(yield func(string, *question) bool) {
		for key, q := range r.open {
			if !yield(key, &q.question) {
				return
			}
		}
	}
}

// mostSuspended is how many plans of a session may wait for their client.
const mostSuspended = 32

// digest tells arguments from others, however they are formatted.
func digest(arguments []byte) [sha256.Size]byte {
	if canonical, ok := jsonrpc.AppendCanonical(nil, arguments); ok {
		arguments = canonical
	}
	return sha256.Sum256(arguments)
}

// holdPlan keeps a plan for the client's next request, or says why it does not.
func (s *session) holdPlan(handle string, r *planRun) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || s.deaf():
		return errSessionEnded
	case len(s.plans) >= mostSuspended:
		return fmt.Errorf("%d plans of this client wait for its answers already", mostSuspended)
	}
	s.plans[handle] = r
	r.expiry = time.AfterFunc(parkedFor, func() {
		if s.takePlan(handle) != nil {
			r.forsake(fmt.Errorf("the client did not answer within %v", parkedFor))
		}
	})
	return nil
}

// forsake ends a plan whose client will not take it up again.
func (r *planRun) forsake(why error) {
	r.cancel(why)
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.s.closed {
		return
	}
	r.s.work.Go(func() {
		<-r.done
		if r.report != nil {
			structured, _ := r.answer()
			r.keepAnswer("which was cancelled", structured)
		}
	})
}

func (s *session) takePlan(handle string) *planRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.plans[handle]
	delete(s.plans, handle)
	if r != nil {
		r.expiry.Stop()
	}
	return r
}

// resumePlan takes up a plan with the answers its client has fetched, and reports
// whether the request was about one.
func (x *request) resumePlan(arguments []byte) bool {
	handle, ok := jsonrpc.String(jsonrpc.Get(x.msg.Params, "requestState"))
	if !ok || !x.stateless {
		return false
	}
	r := x.s.takePlan(handle)
	switch {
	case r == nil:
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.requestState: unknown, or used before"})
		return true
	case r.own.name != x.own.name || r.arguments != digest(arguments):
		r.forsake(errors.New("its handle came with another request"))
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.requestState: of another request"})
		return true
	}
	responses := jsonrpc.Get(x.msg.Params, "inputResponses")
	r.mu.Lock()
	x.token = revision.Token(x.msg.Params)
	r.x = x
	close(r.back)
	for key := range r.open {
		if result := jsonrpc.Get(responses, key); result != nil {
			r.answerLocked(key, result)
		}
	}
	r.pressLocked() // ask again for what is missing
	r.mu.Unlock()
	x.attend(r)
	return true
}
