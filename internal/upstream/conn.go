package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// Listener hears what a server sends beside answers. Its functions are called
// from the connection's reader and must not block it; Ask runs on a goroutine
// of its own and may wait. A nil function hears nothing; a nil Ask refuses.
type Listener struct {
	Notify func(method string, params []byte)
	Ask    func(ctx context.Context, method string, params []byte) (result []byte, err *jsonrpc.Error)
	// Changed says that a list of the offer is not what it was.
	Changed func(l List)
}

// Request is one request of a client on its way to a server.
type Request struct {
	Method string
	Params []byte               // as the client wrote them
	Target []byte               // raw JSON; replaces the member that names the target; nil leaves it
	Hop    revision.Hop         // what the client says of itself, for a stateless server
	Token  bool                 // progress is wanted
	Notify func(string, []byte) // hears what the transport attributes to this request, progress always; nil: nothing
	Ask    func(context.Context, string, []byte) ([]byte, *jsonrpc.Error)
	// Timeout without an answer, restarted by progress; 0 is none.
	Timeout time.Duration
}

// rubbishShown is how many messages of one connection that are none are logged
// as warnings; the rest would drown what matters.
const rubbishShown = 5

// asksPerConn bounds how many questions of one server may be open at once.
const asksPerConn = 64

var (
	// errClosed: the connection ended before the request was sent.
	errClosed = errors.New("connection closed")
	// errEnded: the connection ended while the request was with the server.
	errEnded = errors.New("connection ended before the answer")
	// ErrTimeout: the request's own timeout passed without an answer.
	ErrTimeout = errors.New("no answer within the timeout")
)

// conn is one live connection to a server: it numbers requests, pairs answers
// with them, routes progress by its token, and answers pings.
type conn struct {
	name     string
	log      *slog.Logger
	link     link
	http     bool     // over HTTP: headers, and a stateless request is cancelled by dropping its stream
	listener Listener // the instance's
	offer    func() *Offer
	started  chan struct{} // closed once link is set: a server may speak first
	done     chan struct{} // closed once the link has ended

	version atomic.Pointer[string] // negotiated revision; nil during the handshake
	next    atomic.Int64
	rubbish atomic.Int64 // messages that were none

	mu       sync.Mutex
	waiting  map[int64]*pending
	asked    map[string]asked   // raw id of a server's question → the question
	unlisten context.CancelFunc // ends the open listen request; nil: none
	err      error              // why the link ended; set before done closes

	work sync.WaitGroup // the connection's own goroutines
}

// asked is a question of the server without its answer.
type asked struct {
	cancel context.CancelFunc
	after  int64 // the last request sent before it came: later ones have nothing to do with it
}

// pending is a request without its answer.
type pending struct {
	id     int64
	req    *Request
	answer chan answer // capacity 1; nil if begun
	timer  *time.Timer // nil without a timeout
	begun  *begun      // nil: somebody waits for answer
}

type answer struct {
	msg jsonrpc.Message
	err error
}

// newConn makes a connection; its link is started with sink() and given to
// open.
func newConn(name string, log *slog.Logger, listener Listener, offer func() *Offer) *conn {
	return &conn{
		name: name, log: log, listener: listener, offer: offer,
		started: make(chan struct{}),
		done:    make(chan struct{}),
		waiting: make(map[int64]*pending),
		asked:   make(map[string]asked),
	}
}

func (c *conn) sink() sink {
	message := func(m jsonrpc.Message, stream int64) {
		<-c.started
		c.message(m, stream)
	}
	return sink{message: message, lost: c.lost, garbage: c.garbage, gap: c.gap, closed: c.closed}
}

func (c *conn) open(l link) {
	c.link = l
	close(c.started)
}

// spawn runs f on a goroutine that close waits for; false if the connection
// has ended.
func (c *conn) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.work.Go(f)
	return true
}

// revision returns the negotiated revision, "" during the handshake.
func (c *conn) revision() string {
	if v := c.version.Load(); v != nil {
		return *v
	}
	return ""
}

func (c *conn) stateless() bool { return revision.Stateless(c.revision()) }

// call sends a request and waits for its answer. An error that wraps errClosed
// or errSessionLost means that the server has not run it.
func (c *conn) call(ctx context.Context, req *Request, sent func()) (jsonrpc.Message, error) {
	var expire context.CancelCauseFunc
	if req.Timeout > 0 {
		ctx, expire = context.WithCancelCause(ctx)
		defer expire(nil)
	}
	p, err := c.start(ctx, req, expire)
	if err != nil { // it keeps its turn: it may be sent over the next connection
		return jsonrpc.Message{}, c.unsent(ctx, err)
	}
	sent()
	if p.timer != nil {
		defer p.timer.Stop()
	}
	return c.wait(ctx, p)
}

