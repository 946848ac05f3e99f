package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// Listener receives a server's notifications and requests. Its functions must not block. A nil
// function does nothing; a nil Ask refuses every request.
type Listener struct {
	// Notify is called on the connection's reader with a notification.
	Notify func(method string, params []byte)
	// Ask is called on the reader when the server sends a request. It selects the client that
	// will answer, and returns a func that sends the request to that client. The func is called
	// on another goroutine and may block.
	Ask func(method string) askFunc
	// Changed is called when a list of the offer has changed, on the instance's goroutine.
	Changed func()
	// Multiplexed means that the session's requests come from unrelated clients. After one of them has
	// given up a request, messages that may be about it go to none of them for a while.
	Multiplexed bool
}

const invalidLogged = 5 // warnings per connection about invalid messages; further ones are logged at debug level

// askFunc sends a server's request to a client and waits for the answer.
type askFunc = func(ctx context.Context, method string, params []byte) (result []byte, err *jsonrpc.Error)

// receive handles the messages of a line from a process, of an event, or of a body, and returns the first
// error. data must not contain line ends. buffer holds it, or is nil. stream is the id of the request of
// which data is in the response, or 0. seen, unless it is nil, is first called with each message; one that
// cannot be parsed has the members that were read.
func (c *conn) receive(data []byte, buffer *jsonrpc.Buffer, stream int64, seen func(jsonrpc.Message)) (err error) {
	if bytes.HasPrefix(data, []byte("[")) {
		buffer = nil // the messages of a batch share its memory
	}
	for raw := range jsonrpc.Split(data) { // only revision 2025-03-26 has batches
		m, parseErr := c.parse(raw)
		if seen != nil {
			seen(m)
		}
		if parseErr != nil {
			c.unreadable(m, stream, parseErr)
			err = cmp.Or(err, parseErr)
			continue
		}
		m.Buffer = buffer
		c.message(m, stream)
	}
	return err
}

// parse parses a message from the server. Invalid UTF-8 is replaced, as most clients do, rather
// than losing the whole answer. The structure of JSON stays the same: an invalid sequence never
// contains a byte that is significant in JSON.
func (c *conn) parse(raw []byte) (jsonrpc.Message, error) {
	m, err := jsonrpc.Parse(raw)
	if err != nil && !utf8.Valid(raw) {
		if whole, wholeErr := jsonrpc.Parse(bytes.ToValidUTF8(raw, []byte("\uFFFD"))); wholeErr == nil {
			c.in.up.log.Debug("server sent invalid UTF-8: it is replaced by U+FFFD")
			return whole, nil
		}
	}
	return m, err
}

// unreadable logs a message that cannot be parsed, of which m has the members that were read. If
// none is a method, the message is taken for an answer and fails the request with its id. A request
// of the server, which has ids of its own, is refused, as the server may wait for the reply before
// it answers anything. What looks like no message of JSON-RPC may be a log entry with an id, except in the
// response to the request with that id, which is stream.
func (c *conn) unreadable(m jsonrpc.Message, stream int64, err error) {
	c.logInvalid(m.Raw, err)
	id, named := requestID(m.ID), bytes.Contains(m.Raw, []byte(`"jsonrpc"`))
	switch {
	case m.ID == nil:
	case m.Method != "" && named:
		refusal := cmp.Or(errorResponse(err), &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()})
		c.questions.start(m, nil, func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) { return nil, refusal })
	case m.Method == "" && (id == stream || named || bytes.Contains(m.Raw, []byte(`"result"`)) || bytes.Contains(m.Raw, []byte(`"error"`))):
		c.failRequest(id, fmt.Errorf("its answer cannot be read: %w", err))
	}
}

// logInvalid logs input that is not a valid message.
func (c *conn) logInvalid(head []byte, err error) {
	n, level := c.invalid.Add(1), slog.LevelWarn
	if n > invalidLogged {
		level = slog.LevelDebug
	}
	if n > 1 && !c.in.up.log.Enabled(context.Background(), level) {
		return
	}
	shown := c.in.up.mask.Head(head, shownBytes)
	if n == 1 {
		c.in.change(func(s *state) { s.garbled = cmp.Or(shown, "…") })
	}
	c.in.up.log.Log(context.Background(), level, "server sent something that is not an MCP message", "err", err, "head", shown)
}

// message handles one message from the link.
func (c *conn) message(m jsonrpc.Message, stream int64) {
	switch {
	case m.IsResponse():
		c.response(m)
	case m.IsRequest():
		c.questions.accept(m, c.requests.find(stream))
	case m.Method == "notifications/progress":
		c.progress(m.Params)
	case m.Method == "notifications/cancelled":
		c.cancelled(m.Params)
	default:
		c.notification(c.requests.find(stream), m.Method, m.Params)
	}
}

