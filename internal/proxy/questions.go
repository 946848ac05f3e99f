package proxy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// question is what a server wants to know from its client.
type question struct {
	method string
	params []byte
	reply  chan reply      // capacity 1
	key    string          // its id, or its key in inputRequests; "": it was not asked yet
	server *upstream.Lease // of a question that belongs to no call: where it comes from
	work   *work           // that asks it; nil: none does
}

// reply is the client's answer to a question, or why there is none.
type reply struct {
	result []byte
	err    *jsonrpc.Error
}

func newQuestion(method string, params []byte) *question {
	return &question{method: method, params: params, reply: make(chan reply, 1)}
}

// way is one of the ways in which questions reach a client: by requests (byRequest),
// where it is of the handshake era, or with the answer to its own request (byAnswer).
type way interface {
	// put asks the questions, which then get their replies, or says why it does not.
	put(ctx context.Context, questions []*question) *jsonrpc.Error
	// withdraw takes back those of the questions that have no answer.
	withdraw(questions []*question)
}

// ask puts questions to a client and waits for all the answers, which it returns in
// their order.
func (s *session) ask(ctx context.Context, by way, questions ...*question) ([][]byte, *jsonrpc.Error) {
	defer by.withdraw(questions)
	if err := by.put(ctx, questions); err != nil {
		return nil, err
	}
	answers := make([][]byte, len(questions))
	for i, q := range questions {
		select {
		case r := <-q.reply:
			if r.err != nil {
				return nil, r.err
			}
			answers[i] = r.result
		case <-ctx.Done():
			return nil, errQuestionWithdrawn
		case <-s.ctx.Done():
			return nil, errClientGone
		}
	}
	return answers, nil
}

// askOne puts one question to a client and returns the answer.
func (s *session) askOne(ctx context.Context, by way, q *question) ([]byte, *jsonrpc.Error) {
	answers, err := s.ask(ctx, by, q)
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

// way is the one to the client of the request. The keys of questions that go with an
// answer begin with prefix.
func (x *request) way(prefix string) way {
	if x.stateless {
		return byAnswer{&x.s.suspended, x.work, prefix}
	}
	return byRequest{&x.s.questions, x.out}
}

// askClient puts a server's question, asked while it works on this request, to its client.
func (x *request) askClient(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
	return x.s.askOne(ctx, x.way(x.part.prefix()), newQuestion(method, params))
}

// askerFor finds out, when a question of an upstream comes that its transport does not tie to
// a request, what may ask it. A client of the handshake era is asked on the stream of the only
// request open there, else on its own; a stateless one with the next answer that it gets from
// that upstream. Of several clients that share a session, one is asked if all the calls there
// are its own, as none may see another's question.
func (s *session) askerFor(l *leased) func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) {
	only := s.suspended.only(l.Lease) // later it may be another client's
	return func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
		if s.isPrefetchQuestion(l, method) {
			return nil, cannotBeAsked("a prefetch")
		}
		q := newQuestion(method, params)
		if s.client.facts().handshake() {
			on := byRequest{&s.questions, nil}
			if x := s.requests.only(l); x != nil {
				on.to = x.out
			}
			return s.askOne(ctx, on, q)
		}
		if !s.identity.Pool {
			q.server = l.Lease
		} else if only == nil {
			return nil, cannotBeAsked(method)
		}
		return s.askOne(ctx, byAnswer{&s.suspended, only, l.Name() + "."}, q)
	}
}

// capable reports whether a client with such capabilities can be asked by that method.
func capable(capabilities []byte, method string) bool {
	needed := map[string]string{"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}[method]
	return needed == "" || jsonrpc.Get(capabilities, needed) != nil
}

var (
	errQuestionWithdrawn = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "withdrawn"}
	errClientGone        = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: front.ErrEnded.Error()}
)

func cannotBeAsked(what string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the client cannot be asked: " + what}
}

// clientQuestions are the requests that the proxy makes of one client of the handshake
// era, on behalf of servers. It owns their ids.
type clientQuestions struct {
	s         *session
	ready     chan struct{} // closed once the client takes requests and notifications
	readyOnce sync.Once

	mu    sync.Mutex
	asked int                  // so far
	open  map[string]*question // raw id → the question without an answer
}

// setReady notes that the client takes requests and notifications from now on.
func (c *clientQuestions) setReady() { c.readyOnce.Do(func() { close(c.ready) }) }

// isReady reports whether the client takes requests and notifications.
func (c *clientQuestions) isReady() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

// byRequest asks a client of the handshake era on the stream of one of its requests, or,
// where to is nil, on the session's own.
type byRequest struct {
	*clientQuestions
	to front.Outlet
}

