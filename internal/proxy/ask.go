package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// question is a request of a server, or of the proxy, to a client.
type question struct {
	method string
	params []byte
	reply  chan reply      // capacity 1
	key    string          // raw id, or key in inputRequests; "" until it is asked
	server *upstream.Lease // server that asks; nil if the question belongs to a call
	work   *work           // work that asks it; nil if none
}

// reply is the client's answer to a question, or the error.
type reply struct {
	result []byte
	err    *jsonrpc.Error
}

func newQuestion(method string, params []byte) *question {
	return &question{method: method, params: params, reply: make(chan reply, 1)}
}

// asker sends questions to a client: as requests to a client of the handshake era
// (viaRequest), or with the result of a stateless client's request (viaResult).
type asker interface {
	// put sends the questions. Replies arrive on their reply channels.
	put(ctx context.Context, questions []*question) *jsonrpc.Error
	// withdraw cancels the questions that have no reply.
	withdraw(questions []*question)
}

// ask sends questions to a client and blocks until all are answered. It returns the answers
// in order.
func (s *session) ask(ctx context.Context, via asker, questions ...*question) (answers [][]byte, err *jsonrpc.Error) {
	defer via.withdraw(questions)
	if err := via.put(ctx, questions); err != nil {
		return nil, err
	}
	for _, q := range questions {
		select {
		case r := <-q.reply:
			if r.err != nil {
				return nil, r.err
			}
			answers = append(answers, r.result)
		case <-ctx.Done():
			return nil, errQuestionWithdrawn
		case <-s.ctx.Done():
			return nil, errClientGone
		}
	}
	return answers, nil
}

// askOne sends one question to a client and returns the answer.
func (s *session) askOne(ctx context.Context, via asker, q *question) ([]byte, *jsonrpc.Error) {
	answers, err := s.ask(ctx, via, q)
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

// asker returns the asker for the request's client.
func (x *request) asker() asker {
	if x.stateless {
		return viaResult{&x.s.suspended, x.work}
	}
	return viaRequest{&x.s.questions, x.out}
}

// askClient asks the request's client a question of the server that serves the request.
func (x *request) askClient(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
	return x.s.askOne(ctx, x.asker(), newQuestion(method, params))
}

// askerFor returns a function that asks the client a question of a server, for questions that
// the transport does not tie to a request. A client of the handshake era is asked on the
// stream of its only open request to that server, else on the session's stream; a stateless
// client with its next result from that server. In a pool, a client is asked only if all open
// calls to the server belong to one work, since no client may see another's question.
// askerFor must be called when the question arrives: later calls may be another client's.
func (s *session) askerFor(l *sessionLease) func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) {
	var sole *work // nil if the open calls belong to several works, or there are none
	if calls := s.suspended.callsTo(l.Lease); len(calls) > 0 && !slices.ContainsFunc(calls, func(x *request) bool { return x.work != calls[0].work }) {
		sole = calls[0].work
	}
	return func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
		if s.isPrefetchQuestion(l, method) {
			return nil, cannotBeAsked("a prefetch")
		}
		q := newQuestion(method, params)
		if s.client.facts().handshake() {
			via := viaRequest{&s.questions, nil}
			if x := s.requests.only(l); x != nil {
				via.out = x.out
			}
			return s.askOne(ctx, via, q)
		}
		if !s.identity.Pool {
			q.server = l.Lease
		} else if sole == nil {
			return nil, cannotBeAsked(method)
		}
		return s.askOne(ctx, viaResult{&s.suspended, sole}, q)
	}
}

// capable reports whether a client with the given capabilities supports a method.
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

// viaResult asks a stateless client with an input_required result for the work's current
// request. For a question that belongs to no call it uses any work with an open call to the
// same server, or the next such work.
type viaResult struct {
	*suspended
	work *work
}

func (s viaResult) put(_ context.Context, questions []*question) *jsonrpc.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := questions[0]; q.server != nil {
		s.unassigned[q] = struct{}{}
		s.assignLocked()
		return nil
	}
	return s.work.addQuestionsLocked(questions...)
}

func (s viaResult) withdraw(questions []*question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range questions {
		delete(s.unassigned, q)
		if q.work != nil {
			delete(q.work.open, q.key)
		}
	}
}

