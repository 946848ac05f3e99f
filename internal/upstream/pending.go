package upstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// send hands a request to the server, and does not wait for its answer. The outcome is
// told by p.finish, an answer on the connection's reader, or by p.failed on a goroutine
// of its own where the request was not sent. The request keeps its turn then: it may be
// sent over the next connection.
func (c *conn) send(p *pending) {
	p.tries++
	if c.http {
		p.handed() // HTTP keeps no order between requests
	}
	if err := c.start(p); err != nil {
		go p.failed(Answer{Requests: p.requests}, err)
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
	case errors.Is(err, errNotReading):
		return err
	case p.ctx.Err() != nil:
		return context.Cause(p.ctx)
	}
	return errClosed // the link takes nothing more, so the connection ends
}

// wasSent waits until the request has been sent, and reports whether it was.
func (p *pending) wasSent() bool {
	p.sending.Lock()
	defer p.sending.Unlock()
	return p.unwatch != nil
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

// ask sends a request of the proxy's own and waits for its result.
func (c *conn) ask(ctx context.Context, req *Request) (result []byte, err error) {
	done := make(chan struct{})
	c.send(&pending{own: true, ctx: ctx, req: req, done: func(a Answer, e error) {
		result, err = a.result(e)
		close(done)
	}})
	<-done
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req.Method, err)
	}
	return result, nil
}

// result is what the server answered to a request of the proxy's own, which failed with
// err; its error is one, too.
func (a Answer) result(err error) ([]byte, error) {
	if err == nil && a.Error != nil {
		err = readError(a.Error)
	}
	return a.Result, err
}

// notify sends a notification, unless the server is gone.
func (c *conn) notify(method string, params []byte) {
	line := jsonrpc.AppendNotification(nil, method, params)
	if err := c.link.send(context.Background(), outgoing{line: line}); err != nil {
		c.in.up.log.Debug("notification not sent", "upstream", c.in.up.spec.Name, "method", method, "err", err)
	}
}