// put makes a request of each question, once the client takes requests.
func (c byRequest) put(ctx context.Context, questions []*question) *jsonrpc.Error {
	select {
	case <-c.ready:
	case <-ctx.Done():
		return errQuestionWithdrawn
	case <-c.s.ctx.Done():
		return errClientGone
	}
	for _, q := range questions {
		if !capable(c.s.client.facts().Capabilities, q.method) {
			return cannotBeAsked(q.method)
		}
		c.note(q)
		if err := c.send(jsonrpc.AppendRequest(nil, []byte(q.key), q.method, q.params)); err != nil {
			c.forget(q.key)
			return err
		}
	}
	return nil
}

// withdraw cancels those of the questions that are still open at the client.
func (c byRequest) withdraw(questions []*question) {
	for _, q := range questions {
		if c.forget(q.key) == nil || c.s.ctx.Err() != nil {
			continue // it has been answered, or was never asked; or there is no client
		}
		params := []byte(`{"requestId":` + q.key + `}`)
		if err := c.send(jsonrpc.AppendNotification(nil, "notifications/cancelled", params)); err != nil {
			c.s.srv.log.Debug("cancellation not delivered", "method", q.method, "err", err)
		}
	}
}

// send writes a message to the stream, or to the session's own where the stream has just
// ended with the answer to its request.
func (c byRequest) send(message []byte) *jsonrpc.Error {
	why := "it has no stream open"
	for _, to := range []front.Outlet{c.to, c.s.identity.Out} {
		if to == nil {
			continue
		}
		err := to.Send(message)
		if err == nil {
			return nil
		}
		why = err.Error()
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the client cannot be reached: " + why}
}

// note opens a question under a new id, which no other process gives: a client may still answer
// what one before this has asked it.
func (c *clientQuestions) note(q *question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	q.key = `"mcpschedd-` + c.s.observed.Name + "-" + strconv.Itoa(c.asked) + `"`
	c.open[q.key] = q
}

// forget closes the question with that raw id; nil: none is open.
func (c *clientQuestions) forget(id string) *question {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.open[id]
	delete(c.open, id)
	return q
}

// awaits reports whether an answer with that raw id is wanted.
func (c *clientQuestions) awaits(id []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[string(id)] != nil
}

// answered takes the client's answer to a question.
func (c *clientQuestions) answered(m jsonrpc.Message) {
	q := c.forget(string(m.ID))
	switch {
	case q == nil || m.Error == nil && m.Result == nil:
		c.s.srv.log.Debug("answer to a request that is not open", "id", string(m.ID))
	case m.Error != nil:
		code, err := strconv.Atoi(string(jsonrpc.Get(m.Error, "code")))
		if err != nil {
			code = jsonrpc.CodeInternal
		}
		q.reply <- reply{err: &jsonrpc.Error{Code: code, Message: message(m.Error), Data: jsonrpc.Get(m.Error, "data")}}
	default:
		q.reply <- reply{result: m.Result}
	}
}

// message is what an error object says.
func message(object []byte) string {
	s, _ := jsonrpc.String(jsonrpc.Get(object, "message"))
	return s
}

// canElicit reports whether the client of a request said that it can ask its user. One that
// says no more of it than that it can, can by a form.
func (x *request) canElicit() bool {
	capabilities := x.hop.Capabilities
	if !x.stateless {
		capabilities = x.s.client.facts().Capabilities
	}
	elicitation := object(jsonrpc.Get(capabilities, "elicitation"))
	onlyURLs := jsonrpc.Get(elicitation, "url") != nil && jsonrpc.Get(elicitation, "form") == nil
	return elicitation != nil && !onlyURLs
}

// errUnread is why something was not confirmed that its client did not put to a user, as one
// does that runs without any.
var errUnread = errors.New("the client closed the question without an answer")

// errDeclined is why something is not done that the user was asked about.
var errDeclined = errors.New("the user declined it; nothing was called")

// confirm puts a message to the user of the client that the work is done for, who may agree;
// nil: that was done. The work is suspended meanwhile where its client is stateless.
func (w *work) confirm(message string) error {
	params := jsonrpc.Set(nil, "message", jsonrpc.AppendString(nil, message))
	params = jsonrpc.Set(params, "requestedSchema", []byte(`{"type":"object","properties":{}}`))
	answer, failed := w.first.s.askOne(w.ctx, w.first.way("confirm."), newQuestion("elicitation/create", params))
	if failed != nil {
		return fmt.Errorf("it could not be confirmed: %s", failed.Message)
	}
	switch action, _ := jsonrpc.String(jsonrpc.Get(answer, "action")); action {
	case "accept":
		return nil
	case "decline":
		return errDeclined
	}
	return errUnread
}
