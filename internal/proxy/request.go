package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// request is one client request while it is served. It has more than 25 methods because each
// step of the path of a call, and each other way to answer, is a method of it; none of them
// keeps state elsewhere.
type request struct {
	s         *session
	msg       *front.Message
	key       string // raw id, made unique if several clients may use the same id
	out       front.Outlet
	stateless bool          // the request carries its revision and capabilities itself
	hop       *revision.Hop // client facts to send upstream; from the handshake if the request carries none
	ctx       context.Context
	cancel    context.CancelCauseFunc

	policy  *policy       // snapshot that routes the request; its call may be classified by a later one
	handler handler       // nil if the call answers the request
	call    *upstreamCall // upstream call; nil until bound, or if there is none
	work    *work         // work that the request began, resumed or is a step of; nil if it cannot be suspended
	step    *planStep     // step of a plan; nil for a client's own request

	mu       sync.Mutex  // held while a notification is sent, so that none follows the answer
	answered atomic.Bool // set before the answer is written, as the client may read it before the write returns
}

// A handler returns the outcome of a request that the proxy answers itself. It may block.
type handler func(x *request) outcome

// withdrawn is the cancellation cause of a request that the client cancelled.
type withdrawn struct{ reason string }

func (w withdrawn) Error() string {
	if w.reason == "" {
		return "cancelled by the client"
	}
	return w.reason
}

// Accept takes one message from the client. It runs on the client's reader and does
// everything that depends on the order of arrival before it returns. It returns a function
// that serves the request and may block, or nil if nothing is left to do.
func (s *session) Accept(ctx context.Context, m *front.Message, to front.Outlet) (serve func()) {
	switch {
	case m.IsResponse():
		s.questions.handleResponse(m.Message)
		return nil
	case m.IsNotification():
		s.handleNotification(m)
		return nil
	}
	x := &request{
		s: s, msg: m, key: string(m.ID), out: to,
		hop: m.Hop, stateless: m.Stateless,
	}
	base := s.ctx
	if m.Method == "subscriptions/listen" {
		base = context.Background() // serveListen watches for the session's end itself, and answers then
	}
	if err := x.admit(base); err != nil {
		recordRefusal(s, m)
		x.fail(err)
		return nil
	}
	if !s.identity.NonBlocking || x.handler != nil || x.handle() != nil {
		return func() {
			if ctx.Done() != nil { // else the request outlives its connection
				stop := context.AfterFunc(ctx, func() { x.cancel(withdrawn{"the client has disconnected"}) })
				defer stop()
			}
			defer x.leave()
			x.serve()
		}
	}
	s.running.Add(1) // the request may end before ask returns
	defer s.running.Done()
	x.ask(func(o outcome) {
		defer x.leave()
		x.answer(o)
	})
	return nil
}

// Refuse answers a message that cannot be accepted. If the message is, or may be, the
// response to a server's question, Refuse fails the question and sends the client nothing.
func (s *session) Refuse(m *front.Message, why *jsonrpc.Error, out front.Outlet) {
	if m.Method == "" && (m.Result != nil || m.Error != nil || s.questions.isOpen(m.ID)) {
		s.srv.log.Warn("response from the client not understood", "err", why.Message)
		s.questions.handleResponse(jsonrpc.Message{ID: m.ID, Error: why.Append(nil)})
		return
	}
	recordRefusal(s, m)
	x := &request{s: s, msg: m, out: out}
	x.fail(why)
}

// admit opens the session if this is its first request, registers the request, and routes
// it, which takes its turn at its upstream.
func (x *request) admit(ctx context.Context) *jsonrpc.Error {
	s := x.s
	if x.stateless {
		s.open(upstream.Client{Version: x.hop.Version, Info: x.hop.Info, Capabilities: x.hop.Capabilities})
	} else if x.msg.Method == "initialize" {
		openHandshake(s, &x.msg.Index)
	} else if x.msg.Method != "ping" {
		s.open(upstream.Client{})
		s.questions.setReady() // a client that makes requests can also receive messages
	}
	if !x.stateless {
		x.hop = s.client.facts().hop
	}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	if err := s.requests.add(x, s.identity.Pool); err != nil {
		x.cancel(nil)
		return err
	}
	if err := x.route(); err != nil {
		x.leave()
		return err
	}
	return nil
}

// openHandshake opens a session with the params of its initialize.
func openHandshake(s *session, params *revision.Params) {
	asked, _ := jsonrpc.String(params.Get("protocolVersion"))
	version := revision.Negotiate(asked)
	s.client.update(func(f *clientFacts) { f.negotiated = version }) // before open, as upstreams may send messages as soon as they start
	s.open(upstream.Client{
		Version:      version,
		Info:         object(params.Get("clientInfo")),
		Capabilities: object(params.Get("capabilities")),
	})
}

