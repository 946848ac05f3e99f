package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/age"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// Request is one request to a server.
type Request struct {
	Method string
	Params []byte               // as the client wrote them; unused if Index is set
	Index  *revision.Params     // parsed params; nil if not parsed yet
	Target []byte               // raw JSON that replaces the routing member of params; nil leaves it
	Client *revision.Client     // the client's description for a stateless server; may be nil
	Token  bool                 // request progress notifications
	Notify func(string, []byte) // receives progress and the notifications on this request's stream; may be nil
	Ask    askFunc              // answers server requests on this request's stream; nil means Listener.Ask
	// ReadOnly means that the request changes nothing that any answer depends on.
	ReadOnly bool
	// Admit is called when the request has its turn and a live server, and returns nil if it may be
	// sent. Without wait it must not block; if it then returns any error, it is called again with
	// wait, and blocks until the request may be sent or fails. Nil admits every request.
	Admit func(ctx context.Context, wait bool) error
	// Fence is called at least once per attempt: over HTTP before each part of the body is written,
	// over stdio before the line is written or, if the process has left earlier ones unread, queued.
	// A queued line lands later than the fence, as one in the pipe does: of both it is assumed that
	// they land within Options.WriteSettle if the request is given up. If Fence returns an error,
	// nothing is written or queued and the request fails with that error. Nil means no fence.
	Fence func() error
	// Sent is called once per attempt, when the connection has accepted the request: over stdio its
	// line is written or queued, over HTTP its exchange has begun. It is called before the next
	// request in the queue is sent and before the outcome is reported. It may be nil.
	Sent func()
	// Isolated means that a rejection concerns only this request: it does not invalidate the
	// credentials or the session, and the request is not retried.
	Isolated bool
	// Timeout limits the wait for an answer and is restarted by progress; zero means none. It
	// also limits, separately, the wait for a turn at a live server.
	Timeout time.Duration
	// Late is called once, on the reader, with an answer that arrives after the request was cancelled or
	// timed out. It may be called before the caller is notified of that. It is not called if no
	// answer can arrive because the connection ended or the HTTP response was closed. It may be
	// nil.
	Late func(jsonrpc.Message)
}

// Answer is a server's answer to a request. If the request failed, the message is empty.
type Answer struct {
	jsonrpc.Message        // with a Result or an Error, unmodified but for line ends and invalid UTF-8; the caller may release its Buffer
	Stateless       bool   // the connection has a stateless revision
	Sent            bool   // the server may have received the request
	Limited         bool   // the HTTP status was 429, or 503 with Retry-After
	RetryAfter      string // the Retry-After header if Limited; may be empty
}

// encode encodes the request for the revision of a connection.
func (req *Request) encode(c *conn, id int64) outgoing {
	var number [20]byte
	raw := strconv.AppendInt(number[:0], id, 10)
	change := revision.Change{Method: req.Method, Target: req.Target}
	if req.Token {
		change.Token = raw
	}
	size := len(req.Method) + len(req.Target) + 128 // of all but the client's params
	stateless := c.stateless()
	if stateless {
		var client revision.Client
		if req.Client != nil {
			client = *req.Client
		}
		client.Version = c.revision()
		if c.in.up.spec.NoCapabilities {
			client.Capabilities = noCapabilities
		}
		change.Client = &client
		size += len(client.Info) + len(client.Capabilities) + 256
	}
	index := req.Index
	if index == nil {
		own := revision.NewParams(req.Params)
		index = &own
	}
	out := outgoing{id: id, isolated: req.Isolated, fence: req.Fence}
	if c.http && stateless {
		out.header = headers(c.in.offer.Load(), change.Client.Version, req.Method, req.Target, index)
	}
	line := jsonrpc.AppendRequestHead(make([]byte, 0, len(index.Raw())+size), raw, req.Method)
	head := jsonrpc.AppendMember(line, "params", nil)
	if whole := index.Append(head, change); len(whole) > len(head) {
		line = whole
	}
	out.line = append(line, '}')
	return out
}

// headers returns the HTTP headers of one request of the stateless era. Only the params that they
// repeat are decoded. A target that is not nil replaces the name in params.
func headers(offer *Offer, version, method string, target []byte, params *revision.Params) http.Header {
	header := make(http.Header)
	named := params.Named(method, target)
	for k, v := range mcp.StandardHeaders(version, mcp.MCPMethod(method), named) {
		header.Set(k, v)
	}
	if method == "tools/call" {
		item, _ := offer.Find(Tools, jsonrpc.Text(named, "name"))
		for k, v := range mcp.GenerateParamHeaders(item.HeaderParams(&params.Index)) {
			header.Set(k, v)
		}
	}
	return header
}

// maxSends is how often a request is sent if the server certainly did not run it, because the
// connection ended first or the HTTP session was lost.
const maxSends = 3

// errStarting means that the server was not ready in time.
var errStarting = errors.New("still starting")

