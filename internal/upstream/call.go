package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// sendings is how often a request is sent that the server certainly has not
// run: over a connection that ended first, or in a session it had forgotten.
const sendings = 3

// outbound is a request of a lease on its way to the server.
type outbound struct {
	lease    *Lease
	ctx      context.Context
	turn     Turn
	req      *Request
	done     func(Answer, error)
	admitted bool      // by Request.Admit, which is asked once
	deadline time.Time // until when it may wait to be sent; zero: for ever
	late     error     // how it fails after that
	tries    int       // how often it was handed to a connection
	requests int       // how often it went out
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
	s := &outbound{lease: l, ctx: ctx, turn: turn, req: req, done: done}
	if c := l.in.status.live(); c != nil && turn.ask(req) == nil && s.admittedNow() {
		s.send(c)
		return
	}
	go s.wait()
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
func (s *outbound) wait() {
	c, err := s.await()
	if err == nil {
		err = s.admit()
	}
	if err != nil {
		s.finish(Answer{Requests: s.requests}, err)
		return
	}
	s.send(c)
}

// send hands the request to a connection. If that does not take it, it keeps its turn:
// it may be sent over the next one.
func (s *outbound) send(c *conn) {
	s.tries++
	if c.http {
		s.sent() // HTTP keeps no order between requests
	}
	err := c.start(s.ctx, s.lease, s.req, s.sent, func(a Answer, err error) {
		if err == nil {
			s.requests++
			a.Requests = s.requests
			s.done(a, nil)
			return
		}
		go s.failed(c, a, err)
	})
	if err != nil {
		go s.failed(c, Answer{}, err)
	}
}

// sent notes that the request has been handed to the server.
func (s *outbound) sent() {
	if s.req.Sent != nil {
		s.req.Sent()
	}
	s.turn.leave(true)
}

// failed ends a request that was not answered, or sends it again if the server has
// certainly not run it.
func (s *outbound) failed(c *conn, a Answer, err error) {
	if a.Sent || errors.Is(err, errSessionLost) { // then it was read, though not run
		s.requests++
	}
	a.Requests = s.requests
	if s.ctx.Err() != nil || errors.Is(err, ErrTimeout) {
		s.finish(a, err)
		return
	}
	notRun := errors.Is(err, errClosed) || errors.Is(err, errSessionLost)
	if !notRun || s.tries == sendings || s.req.Alone {
		var stderr []string
		if c.ended() { // else one request failed, over HTTP
			stderr = c.stderr()
		}
		s.finish(a, s.lease.in.up.unavailable(err, stderr))
		return
	}
	select { // until the connection has ended, so that it is not handed out again
	case <-c.done:
		s.lease.in.status.disconnected(c)
	case <-s.ctx.Done():
	}
	s.wait()
}

// finish tells that the request has failed, and gives up its place.
func (s *outbound) finish(a Answer, err error) {
	s.turn.leave(true)
	s.done(a, err)
}

// errStarting: the server did not get ready in time.
var errStarting = errors.New("still starting")

// await waits for the request's turn and for the connection.
func (s *outbound) await() (*conn, error) {
	in := s.lease.in
	for came := time.Now(); ; {
		turned := s.turn.ask(s.req)
		at, changed := in.status.now()
		switch {
		case at.live == nil && at.away != nil:
			return nil, in.up.unavailable(at.away, at.stderr)
		case at.since.After(came):
			came = at.since
		}
		s.limit(came, at)
		if at.live != nil && turned == nil {
			return at.live, nil
		}
		ctx, cancel := s.bounded()
		select {
		case <-turned:
		case <-changed:
		case <-ctx.Done():
			cancel()
			return nil, context.Cause(ctx)
		}
		cancel()
	}
}

// limit sets the deadline of a request that waits since then. It waits at most the
// start timeout for a server that is starting, and at most its own timeout for its
// turn at one that is there. Either counts from when the request came, or from when
// the server began to start or got ready if that was later: so the waits of requests
// behind each other do not add up, and a wait for the turn is none for the server.
func (s *outbound) limit(then time.Time, at state) {
	up, own := s.lease.in.up, s.req.Timeout
	s.deadline = time.Time{}
	switch {
	case at.live == nil && up.spec.StartTimeout > 0:
		s.deadline = then.Add(up.spec.StartTimeout)
		s.late = up.unavailable(fmt.Errorf("%w after %v", errStarting, up.spec.StartTimeout), at.stderr)
	case at.live != nil && own > 0 && s.turn != Turn{}: // what stands in no queue waits as long as its caller says
		s.deadline = then.Add(own)
		s.late = fmt.Errorf("not sent within %v: the limit of its host, or of that of an earlier call, did not let it", own)
	}
}

// bounded is the request's context until its deadline.
func (s *outbound) bounded() (context.Context, context.CancelFunc) {
	if s.deadline.IsZero() {
		return context.WithCancel(s.ctx)
	}
	return context.WithDeadlineCause(s.ctx, s.deadline, s.late)
}

// admittedNow reports whether the request may be sent at once.
func (s *outbound) admittedNow() bool {
	if s.req.Admit != nil && !s.admitted {
		ok, err := s.req.Admit(s.ctx, false)
		s.admitted = ok && err == nil
	}
	return s.req.Admit == nil || s.admitted
}

// admit waits until the request may be sent. When it returns, no request passes this
// one any more.
func (s *outbound) admit() error {
	if s.admittedNow() {
		return nil
	}
	ctx, cancel := s.bounded()
	defer cancel()
	s.turn.waits(true)
	defer s.turn.waits(false)
	_, err := s.req.Admit(ctx, true)
	s.admitted = err == nil
	return err
}