// requestID returns the id of our request that a server wrote as raw, in a response or as a progress
// token, or 0, which no request has. Some servers write it as a string or with a fraction, and the
// reference clients accept both.
func requestID(raw []byte) int64 {
	text, quoted := jsonrpc.String(raw)
	if !quoted {
		text = string(raw)
	}
	number, err := strconv.ParseFloat(text, 64)
	if id := int64(number); err == nil && float64(id) == number {
		return id
	}
	return 0
}

func (c *conn) response(m jsonrpc.Message) {
	id := requestID(m.ID)
	p := c.requests.remove(id, false, false)
	if p == nil {
		if !c.requests.lateAnswer(id, m) {
			c.logInvalid(m.Raw, errors.New("answer to an unknown request"))
		}
		return
	}
	var err error
	switch {
	case m.Error == nil && m.Result[0] != '{':
		err = errors.New("its result is not an object")
	case m.Error != nil && !readable(m.Error):
		text := cmp.Or(jsonrpc.Text(m.Error, "message"), "an error without a text: "+c.in.up.mask.Head(m.Error, shownBytes))
		m.Error = (&jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: text}).Append(nil)
	}
	p.finish(m, err)
}

// readable reports whether clients can read an error: the reference clients drop any other, and wait on.
func readable(object []byte) bool {
	_, text := jsonrpc.String(jsonrpc.Get(object, "message"))
	_, err := strconv.ParseFloat(string(jsonrpc.Get(object, "code")), 64)
	return text && err == nil
}

// progress passes a progress notification to the request that has its token as id, or to the task
// that the request started.
func (c *conn) progress(params []byte) {
	id := requestID(jsonrpc.Get(params, "progressToken"))
	p := c.requests.find(id)
	if p == nil {
		if notify := c.requests.task(id); notify != nil { // any other progress after the answer violates the specification
			notify(params)
		}
		return
	}
	if p.timer != nil {
		p.timer.Reset(p.req.Timeout)
	}
	if p.req.Notify != nil {
		p.req.Notify("notifications/progress", params)
	}
}

// cancelled handles a cancellation from the server: of a request of its own, or, in the stateless
// era, of our listen request.
func (c *conn) cancelled(params []byte) {
	raw := jsonrpc.Get(params, "requestId")
	if c.questions.cancel(string(raw)) {
		return
	}
	if p := c.requests.find(requestID(raw)); p != nil && p.req.Method == "subscriptions/listen" {
		c.failRequest(p.id, errors.New("ended by the server"))
	}
}

// notification dispatches a notification. p is the request that it came with, on its response
// stream, or nil. Changes of lists and resources invalidate answers and go to all sessions concerned, not to
// the request.
func (c *conn) notification(p *pending, method string, params []byte) {
	in := c.in
	switch {
	case method == "notifications/resources/updated":
		in.up.o.Invalidated("resources/updated")
		for _, l := range in.watchers(jsonrpc.Text(params, "uri")) {
			l.notifyClient(method, params)
		}
	case strings.HasSuffix(method, "/list_changed"):
		if method == Resources.ChangedMethod() {
			in.up.o.Invalidated("list_changed")
		} else {
			in.noteInvalidated("list_changed")
		}
		for l := range Lists {
			if l.ChangedMethod() == method {
				in.markStale(l)
			}
		}
	case method == "notifications/subscriptions/acknowledged":
		switch { // over HTTP, changes before it may have been missed
		case p == nil:
		case c.listening.acknowledged.Swap(true):
			c.noteGap()
		default:
			in.noteInvalidated("gap")
		}
	case p != nil && p.req.Notify != nil:
		p.req.Notify(method, params)
	default:
		if l := in.leaseFor(c, p); l != nil {
			l.notifyClient(method, params)
		}
	}
}

// leaseFor returns the only lease that a message can be for, or nil if there may be several. p is
// the unanswered request that the message came with, on its response stream, or nil: most messages name no
// request. Over stdio and HTTP+SSE only progress does.
func (in *instance) leaseFor(c *conn, p *pending) *Lease {
	if p != nil && p.lease != nil {
		if p.lease.listener.Multiplexed {
			return nil // one of several clients
		}
		return p.lease
	}
	leases := in.currentLeases()
	if len(leases) != 1 || leases[0].severalClients() && c.requests.mayConcernOthers(leases[0]) {
		return nil
	}
	return leases[0]
}

// Covers reports whether an update of uri concerns a client subscribed to subscribed, which is
// the same URI or a parent of it.
func Covers(subscribed, uri string) bool {
	return subscribed == uri || strings.HasPrefix(uri, strings.TrimSuffix(subscribed, "/")+"/")
}

