package upstream

import (
	"context"
	"errors"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// sendings is how often a request is sent that the server certainly has not
// run: over a connection that ended first, or in a session it had forgotten.
const sendings = 3

// Start sends a request in its turn and returns without waiting for anything. done is
// called once with the outcome: an answer on the connection's reader, which done must
// not hold up, an error on a goroutine of its own. Start does not wait for done; a
// caller that must not end before it does so itself.
//
// The request waits for a server that is starting. If the server is away, or ends
// before it has answered, the error is an *Unavailable; the request is not repeated
// then, because it may have been run. If it certainly has not been run, it is sent
// again, or the answer says so beside the error. A request that is given up or times
// out before it is sent is never sent.
//
// Calling done on the reader saves a small call most of its cost: the switches to a
// goroutine that waits and back.
func (l *Lease) Start(ctx context.Context, turn Turn, req *Request, done func(Answer, error)) {
	p := &pending{lease: l, ctx: ctx, turn: turn, req: req, done: done}
	if c := l.in.status.live(); c != nil && turn.ask(req) == nil && p.admittedNow() {
		c.send(p)
		return
	}
	go p.wait()
}

// Call is Start for a caller that waits for the outcome.
func (l *Lease) Call(ctx context.Context, turn Turn, req *Request) (answer Answer, err error) {
	done := make(chan struct{})
	l.Start(ctx, turn, req, func(a Answer, e error) {
		answer, err = a, e
		close(done)
	})
	<-done
	return answer, err
}

// wait sends the request once its turn has come, its server is there and it is
// admitted.
func (p *pending) wait() {
	c, until, err := p.await()
	if err == nil {
		err = p.admit(until)
	}
	if err != nil {
		p.fail(Answer{Sends: p.requests}, err)
		return
	}
	c.send(p)
}

// await waits for the request's turn and for the connection.
func (p *pending) await() (*conn, bound, error) {
	in := p.lease.in
	for came := time.Now(); ; {
		turned := p.turn.ask(p.req)
		at := in.status.now()
		switch {
		case at.live == nil && at.away != nil:
			return nil, bound{}, in.up.unavailable(at.away, at.stderr)
		case at.since.After(came):
			came = at.since
		}
		until := p.bound(came, at)
		if at.live != nil && turned == nil {
			return at.live, until, nil
		}
		ctx, cancel := until.context(p.ctx)
		select {
		case <-turned:
		case <-at.changed:
		case <-ctx.Done():
			cancel()
			return nil, bound{}, context.Cause(ctx)
		}
		cancel()
	}
}

// admittedNow reports whether the request may be sent at once.
func (p *pending) admittedNow() bool {
	if p.req.Admit != nil && !p.admitted {
		ok, err := p.req.Admit(p.ctx, false)
		p.admitted = ok && err == nil
	}
	return p.req.Admit == nil || p.admitted
}

// admit waits until the request may be sent. When it returns, no request passes this
// one any more.
func (p *pending) admit(until bound) error {
	if p.admittedNow() {
		return nil
	}
	ctx, cancel := until.context(p.ctx)
	defer cancel()
	p.turn.waits(true)
	defer p.turn.waits(false)
	_, err := p.req.Admit(ctx, true)
	p.admitted = err == nil
	return err
}

// send hands a request to the server, and does not wait for its answer. The outcome is
// told by p.finish, an answer on the connection's reader, or by p.failed on a goroutine
// of its own where the request was not sent. The request keeps its turn then: it may be
// sent over the next connection.
func (c *conn) send(p *pending) {
	p.tries++
	if !p.own && !c.in.asked.Load() {
		c.in.asked.Store(true)
	}
	if c.http {
		p.handed() // HTTP keeps no order between requests
	}
	if err := c.start(p); err != nil {
		go p.failed(Answer{Sends: p.requests}, err)
	}
}

// start is send without what comes before and after. If it returns an error, the request
// was not sent.
func (c *conn) start(p *pending) error {
	p.c = c
	p.sending.Lock()
	defer p.sending.Unlock()
	life := p.ctx
	if p.req.Timeout > 0 {
		p.timer = time.AfterFunc(p.req.Timeout, p.expired)
		if c.http {
			life, p.drop = context.WithCancelCause(p.ctx)
		}
	}
	err := errClosed
	if c.requests.add(p) {
		if err = context.Cause(p.ctx); err == nil { // else it has been given up already
			err = c.link.send(life, c.frame(p.id, p.req))
		}
	}
	if err == nil {
		if !c.http {
			p.handed()
		}
		p.unwatch = context.AfterFunc(p.ctx, func() { p.giveUp(context.Cause(p.ctx)) })
		return nil
	}
	c.requests.take(p.id, 0)
	p.release(err)
	switch {
	case errors.Is(err, errNotReading), neverRun(err):
		return err
	case p.ctx.Err() != nil:
		return context.Cause(p.ctx)
	}
	return errClosed // the link takes nothing more, so the connection ends
}

// handed notes that the request has been handed to the server.
func (p *pending) handed() {
	if p.req.Sent != nil {
		p.req.Sent()
	}
	p.turn.release(true)
}

// finish tells the outcome of a request that waits for its answer no more: the answer, or
// why there is none.
func (p *pending) finish(m jsonrpc.Message, err error) {
	if !p.wasSent() {
		return // conn.send says so
	}
	p.unwatch()
	p.release(err)
	a := Answer{Sent: !neverRun(err), Limited: p.limited, RetryAfter: p.retryAfter}
	if a.Sent || errors.Is(err, errSessionLost) { // then it was read, though not run
		p.requests++
	}
	a.Sends = p.requests
	switch {
	case err == nil:
		if !p.own && !p.c.served.Load() { // read first: a store would take the line from other processors
			p.c.served.Store(true)
		}
		a.Message, a.Stateless = m, p.c.stateless()
		p.done(a, nil)
	case p.own:
		p.done(a, err)
	default:
		go p.failed(a, err)
	}
}

// failed ends a request that was not answered, or sends it again if the server has
// certainly not run it.
func (p *pending) failed(a Answer, err error) {
	if p.own || p.ctx.Err() != nil || errors.Is(err, ErrTimeout) {
		p.fail(a, err)
		return
	}
	notRun := errors.Is(err, errClosed) || errors.Is(err, errSessionLost)
	if !notRun || p.tries == sendings || p.req.Isolated {
		var stderr []string
		if p.c.ended() { // else one request failed, over HTTP
			stderr = p.c.stderr()
		}
		p.fail(a, p.lease.in.up.unavailable(err, stderr))
		return
	}
	select { // until the connection has ended, so that it is not handed out again
	case <-p.c.done:
		p.lease.in.status.disconnected(p.c)
	case <-p.ctx.Done():
	}
	again := &pending{
		lease: p.lease, ctx: p.ctx, turn: p.turn, req: p.req, done: p.done,
		admitted: p.admitted, tries: p.tries, requests: p.requests,
	}
	again.wait()
}

// fail tells that the request has failed, and gives up its place.
func (p *pending) fail(a Answer, err error) {
	p.turn.release(true)
	p.done(a, err)
}
