package upstream

import (
	"context"
	"errors"
	"sync"
	"time"
)

// begun is a request whose answer nobody waits for on a goroutine: whoever brings
// it calls done.
type begun struct {
	done func(answer) // called once if the request was sent, else never
	mu   sync.Mutex   // held while the request is sent: what ends it comes after
	sent bool
	stop func() bool // if sent: ends the watch over the context of the request
}

// Begin sends a request that nothing stands in the way of: its turn has come, and
// its server is a process that is there. It does not wait for the answer, and says
// whether the request was sent; if not, nothing has happened, and Call does the
// rest. done is called once, with what Call would return: an answer on the
// connection's reader, which done must not hold up, an error on a goroutine of its
// own, beside which the answer says that it was sent.
//
// It is for small calls, most of whose cost is the change from the goroutine that
// reads to one that waits, once each way.
func (l *Lease) Begin(ctx context.Context, turn Turn, req *Request, done func(Answer, error)) bool {
	c := l.in.live.Load()
	if c == nil || c.http || turn.ask(req) != nil || req.TryPace != nil && !req.TryPace() {
		return false
	}
	sent := c.begin(ctx, l, req, func(a answer) {
		if a.err == nil {
			done(c.answered(a, 1), nil)
			return
		}
		go func() { // whoever called Begin waits for done
			if errors.Is(a.err, errEnded) {
				<-c.done // at once, and with it what the process said last
			}
			if ctx.Err() == nil && !errors.Is(a.err, ErrTimeout) {
				a.err = l.in.broke(c, a.err)
			}
			done(c.answered(a, 1), a.err)
		}()
	})
	if sent {
		if req.Sent != nil {
			req.Sent()
		}
		turn.leave(true)
	}
	return sent
}

// begin sends a request and says whether it did; if so, done is called once.
func (c *conn) begin(ctx context.Context, of *Lease, req *Request, done func(answer)) bool {
	b := &begun{done: done}
	p := &pending{id: c.next.Add(1), of: of, req: req, begun: b}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.mu.Lock()
	if c.err != nil || ctx.Err() != nil {
		c.mu.Unlock()
		return false
	}
	c.enterLocked(p)
	if req.Timeout > 0 {
		p.timer = time.AfterFunc(req.Timeout, func() {
			c.expired(p, func(err error) { go c.giveUp(p, err) })
		})
	}
	c.mu.Unlock()
	b.sent = c.link.send(ctx, c.frame(p.id, req)) == nil
	if b.sent {
		b.stop = context.AfterFunc(ctx, func() { c.giveUp(p, context.Cause(ctx)) })
		return true
	}
	c.take(p.id)
	if p.timer != nil {
		p.timer.Stop()
	}
	return false
}

// giveUp ends a request that was begun and has no answer yet.
func (c *conn) giveUp(p *pending, why error) {
	p.begun.mu.Lock()
	sent := p.begun.sent
	p.begun.mu.Unlock()
	if sent && c.abandon(p) {
		c.cancelled(p, why)
		p.settle(answer{err: why})
	}
}

// settle hands over the answer to a request, which waits no more.
func (p *pending) settle(a answer) {
	a.limited, a.retryAfter = p.limited, p.retryAfter
	b := p.begun
	if b == nil {
		p.answer <- a
		return
	}
	b.mu.Lock()
	sent := b.sent
	b.mu.Unlock()
	if !sent {
		return
	}
	b.stop()
	if p.timer != nil {
		p.timer.Stop()
	}
	b.done(a)
}
