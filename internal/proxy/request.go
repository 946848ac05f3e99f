package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// request is one request of a client while it is served. It has more than 25 methods because
// every step of the path of a call, and every other way to answer, is one of its; none of them
// keeps anything but what stands here.
type request struct {
	s         *session
	msg       *front.Message
	key       string // its raw id, made unique where ids of several clients may clash
	out       front.Outlet
	stateless bool          // the request carries its revision and capabilities itself
	hop       *revision.Hop // what it says of its client; of the handshake where it says nothing
	ctx       context.Context
	cancel    context.CancelCauseFunc

	policy *policy       // by which it is routed; its call may have to be classified by the next one
	local  func()        // answers it, and may wait; nil: its call does, and waits for nothing
	call   *upstreamCall // what is asked of an upstream for it; nil: nothing, or nothing yet
	work   *work         // what it began or takes up, or the plan that it is a step of; nil: it ends with its answer
	part   *planPart     // of a plan; nil: it is a client's own request

	confirmed bool // its user has agreed to its call, and is not asked again when it goes on

	mu       sync.Mutex  // held while something is said about the request
	answered atomic.Bool // nothing more may be said: its client may know that before the request has left
}

// withdrawn is the cause of a request that its client no longer wants answered.
type withdrawn struct{ reason string }

func (w withdrawn) Error() string {
	if w.reason == "" {
		return "cancelled by the client"
	}
	return w.reason
}

// Accept takes one message from the client, on its reader: what must keep the
// order of arrival is done before it returns. A request is served by running
// the function returned, which writes the answer to to; nil means there is
// nothing left to do.
func (s *session) Accept(ctx context.Context, m *front.Message, to front.Outlet) (serve func()) {
	switch {
	case m.IsResponse():
		s.questions.answered(m.Message)
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
		base = context.Background() // it watches the session's end itself, and answers then
	}
	if err := x.admit(base); err != nil {
		recordRefusal(s, m)
		x.fail(err)
		return nil
	}
	if !s.identity.NonBlocking || x.local != nil {
		return func() {
			if ctx.Done() != nil { // else the request outlives its connection
				stop := context.AfterFunc(ctx, func() { x.cancel(withdrawn{"the client has gone"}) })
				defer stop()
			}
			defer x.leave()
			x.serve()
		}
	}
	s.running.Add(1) // the request may end while call still begins it
	defer s.running.Done()
	x.serveCall(func(o outcome) {
		defer x.leave()
		x.answer(o)
	})
	return nil
}

// Refuse answers a message that cannot be accepted. Where it was, or
// may have been, the answer to a question of a server's, that fails, and the client gets no answer.
func (s *session) Refuse(m *front.Message, why *jsonrpc.Error, out front.Outlet) {
	if m.Method == "" && (m.Result != nil || m.Error != nil || s.questions.awaits(m.ID)) {
		s.srv.log.Warn("client answer not understood", "err", why.Message)
		s.questions.answered(jsonrpc.Message{ID: m.ID, Error: why.Append(nil)})
		return
	}
	recordRefusal(s, m)
	x := &request{s: s, msg: m, out: out}
	x.fail(why)
}

