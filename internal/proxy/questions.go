package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/revision"
)

// question is a request of a server, or of the proxy, to a client. A client of the handshake
// era is sent it as a request; a stateless client with the result of a work (suspend.go).
type question struct {
	revision.InputRequest
	reply chan reply // capacity 1

	lease *catalog.Lease // of the server that asks; nil if the proxy asks
	call  *upstreamCall  // call that asks; nil if the transport does not say, or the proxy asks
	slot  *limit.Slot    // of a call that waits for the reply, and is paused until then; nil if there is none
	token []byte         // raw progress token of the server; nil if it has none

	// How it is asked.
	out    front.Outlet // handshake era: stream of the request; nil for the session's stream
	work   *work        // work that asks it; nil in the handshake era, and while none can
	shared bool         // any work with a call to its server may ask it, as the transport does not say which one it is about
}

// reply is the client's answer to a question, or the error.
type reply struct {
	result []byte
	err    *jsonrpc.Error
}

// questions holds the questions to a session's client, and the works that ask them.
type questions struct {
	s        *session
	ready    context.Context // done when the client accepts requests and notifications
	setReady func()          // ends ready; may be called more than once

	mu    sync.Mutex
	asked int                // number of questions so far
	open  []*question        // without a reply
	works map[*work]struct{} // that have not ended
}

// askClient asks the request's client a question of the server of call, or of the proxy if call is nil.
func (x *request) askClient(ctx context.Context, call *upstreamCall, method string, params []byte) ([]byte, *jsonrpc.Error) {
	q := newQuestion(method, params)
	if call != nil {
		q.call, q.lease = call, call.lease
	}
	if x.msg.Stateless() {
		if q.work = x.work; q.work == nil { // it cannot be repeated with a reply
			return nil, cannotBeAsked(method)
		}
	} else {
		q.out = x.stream.out
	}
	return x.s.questions.ask(ctx, q)
}

func newQuestion(method string, params []byte) *question {
	return &question{
		InputRequest: revision.InputRequest{Method: method, Params: params}, reply: make(chan reply, 1),
		token: jsonrpc.Get(jsonrpc.Get(params, "_meta"), "progressToken"),
	}
}

// request returns the question as a request. Its progress token is the key, as those of two servers
// may be equal.
func (q *question) request() []byte {
	params := q.Params
	if q.token != nil {
		meta := jsonrpc.Set(jsonrpc.Get(params, "_meta"), "progressToken", []byte(q.Key))
		params = jsonrpc.Set(params, "_meta", meta)
	}
	return jsonrpc.AppendRequest(nil, []byte(q.Key), q.Method, params)
}

// askerFor returns a function that asks the client a server's question that the transport does not tie
// to a request, and waits for the answer. A client of the handshake era is asked on the stream of its
// only open request to that server, else on the session's stream; a stateless client with its next
// result from that server. In a pool, a client is asked only if all works with a call to the server are
// one, since no client may see another's question. askerFor must be called when the question arrives:
// later calls may be another client's.
func (s *session) askerFor(l *catalog.Lease, method string) func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) {
	s.questions.mu.Lock()
	calling := s.questions.callingLocked(l.Lease)
	s.questions.mu.Unlock()
	x, onlyPrefetches := s.requests.onlyAt(l.Lease), s.onlyPrefetches(l, method)
	return func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
		if onlyPrefetches {
			return nil, cannotBeAsked("a prefetch")
		}
		q := newQuestion(method, params)
		q.lease = l
		switch {
		case s.client.load().Handshake():
			if x != nil {
				q.out = x.stream.out
			}
		case !s.identity.Multiplexed:
			q.shared = true
		case len(calling) == 1:
			q.work = calling[0]
		case len(calling) > 1:
			return nil, cannotBeAsked(method + ": several calls are open at this server, and the question names none of them")
		default:
			return nil, cannotBeAsked(method)
		}
		return s.questions.ask(ctx, q)
	}
}

