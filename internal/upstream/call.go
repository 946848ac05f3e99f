package upstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// maxSends is how often a request is sent if the server certainly did not run it, because the
// connection ended first or the HTTP session was lost.
const maxSends = 3

// errStarting means that the server was not ready in time.
var errStarting = errors.New("still starting")

// Start sends a request in its turn, without blocking. It calls done once with the outcome: an
// answer on the connection's reader, which done must not block, or an error on another goroutine.
// Start does not wait for done, and done may be called after ctx has ended.
//
// The request waits for a server that is starting. If the server is down or exits before it
// answers, the error is an *Unavailable, and the request is not retried because it may have run.
// A request that certainly did not run is retried, or the Answer beside the error says so. A
// request that is cancelled or times out before it is sent is never sent.
//
// Calling done on the reader saves a small call most of its cost: two goroutine switches.
func (l *Lease) Start(ctx context.Context, turn Turn, req *Request, done func(Answer, error)) {
	p := &pending{lease: l, ctx: ctx, turn: turn, req: req, done: done}
	if c := l.in.live(); c != nil && turn.ready() == nil && p.tryAdmit() {
		c.send(p)
		return
	}
	go p.wait()
}

// Call is like Start but waits for the outcome.
func (l *Lease) Call(ctx context.Context, turn Turn, req *Request) (answer Answer, err error) {
	done := make(chan struct{})
	l.Start(ctx, turn, req, func(a Answer, e error) {
		answer, err = a, e
		close(done)
	})
	<-done
	return answer, err
}

// pending is a request that has no outcome yet. Each attempt has a pending of its own, so that
// the timer and the context watch of an earlier attempt cannot affect a later one. It has more
// than 15 fields because a second type would cost each call a second allocation.
type pending struct {
	lease    *Lease // session for messages about the request; nil for a request of the proxy itself, which is sent at once and never retried
	ctx      context.Context
	turn     Turn
	req      *Request
	done     func(Answer, error) // called once
	admitted bool                // Request.Admit has succeeded; not called again
	attempts int                 // number of times it was passed to a connection
	sends    int                 // number of times it was sent to the server

	// Set by conn.trySend.
	c              *conn
	id             int64
	timer          *time.Timer             // nil without a timeout
	cancelExchange context.CancelCauseFunc // ends the HTTP exchange; nil without a timeout
	sending        sync.Mutex              // held while sending, so that the outcome is reported afterwards
	stopWatch      func() bool             // stops watching ctx; nil if not sent; guarded by sending

	limited atomic.Pointer[string] // the Retry-After header if the HTTP status was a rate limit
}

// wait sends the request once it has its turn, a live connection and admission.
func (p *pending) wait() {
	c, err := p.await()
	if err != nil {
		p.fail(Answer{Sends: p.sends}, err)
		return
	}
	c.send(p)
}