// Send sends a request in its turn, without blocking. It calls done once with the outcome: an
// answer on the connection's reader, which done must not block, or an error on another goroutine.
// Send does not wait for done, and done may be called after ctx has ended.
//
// The request waits for a server that is starting. If the server is down or exits before it
// answers, the error is an *Unavailable, and the request is not sent again because it may have run.
// A request that certainly has not run, because the connection or its session had ended, is sent
// again. If any other certainly has not run, the Answer beside the error says so. A request that is
// cancelled or times out before it is sent is never sent.
//
// Calling done on the reader saves a small call most of its cost: two goroutine switches.
func (l *Lease) Send(ctx context.Context, turn *Turn, req *Request, done func(Answer, error)) {
	p := &pending{lease: l, ctx: ctx, turn: turn, req: req, done: done}
	if c := l.in.live(); c != nil && turn.ready() == nil && p.admit(ctx, false) == nil {
		p.send(c)
		return
	}
	go p.sendWhenReady()
}

// pending is a request that has no outcome yet. Each attempt has a pending of its own, so that
// the timer and the context watch of an earlier attempt cannot affect a later one.
type pending struct {
	lease    *Lease // of the session that made it; nil for a request of the proxy itself, which is sent at once and only once
	ctx      context.Context
	turn     *Turn
	req      *Request
	done     func(Answer, error) // called once
	admitted bool                // Request.Admit has succeeded; not called again
	attempts int                 // number of times it was passed to a connection

	// Set by trySend.
	c              *conn
	id             int64
	timer          *time.Timer             // nil without a timeout
	cancelExchange context.CancelCauseFunc // ends the HTTP exchange; nil without a timeout
	sending        sync.Mutex              // held while sending, so that the outcome is reported afterwards
	stopWatch      func() bool             // stops watching ctx; nil if not sent; guarded by sending

	limited atomic.Pointer[string] // Retry-After, if the HTTP status was a rate limit
}

// sendWhenReady sends the request once it has its turn, a live connection and admission.
func (p *pending) sendWhenReady() {
	c, err := p.await()
	if err != nil {
		p.fail(Answer{}, err)
		return
	}
	p.send(c)
}

// await blocks until the request has its turn, a live connection, which it returns, and admission.
// While the server is starting, the wait is limited by the start timeout, then by the request's own.
// Each limit counts from the request's arrival or the server's last change of state, whichever is
// later, so the waits of queued requests do not add up.
func (p *pending) await() (*conn, error) {
	for arrived := time.Now(); ; {
		ready := p.turn.ready()
		at := p.lease.in.state.Load()
		if at.live == nil && at.down != nil {
			return nil, p.lease.in.up.unavailable(at.down, at.stderr)
		}
		if at.since.After(arrived) {
			arrived = at.since
		}
		ctx, cancel := p.waitContext(arrived, at)
		if at.live != nil && ready == nil {
			err := p.admit(ctx, true)
			cancel()
			return at.live, err
		}
		select {
		case <-ready:
		case <-at.changed:
		case <-ctx.Done():
			cancel()
			return nil, context.Cause(ctx)
		}
		cancel()
	}
}

// waitContext returns the request's context with the limit of its wait since the given time.
func (p *pending) waitContext(since time.Time, at *state) (context.Context, context.CancelFunc) {
	up, timeout := p.lease.in.up, p.req.Timeout
	switch {
	case at.live == nil && up.spec.StartTimeout > 0:
		err := fmt.Errorf("%w after %s", errStarting, age.Text(up.spec.StartTimeout))
		if at.garbled != "" {
			err = fmt.Errorf("%w: %w", err, at.notMCP())
		}
		return context.WithDeadlineCause(p.ctx, since.Add(up.spec.StartTimeout), up.unavailable(err, at.stderr))
	case at.live != nil && timeout > 0 && (p.turn != nil || p.req.Isolated): // else the ctx of a plan limits the wait
		err := fmt.Errorf("not sent within %s: waiting for the limit of its host, or of an earlier call's host", age.Text(timeout))
		return context.WithDeadlineCause(p.ctx, since.Add(timeout), err)
	}
	return context.WithCancel(p.ctx)
}

// ErrMustWait is the error of a Request.Admit that must not wait, but would have to.
var ErrMustWait = errors.New("not admitted yet")

// admit returns nil if the request may be sent. With wait it blocks until that is so.
func (p *pending) admit(ctx context.Context, wait bool) error {
	if p.req.Admit == nil || p.admitted {
		return nil
	}
	err := p.req.Admit(ctx, wait)
	p.admitted = err == nil
	return err
}

// send passes the request to c and does not wait for its answer. A request that c does not accept
// keeps its turn, for the next connection.
func (p *pending) send(c *conn) {
	p.attempts++
	if p.lease != nil {
		c.in.used.Store(true)
		if !p.req.ReadOnly {
			c.in.wrote.Store(true)
		}
	}
	if err := p.trySend(c); err != nil {
		go p.retryOrFail(Answer{}, err)
	}
}

