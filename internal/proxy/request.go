package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/catalog"
	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// request is one client request while it is served.
type request struct {
	s      *session
	msg    *front.Message
	key    string // raw id, made unique if several clients may use the same id
	stream responseStream
	client *revision.Client // the client's description: the request's own, or that of the handshake
	ctx    context.Context
	cancel context.CancelCauseFunc

	view    view          // under the policy that routes the request; a later one may classify its call
	handler handler       // nil if the call answers the request
	call    *upstreamCall // upstream call; nil until bound, or if there is none
	work    *work         // work that serves the client's request, or that makes this one, as its own or as a step of its plan; nil if there is none, as in the handshake era
	step    *planStep     // step of a plan that the request makes; nil for any other request
}

// responseStream carries the notifications about a request to its client, and then the answer.
// No notification follows the answer.
type responseStream struct {
	out      front.Outlet
	mu       sync.Mutex // held while a notification is sent
	answered bool       // set before the answer is written, as the client may read it before the write returns
}

// notify sends a notification, unless the request has been answered.
func (r *responseStream) notify(log *slog.Logger, method string, params []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.answered {
		sendNotification(log, r.out, method, params)
	}
}

// end prevents further notifications.
func (r *responseStream) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered = true
}

// A handler returns the outcome of a request that the proxy answers itself. It may block.
type handler func(x *request) outcome

// cancelledByClient is the cancellation cause of a request that the client cancelled.
type cancelledByClient struct{ reason string }

func (c cancelledByClient) Error() string { return cmp.Or(c.reason, "cancelled by the client") }

// isCancelledByClient reports whether the client cancelled the request with context ctx. Such a
// request gets no answer.
func isCancelledByClient(ctx context.Context) bool {
	_, cancelled := errors.AsType[cancelledByClient](context.Cause(ctx))
	return cancelled
}

// leave ends the request.
func (x *request) leave() {
	x.endCall()
	x.cancel(nil)
	x.s.requests.done(x)
}

// endCall ends the request's call, if it has one.
func (x *request) endCall() {
	if c := x.call; c != nil {
		c.release()
		c.observeResult(outcome{err: errUnanswered}) // no effect if the call was answered
		x.s.requests.removeCall(c)
	}
}

// release gives up the turn and the pending write of a call that goes no further.
func (c *upstreamCall) release() {
	if write := c.pendingWrite.Swap(nil); write != nil {
		write.End()
	}
	c.turn.Release()
}

// Refuse answers a message that cannot be accepted. If the message is, or may be, the
// response to a server's question, Refuse fails the question and sends the client nothing.
func (s *session) Refuse(m *front.Message, why *jsonrpc.Error, out front.Outlet) {
	s.srv.log.Debug("client message refused", "err", why.Message)
	if m.Method == "" && (m.Result != nil || m.Error != nil || s.questions.find(m.ID) != nil) {
		s.questions.handleResponse(jsonrpc.Message{ID: m.ID, Error: why.Append(nil)})
		return
	}
	recordRefusal(s, m)
	x := &request{s: s, msg: m, ctx: s.ctx, stream: responseStream{out: out}}
	x.answer(outcome{err: why})
}