// await blocks until the request may be sent over a live connection. It limits the wait by the
// start timeout while the server is starting, and by the request's own timeout while it waits for
// its turn at a live server. Both count from the request's arrival or from the server's last
// change of state, whichever is later. So the waits of queued requests do not add up.
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
		ctx, cancel := p.bounded(arrived, at)
		if at.live != nil && ready == nil {
			err := p.admit(ctx)
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

// bounded returns the request's context with the limit of its wait since the given time.
func (p *pending) bounded(since time.Time, at *state) (context.Context, context.CancelFunc) {
	up, timeout := p.lease.in.up, p.req.Timeout
	switch {
	case at.live == nil && up.spec.StartTimeout > 0:
		err := fmt.Errorf("%w after %v", errStarting, up.spec.StartTimeout)
		if at.garbled {
			err = fmt.Errorf("%w: %w", err, errGarbled)
		}
		return context.WithDeadlineCause(p.ctx, since.Add(up.spec.StartTimeout), up.unavailable(err, at.stderr))
	case at.live != nil && timeout > 0 && p.turn != Turn{}: // without a turn the caller's ctx limits the wait
		err := fmt.Errorf("not sent within %v: waiting for the limit of its host, or of an earlier call's host", timeout)
		return context.WithDeadlineCause(p.ctx, since.Add(timeout), err)
	}
	return context.WithCancel(p.ctx)
}

// tryAdmit reports whether the request may be sent now.
func (p *pending) tryAdmit() bool {
	if p.req.Admit != nil && !p.admitted {
		ok, err := p.req.Admit(p.ctx, false)
		p.admitted = ok && err == nil
	}
	return p.req.Admit == nil || p.admitted
}

// admit blocks until the request may be sent.
func (p *pending) admit(ctx context.Context) error {
	if p.tryAdmit() {
		return nil
	}
	_, err := p.req.Admit(ctx, true)
	p.admitted = err == nil
	return err
}

// send sends a request and does not wait for its answer. p.finish reports the outcome on the
// connection's reader. If the request could not be sent, p.retryOrFail runs on another goroutine,
// and the request keeps its turn for the next connection.
func (c *conn) send(p *pending) {
	p.attempts++
	if p.lease != nil && !c.in.used.Load() {
		c.in.used.Store(true)
	}
	if c.http {
		p.markSent() // HTTP does not preserve the order of requests
	}
	if err := c.trySend(p); err != nil {
		go p.retryOrFail(Answer{Sends: p.sends}, err)
	}
}

// trySend registers the request and sends it. If it returns an error, the request was not sent.
func (c *conn) trySend(p *pending) error {
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
	err := errClosed
	if c.requests.add(p) {
		if err = context.Cause(p.ctx); err == nil { // otherwise the request was cancelled
			err = c.link.send(life, c.frame(p.id, p.req))
		}
	}
	if err == nil {
		if !c.http {
			p.markSent()
		}
		p.stopWatch = context.AfterFunc(p.ctx, func() { p.giveUp(context.Cause(p.ctx)) })
		return nil
	}
	c.requests.remove(p.id)
	p.release(err)
	switch {
	case errors.Is(err, errNotReading), neverRun(err):
		return err
	case p.ctx.Err() != nil:
		return context.Cause(p.ctx)
	}
	return errClosed // the link is closed, so the connection is ending
}

// markSent records that the request has been sent.
func (p *pending) markSent() {
	if p.req.Sent != nil {
		p.req.Sent()
	}
	p.turn.release(true)
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
	if !p.wasSent() || !c.requests.abandon(p, !dropped) {
		return
	}
	if !dropped {
		c.requests.noteUnfinished(c.in.up.writeSettle())
	}
	if !dropped && p.req.Method != "initialize" && p.req.Method != "server/discover" { // older servers fail on this notification
		params := strconv.AppendInt([]byte(`{"requestId":`), p.id, 10)
		params = jsonrpc.AppendString(append(params, `,"reason":`...), why.Error())
		c.notify("notifications/cancelled", append(params, '}'))
	}
	p.finish(jsonrpc.Message{}, why)
}

// expired cancels a request when its timeout has passed, unless the server is waiting for an
// answer of its client: a person may take any time.
func (p *pending) expired() {
	switch {
	case !p.wasSent():
	case p.c.questions.waiting():
		p.timer.Reset(p.req.Timeout)
	default:
		p.giveUp(ErrTimeout)
	}
}

// finish reports the outcome of a request that was removed from the table: the answer, or the
// error.
func (p *pending) finish(m jsonrpc.Message, err error) {
	if !p.wasSent() {
		return // conn.send reports the error
	}
	p.stopWatch()
	p.release(err)
	a := Answer{Sent: !neverRun(err)}
	if after := p.limited.Load(); after != nil {
		a.Limited, a.RetryAfter = true, *after
	}
	if a.Sent || errors.Is(err, errSessionLost) { // a lost session means the server received it
		p.sends++
	}
	a.Sends = p.sends
	if err != nil {
		go p.retryOrFail(a, err)
		return
	}
	if p.lease != nil && !p.c.served.Load() { // load first: an unconditional store would invalidate the cache line on other CPUs
		p.c.served.Store(true)
	}
	a.Message, a.Stateless = m, p.c.stateless()
	p.done(a, nil)
}

// retryOrFail retries a request that the server certainly did not run, and fails any other.
func (p *pending) retryOrFail(a Answer, err error) {
	if p.lease == nil || p.ctx.Err() != nil || errors.Is(err, ErrTimeout) {
		p.fail(a, err)
		return
	}
	notRun := errors.Is(err, errClosed) || errors.Is(err, errSessionLost)
	if !notRun || p.attempts == maxSends || p.req.Isolated {
		var stderr []string
		if p.c.ended() { // otherwise only this request failed, over HTTP
			stderr = p.c.stderr()
		}
		p.fail(a, p.lease.in.up.unavailable(err, stderr))
		return
	}
	select { // wait for the connection to end, so that it is not used for the retry
	case <-p.c.done:
		p.lease.in.disconnected(p.c)
	case <-p.ctx.Done():
	}
	retry := &pending{
		lease: p.lease, ctx: p.ctx, turn: p.turn, req: p.req, done: p.done,
		admitted: p.admitted, attempts: p.attempts, sends: p.sends,
	}
	retry.wait()
}

// fail reports the error and releases the turn.
func (p *pending) fail(a Answer, err error) {
	p.turn.release(true)
	p.done(a, err)
}

// ask sends a request of the proxy itself and waits for its result.
func (c *conn) ask(ctx context.Context, req *Request) (result []byte, err error) {
	done := make(chan struct{})
	c.send(&pending{ctx: ctx, req: req, done: func(a Answer, e error) {
		result, err = a.result(e)
		close(done)
	}})
	<-done
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req.Method, err)
	}
	return result, nil
}

// result returns the result of a request of the proxy itself. A JSON-RPC error is returned as an
// error.
func (a Answer) result(err error) ([]byte, error) {
	if err == nil && a.Error != nil {
		err = readError(a.Error)
	}
	return a.Result, err
}