// object returns raw if it is an object, else nil.
func object(raw []byte) json.RawMessage {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	return json.RawMessage(raw)
}

// leave ends the request, and its call unless the call continues as suspended work.
func (x *request) leave() {
	if c := x.call; c != nil && (x.work == nil || x.step != nil) {
		c.release()
		c.observeResult(x.ctx, outcome{err: errUnanswered}) // no effect if the call was answered
	}
	x.cancel(nil)
	x.s.requests.done(x)
}

// isWithdrawn reports whether the client cancelled the request with context ctx. Such a
// request gets no answer.
func isWithdrawn(ctx context.Context) bool {
	_, cancelled := errors.AsType[withdrawn](context.Cause(ctx))
	return cancelled
}

// serve answers the request. It may block.
func (x *request) serve() {
	o, resumed := x.resume()
	switch {
	case resumed:
		x.deliver(o, x.answer)
	case x.handler != nil:
		x.answer(x.handler(x))
	default:
		x.answer(waitFor(x.ask))
	}
}

// waitFor calls begin and returns the outcome that begin passes to done.
func waitFor(begin func(done func(outcome))) outcome {
	done := make(chan outcome, 1)
	begin(func(o outcome) { done <- o })
	return <-done
}

// setLevel sets the log level at every upstream that logs. It runs on the client's reader,
// so the level applies to the client's next call.
func setLevel(s *session, params *revision.Params) *jsonrpc.Error {
	level, ok := jsonrpc.String(params.Get("level"))
	if !ok || !upstream.KnownLevel(level) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("params.level: want debug, info, notice, warning, error, critical, alert or emergency, have %q", level)}
	}
	s.client.update(func(f *clientFacts) { f.level = level })
	for _, l := range s.leases.current() {
		l.SetLevel(level)
	}
	return nil
}

// handleNotification handles a notification from the client.
func (s *session) handleNotification(m *front.Message) {
	switch m.Method {
	case "notifications/cancelled":
		reason, _ := jsonrpc.String(m.Index.Get("reason"))
		s.withdraw(m.Index.Get("requestId"), withdrawn{reason})
	case "notifications/initialized":
		s.questions.setReady()
	case "notifications/progress": // about a server's question; the token belongs to one upstream
		if leases := s.leases.current(); len(leases) == 1 {
			leases[0].Notify(m.Method, m.Params)
		}
	default: // roots/list_changed, and methods of later revisions
		for _, l := range s.leases.current() {
			c := &upstreamCall{s: s, policy: s.srv.policy.Load(), method: m.Method, lease: l, params: &m.Index}
			c.register()
			l.Notify(m.Method, m.Params)
			write := c.pending.Swap(nil)
			write.AnnounceAsync()
			write.Doubt() // nothing reports when the upstream has acted on it
		}
	}
}

// withdraw cancels the request with the given raw id, unless it is initialize.
func (s *session) withdraw(id []byte, why error) {
	if x := s.requests.find(string(id)); x != nil && x.msg.Method != "initialize" {
		x.cancel(why)
	}
}

// forward sends a notification from l's upstream to the client, until the request has been
// answered. The request may have a call at another upstream by now.
func (x *request) forward(l *sessionLease, method string, params []byte) {
	switch method {
	case "notifications/progress":
		token := x.msg.Index.Token()
		if token == nil {
			return
		}
		params = jsonrpc.Set(params, "progressToken", token)
	case "notifications/message":
		level := "" // the level the session set
		if x.stateless {
			if level = x.hop.LogLevel; level == "" {
				return
			}
		}
		if !l.Admits(level, params) {
			return
		}
	case "notifications/tasks/status", "notifications/tasks":
		x.s.tasks.updateStatus(l, jsonrpc.Get(params, "taskId"), jsonrpc.Get(params, "status"))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.answered.Load() && x.ctx.Err() == nil {
		sendNotification(x.s.srv.log, x.out, method, params)
	}
}

// fail answers with one of the proxy's own errors.
func (x *request) fail(err *jsonrpc.Error) {
	x.write(jsonrpc.AppendError(nil, x.msg.ID, err.Append(nil)))
}

// noteLost records that the client did not receive the answer of c, which may be nil.
func noteLost(c *upstreamCall) {
	if c != nil && c.class.storable() {
		c.s.identity.delivered.Lost(c.class.query.Key)
	}
}

func (x *request) write(line []byte) {
	if x.ctx != nil && isWithdrawn(x.ctx) {
		noteLost(x.call)
		return
	}
	x.mu.Lock()
	x.answered.Store(true)
	x.mu.Unlock()
	x.s.requests.forget(x) // the client may reuse the id as soon as it has read the answer
	if err := x.out.Answer(line); err != nil {
		noteLost(x.call)
		x.s.srv.log.Debug("answer not delivered", "method", x.msg.Method, "err", err)
	}
}
