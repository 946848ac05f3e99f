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
	admitted bool // by Request.Admit, which is asked once
	tries    int  // how often it was handed to a connection
	requests int  // how often it went out
}

// Start sends a request in its turn, and waits for nothing. done hears the outcome,
// once: on the connection's reader, which it must not hold up, if the request could
// be sent at once and has been answered, else on a goroutine of its own; its caller
// waits for that.
//
// A server that is starting is waited for; one that is away is an *Unavailable at
// once, as is one that ends before it has answered: the request is not repeated
// then, for it may have been run. Where it certainly has not been, it is sent again,
// or the answer says so beside the error. A request that is given up or times out
// before it is sent never is.
//
// That an answer is complete on the reader is for small calls, most of whose cost is
// the change from the goroutine that reads to one that waits, once each way.
func (l *Lease) Start(ctx context.Context, turn Turn, req *Request, done func(Answer, error)) {
	s := &outbound{lease: l, ctx: ctx, turn: turn, req: req, done: done}
	if c := l.in.live(); c != nil && turn.ask(req) == nil && s.admittedNow() {
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
	c, by, err := s.await()
	if err == nil {
		err = s.admit(by)
	}
	if err != nil {
		s.finish(Answer{Requests: s.requests}, err)
		return
	}
	s.send(c)
}

// send hands the request to a connection.
func (s *outbound) send(c *conn) {
	s.tries++
	if c.http {
		s.sent() // HTTP keeps no order between requests
	}
	err := c.start(s.ctx, s.lease, s.req, s.sent, func(a answer) {
		if a.err == nil {
			s.requests++
			s.done(c.answered(a, s.requests), nil)
			return
		}
		go s.failed(c, a)
	})
	if err != nil { // it keeps its turn: it may be sent over the next connection
		go func() { s.failed(c, answer{err: c.refused(s.ctx, err), unsent: true}) }()
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
func (s *outbound) failed(c *conn, a answer) {
	if !a.unsent || errors.Is(a.err, errSessionLost) { // which it has read and not run
		s.requests++
	}
	if s.ctx.Err() != nil || errors.Is(a.err, ErrTimeout) {
		s.finish(c.answered(a, s.requests), a.err)
		return
	}
	notRun := errors.Is(a.err, errClosed) || errors.Is(a.err, errSessionLost)
	if !notRun || s.tries == sendings || s.req.Alone {
		s.finish(c.answered(a, s.requests), s.lease.in.broke(c, a.err))
		return
	}
	s.lease.in.over(s.ctx, c)
	s.wait()
}

// finish tells that the request has failed, and gives up its place.
func (s *outbound) finish(a Answer, err error) {
	s.turn.leave(true)
	s.done(a, err)
}

// answered is what the caller learns of a request that went out so often.
func (c *conn) answered(a answer, requests int) Answer {
	said := Answer{Sent: !a.unsent, Requests: requests, Limited: a.limited, RetryAfter: a.retryAfter}
	if a.err == nil {
		said.Result, said.Error, said.Whole = a.msg.Result, a.msg.Error, a.msg
		said.Stateless = c.stateless()
	}
	return said
}

// errStarting: a server does not get ready.
var errStarting = errors.New("still starting")

// unsent says that a request's time was up before it could be sent.
func unsent(req *Request) error {
	return fmt.Errorf("not sent within %v: the limit of its host, or of that of an earlier call, did not let it", req.Timeout)
}

// await waits for the request's turn and for the connection, and says until when
// the request must have been sent; zero: there is no hurry. It waits at most the
// start timeout for a server that is starting, and at most the request's own for
// its turn at one that is there. Either counts from when the request came, or from
// when the server began to start or got ready if that was later: so the waits of
// requests behind each other do not add up, and a wait for the turn is none for the
// server.
func (s *outbound) await() (c *conn, by time.Time, err error) {
	in := s.lease.in
	for came := time.Now(); ; {
		turned := s.turn.ask(s.req)
		c, state, changed := in.status.now()
		by = time.Time{}
		bound := in.up.spec.StartTimeout
		if c != nil {
			bound = 0
			if s.turn != (Turn{}) { // else it is not in line, and its caller says how long it may wait
				bound = s.req.Timeout
			}
		}
		if bound > 0 {
			by = came
			if state.since.After(came) {
				by = state.since
			}
			by = by.Add(bound)
		}
		if c != nil && turned == nil {
			return c, by, nil
		}
		if c == nil && state.away != nil {
			return nil, by, in.up.unavailable(state.away, state.stderr)
		}
		waiting, cancel := s.ctx, context.CancelFunc(func() {})
		if bound > 0 {
			waiting, cancel = context.WithDeadline(s.ctx, by)
		}
		select {
		case <-turned:
		case <-changed:
		case <-waiting.Done():
			err = context.Cause(s.ctx)
			if err == nil && c != nil {
				err = unsent(s.req)
			} else if err == nil {
				err = in.up.unavailable(fmt.Errorf("%w after %v", errStarting, bound), state.stderr)
			}
		}
		cancel()
		if err != nil {
			return nil, by, err
		}
	}
}

// admittedNow reports whether the request may go at once.
func (s *outbound) admittedNow() bool {
	if !s.admitted && s.req.Admit != nil {
		ok, err := s.req.Admit(s.ctx, false)
		s.admitted = ok && err == nil
		return s.admitted
	}
	s.admitted = true
	return true
}

// admit waits until the request may go, at most until by. Nothing that is behind
// passes it any more when it returns.
func (s *outbound) admit(by time.Time) error {
	if s.admittedNow() {
		return nil
	}
	ctx := s.ctx
	if !by.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, by, unsent(s.req))
		defer cancel()
	}
	s.turn.waits(true)
	defer s.turn.waits(false)
	_, err := s.req.Admit(ctx, true)
	s.admitted = err == nil
	return err
}

// over waits until the instance has seen that connection c has ended, so that
// it is not handed out again.
func (in *instance) over(ctx context.Context, c *conn) {
	select {
	case <-c.done:
		in.status.disconnected(c)
	case <-ctx.Done():
	}
}

// broke words the end of a connection under a request.
func (in *instance) broke(c *conn, err error) error {
	var stderr []string
	select {
	case <-c.done:
		stderr = c.stderr()
	default: // one request failed, over HTTP: the connection lives
	}
	return in.up.unavailable(err, stderr)
}