// onlyPrefetches reports whether a question that the transport ties to no request can only come from
// a prefetch of this session. A request for the roots concerns the session, not a call.
func (s *session) onlyPrefetches(l *catalog.Lease, method string) bool {
	calls, prefetches := s.requests.callsAt(l.Lease)
	return len(calls) == 0 && len(prefetches) > 0 && method != "roots/list"
}

// serverAsked handles a question that the transport ties to no request. It may be about any
// flight at the instance, so the answers of those flights are for one client only. If only
// prefetches are running there, none of their tools is prefetched again; beside calls, the session of one
// prefetch loses a level.
func (s *Server) serverAsked(instance uint64, method string) {
	s.common.store.Taint(instance)
	if method == "roots/list" {
		return
	}
	var calls, prefetches []*upstreamCall
	for _, n := range s.sessions.list() {
		if l := n.leases.load().Find(func(l *catalog.Lease) bool { return l.Instance() == instance }); l != nil {
			more, begun := n.requests.callsAt(l.Lease)
			calls, prefetches = append(calls, more...), append(prefetches, begun...)
		}
	}
	for _, c := range prefetches {
		c.fetch.ClientRequest(len(calls) == 0)
		if len(calls) > 0 {
			return
		}
	}
}

// resumeWait limits how long a reply waits for its call to have a slot again: the call that has the slot may not end
// before the server has the reply.
const resumeWait = 5 * time.Second

// ask asks a question and blocks until it is answered, ctx is done, or the session ends. A client of
// the handshake era is asked once it has initialized. It may take any time to answer if it has a stream
// open whenever that is checked, every suspendTimeout: a client over HTTP may leave unnoticed.
func (c *questions) ask(ctx context.Context, q *question) ([]byte, *jsonrpc.Error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.s.ctx, cancel)()
	bySending := !q.byResult() // a work may take an open question over
	if bySending {
		select {
		case <-c.ready.Done():
		case <-ctx.Done():
			return nil, errWithdrawn
		}
	}
	if err := c.add(q); err != nil {
		return nil, err
	}
	if q.slot != nil {
		defer func() {
			ctx, cancel := context.WithTimeout(ctx, resumeWait)
			defer cancel()
			q.slot.Resume(ctx)
		}()
	}
	if bySending {
		if err := c.send(q, q.request()); err != nil {
			c.answer(q, reply{err: err})
		}
	}
	for {
		select {
		case r := <-q.reply:
			return r.result, r.err
		case <-ctx.Done():
			c.withdraw(q)
			return nil, errWithdrawn
		case <-time.After(suspendTimeout):
			if bySending && !c.connected(q) {
				c.withdraw(q)
				return nil, unreachable("it has not answered and has no stream open")
			}
		}
	}
}

// connected reports whether the client has a stream open on which it can be sent the question.
func (c *questions) connected(q *question) bool {
	return slices.ContainsFunc(c.outlets(q), front.Outlet.Connected)
}

// outlets returns the streams on which the question may be sent: its own, and the session's.
func (c *questions) outlets(q *question) []front.Outlet {
	return slices.DeleteFunc([]front.Outlet{q.out, c.s.identity.Out}, func(o front.Outlet) bool { return o == nil })
}

// byResult reports whether the question is sent with a work's result.
func (q *question) byResult() bool { return q.work != nil || q.shared }

// add opens a question, or returns why it cannot be asked.
func (c *questions) add(q *question) *jsonrpc.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, running := c.works[q.work]; q.work != nil && !running {
		return errWithdrawn
	}
	if !q.shared && !c.capable(q) {
		return cannotBeAsked(q.Method)
	}
	c.asked++
	if q.byResult() {
		q.Key = "q" + strconv.Itoa(c.asked)
	} else { // unique across processes, as a client may still answer a question of an earlier one
		q.Key = `"mcpschedd-` + c.s.observed.Name + "-" + strconv.Itoa(c.asked) + `"`
	}
	c.open = append(c.open, q)
	c.pauseLocked(q)
	if q.work != nil {
		q.work.wake()
	} else {
		c.wakeLocked()
	}
	return nil
}