// start sends a request; the caller must wait for its answer. expire is called
// when the request's timeout has passed.
func (c *conn) start(ctx context.Context, req *Request, expire context.CancelCauseFunc) (*pending, error) {
	p := &pending{id: c.next.Add(1), req: req, answer: make(chan answer, 1)}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, errClosed
	}
	c.waiting[p.id] = p
	if expire != nil {
		p.timer = time.AfterFunc(req.Timeout, func() { c.expired(p, expire) })
	}
	c.mu.Unlock()
	err := context.Cause(ctx) // nobody may be waiting any more
	if err == nil {
		err = c.link.send(ctx, c.frame(p.id, req))
	}
	if err == nil {
		return p, nil
	}
	c.take(p.id)
	if p.timer != nil {
		p.timer.Stop()
	}
	return nil, err
}

// endNoticed is how long a connection whose link refused a message may take to
// say that it has ended: longer than it waits for late answers, or for a
// process to end by itself.
const endNoticed = 2*lateAnswers + 2*stopGrace

// unsent words why a request did not go out: with the connection's end it may
// be sent over the next one.
func (c *conn) unsent(ctx context.Context, err error) error {
	if errors.Is(err, errNotReading) {
		return err // it lives, and will not end by that
	}
	notice := time.NewTimer(endNoticed)
	defer notice.Stop()
	select {
	case <-c.done:
		return errClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-notice.C:
		return err
	}
}

// expired ends a request whose timeout has passed, unless the server waits for
// its client: a person may take as long as they like.
func (c *conn) expired(p *pending, expire context.CancelCauseFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.asked {
		if p.id <= q.after {
			p.timer.Reset(p.req.Timeout)
			return
		}
	}
	expire(ErrTimeout)
}

// wait returns the answer to a request that start sent.
func (c *conn) wait(ctx context.Context, p *pending) (jsonrpc.Message, error) {
	select {
	case a := <-p.answer:
		return a.msg, a.err
	case <-ctx.Done():
		c.take(p.id)
		c.cancelled(p, context.Cause(ctx))
		return jsonrpc.Message{}, context.Cause(ctx)
	}
}

// frame writes the request as this server wants it.
func (c *conn) frame(id int64, req *Request) outgoing {
	var number [20]byte
	raw := strconv.AppendInt(number[:0], id, 10)
	change := revision.Change{Target: req.Target, Member: targetMember(req.Method), Arguments: req.Method == "tools/call"}
	if req.Token {
		change.Token = raw
	}
	out := outgoing{id: id}
	version := c.revision()
	if revision.Stateless(version) {
		hop := req.Hop
		hop.Version = version
		change.Hop = &hop
	}
	params := revision.Params(req.Params, change)
	if c.http && revision.Stateless(version) {
		out.header = c.headers(version, req.Method, params)
	}
	out.line = jsonrpc.AppendRequest(make([]byte, 0, len(params)+len(req.Method)+64), raw, req.Method, params)
	return out
}

// targetMember names the member of a method's params that routes it.
func targetMember(method string) string {
	switch method {
	case "tools/call", "prompts/get":
		return "name"
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		return "uri"
	case "completion/complete":
		return "ref"
	}
	return ""
}

func (c *conn) headers(version, method string, params []byte) http.Header {
	header := make(http.Header)
	for k, v := range mcp.StandardHeaders(version, mcp.MCPMethod(method), params) {
		header.Set(k, v)
	}
	if method == "tools/call" {
		for k, v := range c.offer().paramHeaders(params) {
			header.Set(k, v)
		}
	}
	return header
}

// notify sends a notification; a server that is gone does not hear it.
func (c *conn) notify(method string, params []byte) {
	line := jsonrpc.AppendNotification(nil, method, params)
	if err := c.link.send(context.Background(), outgoing{line: line}); err != nil {
		c.log.Debug("notification not sent", "upstream", c.name, "method", method, "err", err)
	}
}

// cancelled tells the server that nobody waits for a request any more.
func (c *conn) cancelled(p *pending, why error) {
	if p.req.Method == "initialize" || p.req.Method == "server/discover" {
		return // the specification forbids it, and older servers choke on it
	}
	if c.http && c.stateless() {
		return // the end of ctx has dropped the response stream, which says it
	}
	params := strconv.AppendInt([]byte(`{"requestId":`), p.id, 10)
	if why != nil {
		params = jsonrpc.AppendString(append(params, `,"reason":`...), why.Error())
	}
	c.notify("notifications/cancelled", append(params, '}'))
}

// take removes and returns the request that waits under id.
func (c *conn) take(id int64) *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.waiting[id]
	delete(c.waiting, id)
	return p
}

func (c *conn) peek(id int64) *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting[id]
}

