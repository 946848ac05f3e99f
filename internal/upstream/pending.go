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

// pending is a request without its answer.
type pending struct {
	c     *conn
	id    int64
	req   *Request
	lease *Lease                  // nil: it is the proxy's own
	done  func(Answer, error)     // called once if the request was sent, else never
	timer *time.Timer             // nil without a timeout
	drop  context.CancelCauseFunc // over HTTP, with a timeout: ends the exchange; else nil

	// Guarded by requests.mu while the request waits.
	activity   *activity // where it is counted; nil: nowhere
	limited    bool      // the answer's HTTP status said so
	retryAfter string    // the header beside it

	sending sync.Mutex  // held while the request is sent: its outcome is told after that
	sent    bool        // it was; guarded by sending
	unwatch func() bool // ends the watch over the request's context
}

// start sends a request of a lease, nil for the proxy's own, and does not wait for
// its answer. It calls sent when the link has taken the request. Then done is called
// once with the outcome: an answer on the connection's reader, the end of ctx or of
// the request's timeout on a goroutine of its own. If start returns an error, the
// request was not sent, and done is not called.
func (c *conn) start(ctx context.Context, lease *Lease, req *Request, sent func(), done func(Answer, error)) error {
	p := &pending{c: c, lease: lease, req: req, done: done}
	p.sending.Lock()
	defer p.sending.Unlock()
	life := ctx
	if req.Timeout > 0 {
		p.timer = time.AfterFunc(req.Timeout, p.expired)
		if c.http {
			life, p.drop = context.WithCancelCause(ctx)
		}
	}
	err := errClosed
	if c.requests.add(p) {
		if err = context.Cause(ctx); err == nil { // else it has been given up already
			err = c.link.send(life, c.frame(p.id, req))
		}
	}
	if err == nil {
		p.sent = true
		sent()
		p.unwatch = context.AfterFunc(ctx, func() { p.giveUp(context.Cause(ctx)) })
		return nil
	}
	c.requests.take(p.id, 0)
	p.release(err)
	switch {
	case errors.Is(err, errNotReading):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return errClosed // the link takes nothing more, so the connection ends
}

// wasSent waits until the request has been sent, and reports whether it was.
func (p *pending) wasSent() bool {
	p.sending.Lock()
	defer p.sending.Unlock()
	return p.sent
}

// release frees what a request holds that waits no more.
func (p *pending) release(why error) {
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.drop != nil {
		p.drop(why)
	}
}

// finish tells the outcome of a request that waits no more: its answer, or why there is
// none.
func (p *pending) finish(m jsonrpc.Message, err error) {
	if !p.wasSent() {
		return // start says so
	}
	p.unwatch()
	p.release(err)
	out := Answer{Sent: !neverRun(err), Limited: p.limited, RetryAfter: p.retryAfter}
	if err == nil {
		out.Result, out.Error, out.Whole, out.Stateless = m.Result, m.Error, m, p.c.stateless()
	}
	p.done(out, err)
}

// giveUp ends a request that has no answer yet.
func (p *pending) giveUp(why error) {
	c := p.c
	dropped := c.http && c.stateless() // ending its exchange cancels it
	if !p.wasSent() || !c.requests.abandon(p, c.in.up.writeSettle(), !dropped) {
		return
	}
	if !dropped && p.req.Method != "initialize" && p.req.Method != "server/discover" { // older servers choke on it
		params := strconv.AppendInt([]byte(`{"requestId":`), p.id, 10)
		params = jsonrpc.AppendString(append(params, `,"reason":`...), why.Error())
		c.notify("notifications/cancelled", append(params, '}'))
	}
	p.finish(jsonrpc.Message{}, why)
}

// expired gives up a request when its timeout has passed, unless the server waits for
// its client: a person may take as long as they like.
func (p *pending) expired() {
	switch {
	case !p.wasSent():
	case p.c.questions.mayConcern(p.id):
		p.timer.Reset(p.req.Timeout)
	default:
		p.giveUp(ErrTimeout)
	}
}

// ask sends a request of the proxy's own and waits for its result. sent is called when
// the link has taken the request.
func (c *conn) ask(ctx context.Context, req *Request, sent func()) (result []byte, err error) {
	done := make(chan struct{})
	failed := c.start(ctx, nil, req, sent, func(a Answer, e error) {
		if result, err = a.Result, e; e == nil && a.Error != nil {
			err = readError(a.Error)
		}
		close(done)
	})
	if failed != nil {
		err = failed
	} else {
		<-done
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req.Method, err)
	}
	return result, nil
}

// notify sends a notification, unless the server is gone.
func (c *conn) notify(method string, params []byte) {
	line := jsonrpc.AppendNotification(nil, method, params)
	if err := c.link.send(context.Background(), outgoing{line: line}); err != nil {
		c.in.up.log.Debug("notification not sent", "upstream", c.in.up.spec.Name, "method", method, "err", err)
	}
}