// notifyClient sends a notification to the lease's client, without the id of the proxy's listen
// request.
func (l *Lease) notifyClient(method string, params []byte) {
	if l.listener.Notify == nil {
		return
	}
	if revision.Subscription(params) != nil {
		params = revision.Translate(params, revision.Change{})
	}
	l.listener.Notify(method, params)
}

// asker returns the func that answers a server's request. It selects the session now, on the
// reader, because a later message such as the answer to the request that caused the question can
// change which session is the only candidate.
func (in *instance) asker(c *conn, p *pending, method string) askFunc {
	var ask askFunc
	if l := in.leaseFor(c, p); l != nil && l.listener.Ask != nil && !in.up.spec.NoCapabilities {
		ask = l.listener.Ask(method)
	}
	return func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
		in.up.o.Asked(in.id, method)
		if ask == nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + ": this server may have several clients, and none is known to be meant"}
		}
		return ask(ctx, method, params)
	}
}

// Each reply over HTTP is a POST. A server may send requests faster than it accepts the replies.
const (
	maxQuestions = 2048             // requests of one connection, pings included, without a reply that is being delivered; further ones are dropped
	maxReplies   = 64               // replies of one connection that are being delivered; further ones wait
	replyTimeout = 30 * time.Second // for delivering a reply
)

// questions is the table of the server's unanswered requests on one connection.
type questions struct {
	c       *conn
	replies chan struct{} // holds an element for each reply that is being delivered; capacity maxReplies

	mu   sync.Mutex
	open map[string]question // raw id → the request; until its reply is sent
}

// question is an unanswered request of the server.
type question struct {
	cancel context.CancelCauseFunc
	p      *pending // our request that it came with, on its response stream; nil if it may be about several
}

// errCancelledByServer is the cause of a question's end if the server has cancelled it, and wants no reply.
var errCancelledByServer = errors.New("cancelled by the server")

// accept answers a request of the server. p is our request that it came with, on its response stream, or nil.
func (q *questions) accept(m jsonrpc.Message, p *pending) {
	var ask askFunc
	switch {
	case m.Method == "ping":
		ask = pong
	case p != nil && p.req.Ask != nil:
		ask = p.req.Ask
	default:
		ask = q.c.in.asker(q.c, p, m.Method)
	}
	q.start(m, p, ask)
}

// start sends the reply of ask on a new goroutine. It drops the request if there are too many, or one with the
// same id: an error response would answer that one.
func (q *questions) start(m jsonrpc.Message, p *pending, ask askFunc) {
	ctx, cancel := context.WithCancelCause(q.c.life)
	answer := func() {
		defer cancel(nil)
		q.answer(ctx, m, ask)
	}
	if !q.add(string(m.ID), question{cancel, p}) || !q.c.spawn(answer) {
		cancel(nil)
	}
}

// pong answers a ping.
func pong(context.Context, string, []byte) ([]byte, *jsonrpc.Error) { return []byte("{}"), nil }

// answer obtains the reply and sends it, unless the server has cancelled its request.
func (q *questions) answer(ctx context.Context, m jsonrpc.Message, ask askFunc) {
	result, rpcErr := ask(ctx, m.Method, m.Params)
	line := jsonrpc.AppendResult(nil, m.ID, result)
	if rpcErr != nil {
		line = jsonrpc.AppendError(nil, m.ID, rpcErr.Append(nil))
	}
	q.replies <- struct{}{}
	q.mu.Lock()
	delete(q.open, string(m.ID)) // before it is sent, as a server may then use the id again
	q.mu.Unlock()
	delivery, cancel := context.WithTimeout(context.Background(), replyTimeout)
	done := func() {
		cancel()
		<-q.replies
	}
	if errors.Is(context.Cause(ctx), errCancelledByServer) || q.c.life.Err() != nil || q.c.link.send(delivery, outgoing{line: line, done: done}) != nil {
		done()
	}
}

// add registers a request. It returns false if the id is in use or the limit is reached.
func (q *questions) add(id string, asked question) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, used := q.open[id]; used || len(q.open) >= maxQuestions {
		return false
	}
	q.open[id] = asked
	return true
}

// cancel cancels a request of the server. It returns false if there is none with this id.
func (q *questions) cancel(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	asked, found := q.open[id]
	if found {
		asked.cancel(errCancelledByServer)
	}
	return found
}

// waiting reports whether the answer to p may depend on a reply that the server is waiting for. A question that
// came on the stream of another request is about that one.
func (q *questions) waiting(p *pending) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, asked := range q.open {
		if asked.p == nil || asked.p == p {
			return true
		}
	}
	return false
}

// withdraw ends the questions that came with p, which has failed: no client waits for its answer. The server is
// told that they are not answered.
func (q *questions) withdraw(p *pending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, asked := range q.open {
		if asked.p == p {
			asked.cancel(nil)
		}
	}
}