// clientQuestions holds the open requests of the proxy to one client of the handshake era,
// and assigns their ids.
type clientQuestions struct {
	s         *session
	ready     chan struct{} // closed when the client has initialized
	readyOnce sync.Once

	mu    sync.Mutex
	asked int                  // number of questions so far
	open  map[string]*question // raw id → question without a reply
}

// setReady records that the client has initialized and accepts requests and notifications.
func (c *clientQuestions) setReady() { c.readyOnce.Do(func() { close(c.ready) }) }

// isReady reports whether the client accepts requests and notifications.
func (c *clientQuestions) isReady() bool { return isClosed(c.ready) }

// isClosed reports whether a channel that is only closed has been closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// viaRequest asks a client of the handshake era with requests.
type viaRequest struct {
	*clientQuestions
	out front.Outlet // stream of one of the client's requests; nil for the session's stream
}

// put sends each question as a request, once the client has initialized.
func (c viaRequest) put(ctx context.Context, questions []*question) *jsonrpc.Error {
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
		c.register(q)
		if err := c.send(jsonrpc.AppendRequest(nil, []byte(q.key), q.method, q.params)); err != nil {
			c.forget(q.key)
			return err
		}
	}
	return nil
}

// withdraw cancels the questions that the client has not answered.
func (c viaRequest) withdraw(questions []*question) {
	for _, q := range questions {
		if c.forget(q.key) == nil || c.s.ctx.Err() != nil {
			continue // answered, never asked, or the session has ended
		}
		params := []byte(`{"requestId":` + q.key + `}`)
		if err := c.send(jsonrpc.AppendNotification(nil, "notifications/cancelled", params)); err != nil {
			c.s.srv.log.Debug("cancellation not delivered", "method", q.method, "err", err)
		}
	}
}

// send writes a message to the request's stream, or to the session's stream if the former has
// ended with the response to its request.
func (c viaRequest) send(message []byte) *jsonrpc.Error {
	why := "it has no stream open"
	for _, out := range []front.Outlet{c.out, c.s.identity.Out} {
		if out == nil {
			continue
		}
		err := out.Send(message)
		if err == nil {
			return nil
		}
		why = err.Error()
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the client cannot be reached: " + why}
}

// register opens a question under a new id. The id is unique across processes: a client may
// still answer a question of an earlier process.
func (c *clientQuestions) register(q *question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	q.key = `"mcpschedd-` + c.s.observed.Name + "-" + strconv.Itoa(c.asked) + `"`
	c.open[q.key] = q
}

// forget removes and returns the open question with the given raw id, or nil.
func (c *clientQuestions) forget(id string) *question {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.open[id]
	delete(c.open, id)
	return q
}

// isOpen reports whether a question with the given raw id is open.
func (c *clientQuestions) isOpen(id []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[string(id)] != nil
}

// handleResponse handles the client's response to a question.
func (c *clientQuestions) handleResponse(m jsonrpc.Message) {
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

// message returns the message of an error object.
func message(object []byte) string {
	s, _ := jsonrpc.String(jsonrpc.Get(object, "message"))
	return s
}

// canElicit reports whether the request's client declares elicitation by form. An empty
// elicitation capability means by form.
func (x *request) canElicit() bool {
	capabilities := x.hop.Capabilities
	if !x.stateless {
		capabilities = x.s.client.facts().Capabilities
	}
	elicitation := object(jsonrpc.Get(capabilities, "elicitation"))
	onlyURLs := jsonrpc.Get(elicitation, "url") != nil && jsonrpc.Get(elicitation, "form") == nil
	return elicitation != nil && !onlyURLs
}

// errUnread is returned by confirm if the client cancels the question, as clients without a
// user do.
var errUnread = errors.New("the client closed the question without an answer")

// confirm asks the user of the work's client to confirm a message, and returns nil if the user
// accepts. If the client is stateless, the work is suspended until the client replies.
func (w *work) confirm(message string) error {
	params := jsonrpc.Set(nil, "message", jsonrpc.AppendString(nil, message))
	params = jsonrpc.Set(params, "requestedSchema", []byte(`{"type":"object","properties":{}}`))
	answer, failed := w.first.s.askOne(w.ctx, w.first.asker(), newQuestion("elicitation/create", params))
	if failed != nil {
		return fmt.Errorf("it could not be confirmed: %s", failed.Message)
	}
	switch action, _ := jsonrpc.String(jsonrpc.Get(answer, "action")); action {
	case "accept":
		return nil
	case "decline":
		return errors.New("the user declined it; nothing was called")
	}
	return errUnread
}