// message takes one message from the link.
func (c *conn) message(m jsonrpc.Message, stream int64) {
	switch {
	case m.IsResponse():
		id, err := strconv.ParseInt(string(m.ID), 10, 64)
		if err != nil || id <= 0 || id > c.next.Load() {
			c.garbage(m.Raw, errors.New("answer to a request that was never made"))
			return
		}
		if p := c.take(id); p != nil {
			a := answer{msg: m}
			if m.Error == nil && m.Result[0] != '{' {
				a.err = fmt.Errorf("%s: the result is no object", p.req.Method)
			}
			p.settle(a)
		}
	case m.IsRequest():
		c.question(m, stream)
	case m.Method == "notifications/progress":
		c.progress(m.Params)
	case m.Method == "notifications/cancelled":
		c.withdraw(m.Params)
	default:
		if p := c.peek(stream); p != nil && p.req.Notify != nil && !listNotification(m.Method) {
			p.req.Notify(m.Method, m.Params)
		} else if c.listener.Notify != nil {
			c.listener.Notify(m.Method, m.Params)
		}
	}
}

// listNotification reports whether a notification is about what the server
// has, whatever stream it came on.
func listNotification(method string) bool {
	switch method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed",
		"notifications/resources/list_changed", "notifications/resources/updated":
		return true
	}
	return false
}

// progress passes a progress notification to the request whose id is its token.
func (c *conn) progress(params []byte) {
	id, err := strconv.ParseInt(string(jsonrpc.Get(params, "progressToken")), 10, 64)
	if err != nil {
		return
	}
	p := c.peek(id)
	if p == nil {
		return // after its answer: the specification forbids it
	}
	if p.timer != nil {
		p.timer.Reset(p.req.Timeout)
	}
	if p.req.Notify != nil {
		p.req.Notify("notifications/progress", params)
	}
}

// question answers a request of the server on a goroutine of its own.
func (c *conn) question(m jsonrpc.Message, stream int64) {
	if m.Method == "ping" {
		c.reply(m.ID, []byte("{}"), nil)
		return
	}
	ask := c.listener.Ask
	if p := c.peek(stream); p != nil && p.req.Ask != nil {
		ask = p.req.Ask
	}
	if ask == nil {
		c.reply(m.ID, nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no client to ask: " + m.Method})
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	id := string(m.ID)
	c.mu.Lock()
	full := len(c.asked) >= asksPerConn || c.err != nil
	if !full {
		c.asked[id] = asked{cancel, c.next.Load()}
	}
	c.mu.Unlock()
	if full {
		cancel()
		c.reply(m.ID, nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "too many open requests to the client"})
		return
	}
	c.spawn(func() {
		defer cancel()
		result, err := ask(ctx, m.Method, m.Params)
		c.mu.Lock()
		delete(c.asked, id)
		c.mu.Unlock()
		if ctx.Err() == nil { // a withdrawn question wants no answer
			c.reply(m.ID, result, err)
		}
	})
}

func (c *conn) reply(id, result []byte, err *jsonrpc.Error) {
	var line []byte
	if err != nil {
		line = jsonrpc.AppendError(nil, id, err.Append(nil))
	} else {
		line = jsonrpc.AppendResult(nil, id, result)
	}
	if err := c.link.send(context.Background(), outgoing{line: line}); err != nil {
		c.log.Debug("answer not sent", "upstream", c.name, "err", err)
	}
}

// withdraw ends a question that the server no longer wants answered, or, in
// the stateless era, our listen request.
func (c *conn) withdraw(params []byte) {
	id := string(jsonrpc.Get(params, "requestId"))
	c.mu.Lock()
	q, ok := c.asked[id]
	c.mu.Unlock()
	if ok {
		q.cancel()
		return
	}
	if n, err := strconv.ParseInt(id, 10, 64); err == nil {
		if p := c.peek(n); p != nil && p.req.Method == "subscriptions/listen" {
			c.lost(n, errors.New("ended by the server"))
		}
	}
}

func (c *conn) lost(id int64, err error) {
	if p := c.take(id); p != nil {
		p.settle(answer{err: err})
	}
}

func (c *conn) garbage(head []byte, err error) {
	const shown = 200
	if len(head) > shown {
		head = head[:shown]
	}
	level := slog.LevelWarn
	if c.rubbish.Add(1) > rubbishShown {
		level = slog.LevelDebug
	}
	c.log.Log(context.Background(), level, "upstream sent something that is no MCP message", "upstream", c.name, "err", err, "head", string(head))
}

// gap: notifications may have been missed, so every list may have changed.
func (c *conn) gap() {
	if c.listener.Notify != nil {
		for _, l := range []List{Tools, Prompts, Resources} {
			c.listener.Notify(l.Changed(), nil)
		}
	}
}

// closed answers whatever still waits: the server will not.
func (c *conn) closed(err error) {
	if err == nil {
		err = errEnded
	}
	c.mu.Lock()
	c.err = err
	waiting := c.waiting
	c.waiting = make(map[int64]*pending)
	for _, q := range c.asked {
		q.cancel()
	}
	c.mu.Unlock()
	close(c.done) // first: who hears of the end asks what stderr said
	for _, p := range waiting {
		// Not wrapped: what ended the connection may say "not run", and these
		// may have been.
		p.settle(answer{err: fmt.Errorf("%w: %v", errEnded, err)})
	}
}

// close ends the connection and returns when nothing of it is left.
func (c *conn) close() {
	c.link.close()
	<-c.done
	c.work.Wait()
}
