package upstream

import (
	"context"
	"errors"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// maxSends is how often a request is sent if the server certainly did not run it, because the
// connection ended first or the HTTP session was lost.
const maxSends = 3

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
	if c := l.in.status.live(); c != nil && turn.ready(req) == nil && p.tryAdmit() {
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

// wait sends the request once it has its turn, a live connection and admission.
func (p *pending) wait() {
	c, until, err := p.await()
	if err == nil {
		err = p.admit(until)
	}
	if err != nil {
		p.fail(Answer{Sends: p.sends}, err)
		return
	}
	c.send(p)
}

// await blocks until the request has its turn and there is a live connection.
func (p *pending) await() (*conn, waitLimit, error) {
	in := p.lease.in
	for arrived := time.Now(); ; {
		ready := p.turn.ready(p.req)
		at := in.status.now()
		switch {
		case at.live == nil && at.down != nil:
			return nil, waitLimit{}, in.up.unavailable(at.down, at.stderr)
		case at.since.After(arrived):
			arrived = at.since
		}
		until := p.waitLimit(arrived, at)
		if at.live != nil && ready == nil {
			return at.live, until, nil
		}
		ctx, cancel := until.context(p.ctx)
		select {
		case <-ready:
		case <-at.changed:
		case <-ctx.Done():
			cancel()
			return nil, waitLimit{}, context.Cause(ctx)
		}
		cancel()
	}
}

// tryAdmit reports whether the request may be sent now.
func (p *pending) tryAdmit() bool {
	if p.req.Admit != nil && !p.admitted {
		ok, err := p.req.Admit(p.ctx, false)
		p.admitted = ok && err == nil
	}
	return p.req.Admit == nil || p.admitted
}

// admit blocks until the request may be sent. Once it has returned, no request may pass this one.
func (p *pending) admit(until waitLimit) error {
	if p.tryAdmit() {
		return nil
	}
	ctx, cancel := until.context(p.ctx)
	defer cancel()
	p.turn.yield(true)
	defer p.turn.yield(false)
	_, err := p.req.Admit(ctx, true)
	p.admitted = err == nil
	return err
}

// send sends a request and does not wait for its answer. p.finish reports the outcome on the
// connection's reader. If the request could not be sent, p.retryOrFail runs on another goroutine,
// and the request keeps its turn for the next connection.
func (c *conn) send(p *pending) {
	p.attempts++
	if !p.internal && !c.in.used.Load() {
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
	c.requests.remove(p.id, 0)
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

// finish reports the outcome of a request that was removed from the table: the answer, or the
// error.
func (p *pending) finish(m jsonrpc.Message, err error) {
	if !p.wasSent() {
		return // conn.send reports the error
	}
	p.stopWatch()
	p.release(err)
	a := Answer{Sent: !neverRun(err), Limited: p.limited, RetryAfter: p.retryAfter}
	if a.Sent || errors.Is(err, errSessionLost) { // a lost session means the server received it
		p.sends++
	}
	a.Sends = p.sends
	switch {
	case err == nil:
		if !p.internal && !p.c.served.Load() { // load first: an unconditional store would invalidate the cache line on other CPUs
			p.c.served.Store(true)
		}
		a.Message, a.Stateless = m, p.c.stateless()
		p.done(a, nil)
	case p.internal:
		p.done(a, err)
	default:
		go p.retryOrFail(a, err)
	}
}

// retryOrFail retries a request that the server certainly did not run, and fails any other.
func (p *pending) retryOrFail(a Answer, err error) {
	if p.internal || p.ctx.Err() != nil || errors.Is(err, ErrTimeout) {
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
		p.lease.in.status.disconnected(p.c)
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