// admit checks the request against its session, opens the session with the
// first one, and takes the request's place in the order of its upstream.
func (x *request) admit(ctx context.Context) *jsonrpc.Error {
	s := x.s
	if x.stateless {
		s.open(upstream.Client{Version: x.hop.Version, Info: x.hop.Info, Capabilities: x.hop.Capabilities})
	} else if x.msg.Method == "initialize" {
		openHandshake(s, &x.msg.Index)
	} else if x.msg.Method != "ping" {
		s.open(upstream.Client{})
		s.questions.setReady() // a client that makes requests takes messages too
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
	s.client.update(func(f *clientFacts) { f.negotiated = version }) // before the upstreams start: they may speak at once
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

// leave ends the request. Its call ends with it, unless it is a work that goes on.
func (x *request) leave() {
	if c := x.call; c != nil && (x.work == nil || x.part != nil) {
		c.release()
		c.observeResult(x.ctx, outcome{err: errUnanswered}) // unless it was answered
	}
	x.cancel(nil)
	x.s.requests.done(x)
}

// isWithdrawn reports whether the client of a request wants no answer any more: none will
// come. ctx is that of the request.
func isWithdrawn(ctx context.Context) bool {
	_, gone := errors.AsType[withdrawn](context.Cause(ctx))
	return gone
}

// serve answers the request, on a goroutine that may wait.
func (x *request) serve() {
	if x.local != nil {
		x.local()
		return
	}
	x.answer(waitFor(x.serveCall))
}

// waitFor begins something, and waits until it is done.
func waitFor(begin func(done func(outcome))) outcome {
	done := make(chan outcome, 1)
	begin(func(o outcome) { done <- o })
	return <-done
}

// setLevel passes the log level to every upstream that logs, on the reader:
// what the client calls next must be run with it.
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

// handleNotification takes a notification of the client.
func (s *session) handleNotification(m *front.Message) {
	switch m.Method {
	case "notifications/cancelled":
		reason, _ := jsonrpc.String(m.Index.Get("reason"))
		s.withdraw(m.Index.Get("requestId"), withdrawn{reason})
	case "notifications/initialized":
		s.questions.setReady()
	case "notifications/progress": // of a question; its token is one upstream's own
		if leases := s.leases.current(); len(leases) == 1 {
			leases[0].Notify(m.Method, m.Params)
		}
	default: // roots/list_changed, what later revisions add
		for _, l := range s.leases.current() {
			c := &upstreamCall{s: s, policy: s.srv.policy.Load(), method: m.Method, lease: l, params: &m.Index}
			c.register()
			l.Notify(m.Method, m.Params)
			write := c.pending.Swap(nil)
			write.AnnounceAsync()
			write.Doubt() // nothing says when it has been acted upon
		}
	}
}

// withdraw cancels the request of that raw id; the client wants no answer.
func (s *session) withdraw(id []byte, why error) {
	if x := s.requests.find(string(id)); x != nil && x.msg.Method != "initialize" {
		x.cancel(why)
	}
}

// forward passes on a notification of the upstream of a lease that works on the request,
// until the request has been answered. The request may have another call by now.
func (x *request) forward(l *leased, method string, params []byte) {
	switch method {
	case "notifications/progress":
		token := x.msg.Index.Token()
		if token == nil {
			return
		}
		params = jsonrpc.Set(params, "progressToken", token)
	case "notifications/message":
		level := "" // what the session last set
		if x.stateless {
			if level = x.hop.LogLevel; level == "" {
				return
			}
		}
		if !l.Admits(level, params) {
			return
		}
	case "notifications/tasks/status", "notifications/tasks":
		x.s.tasks.noteStatus(l, jsonrpc.Get(params, "taskId"), jsonrpc.Get(params, "status"))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.answered.Load() && x.ctx.Err() == nil {
		sendNotification(x.s.srv.log, x.out, method, params)
	}
}

// finish answers with a result of the proxy's own.
func (x *request) finish(result []byte) {
	if x.callsOwnTool() {
		x.s.observed.turns.end(time.Now())
	}
	result = x.spend(result)
	if x.stateless {
		result = revision.Complete(result, x.msg.Method)
	}
	x.write(jsonrpc.AppendResult(make([]byte, 0, len(result)+len(x.msg.ID)+40), x.msg.ID, result))
}

// fail answers with an error of the proxy's own.
func (x *request) fail(err *jsonrpc.Error) {
	x.write(jsonrpc.AppendError(nil, x.msg.ID, err.Append(nil)))
}

// noteLost notes that the client did not get the answer of a call; nil: it made none.
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
	x.s.requests.forget(x) // before the client can read the answer
	if err := x.out.Answer(line); err != nil {
		noteLost(x.call)
		x.s.srv.log.Debug("answer not delivered", "method", x.msg.Method, "err", err)
	}
}