// trySend registers the request and sends it. If it returns an error, the request was not sent.
func (p *pending) trySend(c *conn) error {
	p.c = c
	p.sending.Lock()
	defer p.sending.Unlock()
	life := p.ctx
	if p.req.Timeout > 0 {
		p.timer = time.AfterFunc(p.req.Timeout, p.expired)
		if c.http {
			life, p.cancelExchange = context.WithCancelCause(p.ctx)
		}
	}
	err := c.requests.add(p)
	if err == nil {
		if err = context.Cause(p.ctx); err == nil { // otherwise the request was cancelled
			err = c.link.send(life, p.req.encode(c, p.id))
		}
	}
	if err == nil {
		if p.req.Sent != nil {
			p.req.Sent()
		}
		p.turn.release(true)
		p.stopWatch = context.AfterFunc(p.ctx, func() { p.giveUp(context.Cause(p.ctx)) })
		return nil
	}
	c.requests.remove(p.id, false, false)
	p.release(err)
	switch {
	case p.ctx.Err() != nil:
		return context.Cause(p.ctx)
	case notRun(err):
		return err
	}
	return errClosed // the link is closed, so the connection is ending
}

// wasSent waits until the attempt to send has finished, and reports whether it succeeded.
func (p *pending) wasSent() bool {
	p.sending.Lock()
	defer p.sending.Unlock()
	return p.stopWatch != nil
}

// release frees the timer and the HTTP exchange of the request.
func (p *pending) release(why error) {
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.cancelExchange != nil {
		p.cancelExchange(why)
	}
}

// giveUp cancels a request that has no answer yet.
func (p *pending) giveUp(why error) {
	c := p.c
	dropped := c.http && c.stateless() // closing the exchange cancels it
	if !p.wasSent() || c.requests.remove(p.id, !dropped, !dropped) == nil {
		return
	}
	if !dropped && p.req.Method != "initialize" && p.req.Method != "server/discover" { // older servers fail on this notification
		params := strconv.AppendInt([]byte(`{"requestId":`), p.id, 10)
		params = jsonrpc.AppendString(append(params, `,"reason":`...), why.Error())
		c.notify("notifications/cancelled", append(params, '}'))
	}
	p.finish(jsonrpc.Message{}, why)
}

// expired cancels a request when its timeout has passed, unless the server may be waiting for an
// answer of its client: a person may take any time.
func (p *pending) expired() {
	switch {
	case !p.wasSent():
	case p.c.questions.waiting(p):
		p.timer.Reset(p.req.Timeout)
	default:
		p.giveUp(ErrTimeout)
	}
}

// finish reports the outcome of a request that was removed from the table: the answer, or the
// error.
func (p *pending) finish(m jsonrpc.Message, err error) {
	if !p.wasSent() {
		return // trySend has returned the error
	}
	p.stopWatch()
	p.release(err)
	a := Answer{Sent: !notRun(err)}
	if after := p.limited.Load(); after != nil {
		a.Limited, a.RetryAfter = true, *after
	}
	if err != nil {
		p.c.questions.withdraw(p)
		go p.retryOrFail(a, err)
		return
	}
	if p.lease != nil {
		p.c.served.Store(true)
	}
	a.Message, a.Stateless = m, p.c.stateless()
	p.done(a, nil)
}

// retryOrFail sends the request again if err is retryable, and fails it otherwise.
func (p *pending) retryOrFail(a Answer, err error) {
	if p.lease == nil || p.ctx.Err() != nil || errors.Is(err, ErrTimeout) {
		p.fail(a, err)
		return
	}
	if !retryable(err) || p.attempts == maxSends || p.req.Isolated {
		var stderr []string
		switch end := context.Cause(p.c.life); {
		case end == errStopped && !notRun(err):
			err = errStopped
		case end != nil: // otherwise only this request failed, over HTTP
			stderr = p.c.stderr()
		}
		p.fail(a, p.lease.in.up.unavailable(err, stderr))
		return
	}
	select { // wait for the connection to end, so that it is not used for the retry
	case <-p.c.life.Done():
		p.lease.in.disconnected(p.c)
	case <-p.ctx.Done():
	}
	retry := &pending{
		lease: p.lease, ctx: p.ctx, turn: p.turn, req: p.req, done: p.done,
		admitted: p.admitted, attempts: p.attempts,
	}
	retry.sendWhenReady()
}

// fail reports the error and releases the turn.
func (p *pending) fail(a Answer, err error) {
	p.turn.release(true)
	p.done(a, err)
}

// ownRequest sends a request of the proxy itself and waits for its result.
func (c *conn) ownRequest(ctx context.Context, req *Request) (result []byte, err error) {
	done := make(chan struct{})
	c.startOwnRequest(ctx, req, func(r []byte, e error) {
		result, err = r, e
		close(done)
	})
	<-done
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req.Method, err)
	}
	return result, nil
}

// startOwnRequest sends a request of the proxy itself at once. It returns when the request was sent, and
// calls done with its result. An error response is an error.
func (c *conn) startOwnRequest(ctx context.Context, req *Request, done func(result []byte, err error)) {
	p := &pending{ctx: ctx, req: req, done: func(a Answer, err error) {
		if err == nil && a.Error != nil {
			err = jsonrpc.ReadError(a.Error)
		}
		done(a.Result, err)
	}}
	p.send(c)
}
