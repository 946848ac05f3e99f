package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// sendings is how often a request is sent that the server certainly has not
// run: over a connection that ended first, or in a session it had forgotten.
const sendings = 3

// pending is a request that has no outcome yet. Sent again, it is another pending, so that
// what still belongs to the earlier sending (its timer, the end of its context) cannot
// touch the later one. It has more than 15 fields because it is all that there is of a
// request: two types would be two allocations for each call.
type pending struct {
	lease *Lease // what the server says about it is for this session; nil: for none
	own   bool   // the proxy's own: it waits for nothing, and is not sent again
	ctx   context.Context
	turn  Turn
	req   *Request
	done  func(Answer, error) // called once

	admitted bool // by Request.Admit, which is asked once
	tries    int  // how often it was handed to a connection
	requests int  // how often it went out

	// Of its sending, see conn.send.
	c       *conn
	id      int64
	timer   *time.Timer             // nil without a timeout
	drop    context.CancelCauseFunc // over HTTP, with a timeout: ends the exchange; else nil
	sending sync.Mutex              // held while the request is sent: its outcome is told after that
	unwatch func() bool             // ends the watch over its context; nil: it was not sent. Guarded by sending

	// Guarded by requests.mu while the request waits for its answer.
	activity   *activity // where it is counted; nil: nowhere
	limited    bool      // the answer's HTTP status said so
	retryAfter string    // the header beside it
}

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
		p.fail(Answer{Requests: p.requests}, err)
		return
	}
	c.send(p)
}

// handed notes that the request has been handed to the server.
func (p *pending) handed() {
	if p.req.Sent != nil {
		p.req.Sent()
	}
	p.turn.leave(true)
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
	a.Requests = p.requests
	switch {
	case err == nil:
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
	if !notRun || p.tries == sendings || p.req.Alone {
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
	p.turn.leave(true)
	p.done(a, err)
}

// errStarting: the server did not get ready in time.
var errStarting = errors.New("still starting")

// bound is how long a request may wait to be sent.
type bound struct {
	deadline time.Time // zero: for ever
	late     error     // how it fails after that
}

// context is ctx until the deadline.
func (b bound) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if b.deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, b.deadline, b.late)
}

// await waits for the request's turn and for the connection.
func (p *pending) await() (*conn, bound, error) {
	in := p.lease.in
	for came := time.Now(); ; {
		turned := p.turn.ask(p.req)
		at, changed := in.status.now()
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
		case <-changed:
		case <-ctx.Done():
			cancel()
			return nil, bound{}, context.Cause(ctx)
		}
		cancel()
	}
}

// bound is that of a request that waits since then. It waits at most the
// start timeout for a server that is starting, and at most its own timeout for its
// turn at one that is there. Either counts from when the request came, or from when
// the server began to start or got ready if that was later: so the waits of requests
// behind each other do not add up, and a wait for the turn is none for the server.
func (p *pending) bound(then time.Time, at state) bound {
	up, own := p.lease.in.up, p.req.Timeout
	switch {
	case at.live == nil && up.spec.StartTimeout > 0:
		late := fmt.Errorf("%w after %v", errStarting, up.spec.StartTimeout)
		if why := at.garble(); why != nil {
			late = fmt.Errorf("%w: %w", late, why)
		}
		return bound{then.Add(up.spec.StartTimeout), up.unavailable(late, at.stderr)}
	case at.live != nil && own > 0 && p.turn != Turn{}: // what stands in no queue waits as long as its caller says
		return bound{then.Add(own), fmt.Errorf("not sent within %v: the limit of its host, or of that of an earlier call, did not let it", own)}
	}
	return bound{}
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
