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

// bound is that of a request that waits since then. It waits at most the
// start timeout for a server that is starting, and at most its own timeout for its
// turn at one that is there. Either counts from when the request came, or from when
// the server began to start or got ready if that was later: so the waits of requests
// behind each other do not add up, and a wait for the turn is none for the server.
func (p *pending) bound(then time.Time, at *state) bound {
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