// openHandshake opens a session with the params of its initialize.
func openHandshake(s *session, params *revision.Params) {
	s.open(revision.Client{
		Version:      revision.Negotiate(params.Text("protocolVersion")),
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

// setLevel sets the log level at every upstream that logs. It runs on the client's reader,
// so the level applies to the client's next call.
func setLevel(s *session, params *revision.Params) *jsonrpc.Error {
	level := params.Text("level")
	if !upstream.KnownLevel(level) {
		return invalidParams(fmt.Sprintf("params.level: want debug, info, notice, warning, error, critical, alert or emergency, have %q", level))
	}
	s.client.update(func(f *clientFacts) { f.LogLevel = level })
	for _, l := range *s.leases.load() {
		l.SetLevel(level)
	}
	return nil
}

// handleNotification handles a notification from the client.
func (s *session) handleNotification(m *front.Message) {
	switch m.Method {
	case "notifications/cancelled":
		if x := s.requests.find(string(m.Index.Get("requestId"))); x != nil {
			x.cancel(cancelledByClient{m.Index.Text("reason")})
		}
	case "notifications/initialized":
		s.questions.setReady()
		if s.lists.wereShown(upstream.Tools) { // by an earlier process
			s.lists.changes.trigger()
		}
	case "notifications/progress": // with a server's question
		s.questions.progress(m.Params)
	default: // roots/list_changed, and methods of later revisions
		for _, l := range *s.leases.load() {
			c := &upstreamCall{s: s, policy: s.srv.policy.Load(), method: m.Method, lease: l, params: &m.Index}
			c.registerWrite()
			l.Notify(m.Method, m.Params)
			write := c.pendingWrite.Swap(nil)
			write.AnnounceAsync()
			write.Doubt() // nothing reports when the upstream has acted on it
		}
	}
}

// forward sends a notification from l's upstream to the client, until the request has been
// answered. The request may have a call at another upstream by now.
func (x *request) forward(l *catalog.Lease, method string, params []byte) {
	x.s.tasks.note(l, method, params)
	to := x.carrier()
	if to == nil {
		return
	}
	switch method {
	case "notifications/progress":
		if x.step != nil { // the plan reports its own progress
			x.step.Progress()
			return
		}
		token := to.msg.Index.Token()
		if token == nil {
			return
		}
		params = jsonrpc.Set(params, "progressToken", token)
	case "notifications/message":
		level := x.s.client.load().LogLevel
		if x.msg.Stateless() {
			level = to.client.LogLevel
		}
		if x.msg.Stateless() && level == "" || !upstream.LogLevelEnabled(level, params) {
			return
		}
	}
	if to.ctx.Err() == nil {
		to.stream.notify(x.s.srv.log, method, params)
	}
}

// outcome is the result of a call.
type outcome struct {
	answer upstream.Answer
	kind   resultKind
	onHost limit.Outcome // of the call, for the limits of its host
	err    error
}

// mayHaveRun reports whether the server may have run a request that failed.
func (o *outcome) mayHaveRun() bool {
	return o.answer.Sent && !o.answer.Limited && !upstream.Rejected(o.err)
}

// waitFor calls begin and returns the outcome that begin passes to done.
func waitFor(begin func(done func(outcome))) outcome {
	done := make(chan outcome, 1)
	begin(func(o outcome) { done <- o })
	return <-done
}

// resultKind says what a call's result means.
type resultKind uint8

const (
	otherResult   resultKind = iota // of the proxy itself, or of a kind that is not known
	complete                        // a successful result, which may be given to other calls
	failed                          // an error
	startedTask                     // the call continues as a task
	inputRequired                   // a stateless server asks the client for input
	suspended                       // the client is asked for input, and the call continues
)

// kindOf returns the kind of a server's answer.
func kindOf(answer *upstream.Answer) resultKind {
	if answer.Result == nil {
		return failed
	}
	isError, resultType := string(answer.ResultMember("isError")), string(answer.ResultMember("resultType"))
	switch {
	case resultType == `"input_required"`:
		return inputRequired
	case resultType == `"task"`, answer.ResultMember("task") != nil:
		return startedTask
	case isError != "" && isError != "false":
		return failed
	case resultType != "" && resultType != `"complete"`:
		return otherResult
	}
	return complete
}

// ownAnswer returns an answer that did not come from a server's response to this call.
func ownAnswer(result []byte, stateless bool) upstream.Answer {
	return upstream.Answer{Message: jsonrpc.Message{Result: result}, Stateless: stateless}
}

// ownOutcome returns the outcome of a request that the proxy answers itself.
func ownOutcome(result []byte) outcome { return outcome{answer: ownAnswer(result, false)} }

// invalidParams returns the error of a request with invalid params.
func invalidParams(message string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message}
}

// unavailable reports whether the server, or the connection to it, has failed. A call that was sent and failed
// for another reason, such as a timeout, is assumed to be still running.
func unavailable(err error) bool {
	_, away := errors.AsType[*upstream.Unavailable](err)
	return away
}

// maxErrorAnswer is the maximum size in bytes of an error that is searched for the text of a
// rate limit. Servers report that in short answers; searching long ones would be slow.
const maxErrorAnswer = 4 << 10

// hostOutcome returns what an outcome means for the limits of its host.
func (o *outcome) hostOutcome() limit.Outcome {
	v := limit.Outcome{Failed: o.kind == failed}
	switch answer := &o.answer; {
	case answer.Limited:
		v.Limited = true
		v.RetryAfter = limit.RetryAfter(answer.RetryAfter, time.Now())
	case o.err == nil && v.Failed && len(answer.Result) <= maxErrorAnswer:
		v.Limited = limit.TextSaysLimited(errorText(answer))
	}
	return v
}

// errorText returns the message of a server's error.
func errorText(answer *upstream.Answer) string {
	if answer.Error != nil {
		return jsonrpc.Text(answer.Error, "message")
	}
	var lines []string
	for block := range jsonrpc.Elements(jsonrpc.Get(answer.Result, "content")) {
		if line, ok := jsonrpc.String(jsonrpc.Get(block, "text")); ok {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// failure returns the answer to a request that failed with o.err. For a tools/call it is a result with
// isError, so that the model reads the reason. For any other request, and if it is a JSON-RPC error,
// it is a JSON-RPC error.
func (x *request) failure(o outcome) upstream.Answer {
	err, mayHaveRun := o.err, o.mayHaveRun()
	if o.answer.Sent && (err == front.ErrEnded || err == front.ErrShutdown) {
		err, mayHaveRun = fmt.Errorf("%w; the call may have run", err), false
	}
	// Only err itself: an error that err wraps was meant for the proxy, or is about a server's line.
	refused, ok := err.(*jsonrpc.Error)
	switch {
	case ok:
	case x.msg.Method == "tools/call":
		return ownAnswer(jsonrpc.Set(textResult(x.explain(err, mayHaveRun).Error()), "isError", []byte("true")), false)
	default:
		refused = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: x.explain(err, mayHaveRun).Error()}
	}
	return upstream.Answer{Message: jsonrpc.Message{Error: refused.Append(nil)}}
}

// failureReason returns the event log's word for why a call was not answered.
func failureReason(err error, cancelled bool) string {
	if cancelled {
		return "cancelled"
	}
	var refused *jsonrpc.Error
	switch {
	case errors.Is(err, upstream.ErrTimeout):
		return "timeout"
	case unavailable(err):
		return "unavailable"
	case errors.As(err, &refused):
		return "refused"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return "unanswered"
}

// explain returns the error of a request for its client to read. If an upstream did not answer, that
// includes the upstream's name. It includes that a call which may write may have run, as its client might repeat
// the write.
func (x *request) explain(err error, mayHaveRun bool) error {
	if refused, ok := err.(*jsonrpc.Error); ok {
		return errors.New(refused.Message)
	}
	if x.call == nil {
		return err
	}
	l := x.call.lease
	if errors.Is(err, upstream.ErrTimeout) {
		err = errors.New("no answer within " + age.Text(l.Member.Timeout))
	}
	level := slog.LevelWarn
	if x.ctx.Err() != nil {
		level = slog.LevelDebug // the client cancelled
	} else if !unavailable(err) {
		err = fmt.Errorf("server %q: %w", l.Name(), err)
	}
	if kind := x.call.class.kind; mayHaveRun && kind != "" && !kind.Reads() {
		err = fmt.Errorf(plan.OutcomeUnknown+"%w", err)
	}
	x.s.srv.log.Log(x.ctx, level, "call not answered by its server", "upstream", l.Name(), "method", x.msg.Method, "err", err)
	return err
}