// pauseLocked pauses the call that waits for the reply to q, as the client may call the same host before
// it replies. If q may belong to several calls, it pauses any one that is not paused, as slots are only
// counted; but the latency of all of them may include the wait for a person, and is not learned. A client
// of the handshake era answers a request for the roots without a call; a stateless one may never repeat its own.
func (c *questions) pauseLocked(q *question) {
	if q.lease == nil || q.Method == "roots/list" && !q.byResult() {
		return
	}
	calls := []*upstreamCall{q.call}
	if q.call == nil {
		calls, _ = c.s.requests.callsAt(q.lease.Lease)
	}
	for _, call := range calls {
		if call.observed != nil {
			call.observed.asked.Store(true)
		}
		if slot := call.slot.Load(); q.slot == nil && slot != nil && (q.call != nil || !slot.Paused()) {
			q.slot = slot
			slot.Pause()
		}
	}
}

// capable reports whether the client that is asked supports the question's method.
func (c *questions) capable(q *question) bool {
	if q.work != nil {
		return q.work.request.client.Accepts(q.Method)
	}
	return c.s.client.load().Accepts(q.Method)
}

// withdraw closes a question that has no reply, and cancels it if it was sent as a request.
func (c *questions) withdraw(q *question) {
	if !c.answer(q, reply{}) || q.byResult() || c.s.ctx.Err() != nil {
		return
	}
	if err := c.send(q, jsonrpc.AppendNotification(nil, "notifications/cancelled", []byte(`{"requestId":`+q.Key+`}`))); err != nil {
		c.s.srv.log.Debug("cancellation not delivered", "method", q.Method, "err", err)
	}
}

// send writes a message to the question's stream, or to the session's stream if the
// former has ended with the response to its request.
func (c *questions) send(q *question, message []byte) *jsonrpc.Error {
	why := "it has no stream open"
	for _, out := range c.outlets(q) {
		err := out.Send(message)
		if err == nil {
			return nil
		}
		why = err.Error()
	}
	return unreachable(why)
}

func unreachable(why string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the client cannot be reached: " + why}
}

// answer closes a question with a reply. It returns false if the question is not open.
func (c *questions) answer(q *question, r reply) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answerLocked(q, r)
}

func (c *questions) answerLocked(q *question, r reply) bool {
	i := slices.Index(c.open, q)
	if i < 0 {
		return false
	}
	c.open = slices.Delete(c.open, i, i+1)
	q.reply <- r
	return true
}

// find returns the open question that was sent as a request with the given raw id, or
// nil.
func (c *questions) find(id []byte) *question {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.open, func(q *question) bool { return q.Key == string(id) }); i >= 0 {
		return c.open[i]
	}
	return nil
}

// progress forwards the client's progress with a question to the server that asked it.
func (c *questions) progress(params []byte) {
	if q := c.find(jsonrpc.Get(params, "progressToken")); q != nil && q.token != nil {
		q.lease.Notify("notifications/progress", jsonrpc.Set(params, "progressToken", q.token))
	}
}

// handleResponse handles the client's response to a question.
func (c *questions) handleResponse(m jsonrpc.Message) {
	r := reply{result: m.Result}
	if m.Error != nil {
		r.err = jsonrpc.ReadError(m.Error)
	}
	if q := c.find(m.ID); q == nil || !c.answer(q, r) {
		c.s.srv.log.Debug("answer to a request that is not open", "id", string(m.ID))
	}
}

var errWithdrawn = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "withdrawn"}

func cannotBeAsked(what string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the client cannot be asked: " + what}
}

// confirm asks the user of the request's client to confirm a message, and returns nil if the
// user accepts.
func confirm(x *request, message string) error {
	params := jsonrpc.Set(nil, "message", jsonrpc.AppendString(nil, message))
	params = jsonrpc.Set(params, "requestedSchema", []byte(`{"type":"object","properties":{}}`))
	answer, failed := x.askClient(x.ctx, nil, "elicitation/create", params)
	if failed != nil {
		return fmt.Errorf("it could not be confirmed: %s", failed.Message)
	}
	switch jsonrpc.Text(answer, "action") {
	case "accept":
		return nil
	case "decline":
		return errors.New("the user declined it; nothing was called")
	}
	return plan.ErrUnread // as clients without a user do
}
