package upstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// pending is a request that has no outcome yet. Each attempt has a pending of its own, so that
// the timer and the context watch of an earlier attempt cannot affect a later one. It has more
// than 15 fields because a second type would cost each call a second allocation.
type pending struct {
	lease    *Lease // session for messages about the request; nil for none
	internal bool   // made by the proxy itself: sent at once and never retried
	ctx      context.Context
	turn     Turn
	req      *Request
	done     func(Answer, error) // called once

	admitted bool // Request.Admit has succeeded; not called again
	attempts int  // number of times it was passed to a connection
	sends    int  // number of times it was sent to the server

	// Set by conn.trySend.
	c              *conn
	id             int64
	timer          *time.Timer             // nil without a timeout
	cancelExchange context.CancelCauseFunc // ends the HTTP exchange; nil without a timeout
	sending        sync.Mutex              // held while sending, so that the outcome is reported afterwards
	stopWatch      func() bool             // stops watching ctx; nil if not sent; guarded by sending

	// Guarded by requests.mu while the request is in its table.
	activity   *activity // the counts that include it; may be nil
	limited    bool      // the HTTP status was a rate limit
	retryAfter string    // the Retry-After header, if limited
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
	if !p.wasSent() || !c.requests.abandon(p, c.in.up.writeSettle(), !dropped) {
		return
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
	case p.c.questions.mayConcern(p.id):
		p.timer.Reset(p.req.Timeout)
	default:
		p.giveUp(ErrTimeout)
	}
}

// errStarting means that the server was not ready in time.
var errStarting = errors.New("still starting")

// waitLimit limits how long a request waits to be sent.
type waitLimit struct {
	deadline time.Time // zero means no limit
	err      error     // the error after the deadline
}

// context returns ctx with the deadline applied.
func (b waitLimit) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if b.deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, b.deadline, b.err)
}

// waitLimit returns the limit for a request that has waited since the given time: the start
// timeout while the server is starting, and the request's own timeout while it waits for its turn
// at a live server. Either counts from the request's arrival or from the server's last change of
// state, whichever is later. So the waits of queued requests do not add up.
func (p *pending) waitLimit(since time.Time, at *state) waitLimit {
	up, timeout := p.lease.in.up, p.req.Timeout
	switch {
	case at.live == nil && up.spec.StartTimeout > 0:
		err := fmt.Errorf("%w after %v", errStarting, up.spec.StartTimeout)
		if why := at.garbledErr(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
		return waitLimit{since.Add(up.spec.StartTimeout), up.unavailable(err, at.stderr)}
	case at.live != nil && timeout > 0 && p.turn != Turn{}: // without a turn the caller's ctx limits the wait
		return waitLimit{since.Add(timeout), fmt.Errorf("not sent within %v: waiting for the limit of its host, or of an earlier call's host", timeout)}
	}
	return waitLimit{}
}

// ask sends an internal request and waits for its result.
func (c *conn) ask(ctx context.Context, req *Request) (result []byte, err error) {
	done := make(chan struct{})
	c.send(&pending{internal: true, ctx: ctx, req: req, done: func(a Answer, e error) {
		result, err = a.result(e)
		close(done)
	}})
	<-done
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req.Method, err)
	}
	return result, nil
}

// result returns the result of an internal request. A JSON-RPC error is returned as an error.
func (a Answer) result(err error) ([]byte, error) {
	if err == nil && a.Error != nil {
		err = readError(a.Error)
	}
	return a.Result, err
}

// notify sends a notification if the connection is open.
func (c *conn) notify(method string, params []byte) {
	line := jsonrpc.AppendNotification(nil, method, params)
	if err := c.link.send(context.Background(), outgoing{line: line}); err != nil {
		c.in.up.log.Debug("notification not sent", "upstream", c.in.up.spec.Name, "method", method, "err", err)
	}
}
