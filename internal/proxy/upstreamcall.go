package proxy

import (
	"context"
	"errors"
	"sync/atomic"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// upstreamCall is one request for an upstream as the policy sees it: what it may change,
// and whether anything but the upstream may answer it.
type upstreamCall struct {
	s      *session
	lease  *leased
	turn   upstream.Turn // its place in the order of sending; a prefetch and a step of a plan have none
	method string        // tools/call, or another
	tool   string        // of a tools/call, as its upstream names it
	target []byte        // raw, of what it names, where its upstream has another name for that than the client; else nil
	params *revision.Params

	policy   *policy     // by which it was routed and is classified: the one snapshot for all of it
	class    callClass   // what that says of it
	seen     *observed   // nil: it is no tools/call
	part     *planPart   // the step of a plan that it is; nil: of none
	answered atomic.Bool // by its upstream, which does not work on it any more
	late     func()      // of a prefetch: called when its server has answered after all; nil: of none

	// pending is what the call may change, as the store knows it: from its arrival until
	// it is sent, which takes it over, or will not be. nil: it has been taken over.
	pending atomic.Pointer[dedup.PendingWrite]
}

// arrive classifies the call by the policy that it was routed by, and notes with the store what
// it may change: on the reader of its session, before the next message is read, and once
// more before it is made again. If the policy has changed meanwhile, that is done over:
// the write registers before the policy is read again, so one of the two always sees the
// other.
func (c *upstreamCall) arrive() {
	srv := c.s.srv
	for {
		version := srv.catalog.version.Load()
		c.class = c.classify(c.policy)
		write := srv.store.Arrive(c.class.effect)
		now := srv.policy.Load()
		if now == c.policy && version == srv.catalog.version.Load() {
			c.pending.Store(write)
			return
		}
		write.End()
		c.policy = now
	}
}

// drop ends the pending write of a call that was not sent.
func (c *upstreamCall) drop() {
	if write := c.pending.Swap(nil); write != nil {
		write.End()
	}
}

// release ends a call that goes no further: its place is free, and what it might have
// changed if it had been sent is not pending any more.
func (c *upstreamCall) release() {
	c.drop()
	c.turn.Leave()
}

// send hands the request to its upstream, within the limits of its host, and waits
// for nothing: done is called with the outcome, once.
func (c *upstreamCall) send(ctx context.Context, turn upstream.Turn, req *upstream.Request, done func(outcome)) {
	enter := enterHost
	if c.part.gated() {
		enter = enterGated
	}
	c.sendPaced(ctx, turn, req, enter, done)
}

// enterHost finds a client's call a slot at its host.
func enterHost(ctx context.Context, c *upstreamCall, wait bool) (*limit.Slot, error) {
	limits, host := c.s.srv.limits, c.class.host
	if wait {
		return limits.Enter(ctx, host)
	}
	slot, _ := limits.TryEnter(host)
	return slot, nil
}

// sendPaced is send once enter has found the request a slot. Where enter must not
// wait and there is none, it returns nil.
func (c *upstreamCall) sendPaced(ctx context.Context, turn upstream.Turn, req *upstream.Request, enter enterFunc, done func(outcome)) {
	write, slot := c.pending.Swap(nil), (*limit.Slot)(nil)
	req.Late = func() {
		write.End()
		if c.seen != nil {
			c.seen.timing.Late()
		}
		if c.late != nil {
			c.late()
		}
	}
	req.Reads, req.Host = onlyReads(c.method, c.class.kind), c.class.host
	req.Admit = func(ctx context.Context, wait bool) (ok bool, err error) {
		if slot, err = enter(ctx, c, wait); slot == nil {
			return false, err
		}
		c.sent()
		return true, nil
	}
	c.lease.Start(ctx, turn, req, func(answer upstream.Answer, err error) {
		if slot != nil {
			v := verdict(answer, err)
			c.returned(err, v.Limited)
			slot.Leave(v)
		}
		c.settle(write, answer, err)
		done(outcome{answer: answer, err: err})
	})
}

// enterFunc finds a call a slot at its host, waiting for it or not.
type enterFunc = func(ctx context.Context, c *upstreamCall, wait bool) (*limit.Slot, error)

// unavailable reports whether a call failed because its server was not there, or is not
// any more: else that may still be at it, although the proxy waits no longer.
func unavailable(err error) bool {
	_, away := errors.AsType[*upstream.Unavailable](err)
	return away
}

// notSent is the verdict on a request that was not sent: its host has not been tried.
var notSent = limit.Verdict{Failed: true}

// gate is asked whether a call may be sent, when there is a slot for it: it may have
// waited long for that. It returns why not, or a channel that is closed when it is to be
// asked again; nil: the call may be sent now.
type gate func() (again <-chan struct{}, err error)

// enterGated finds the call of a plan a slot with which its gate lets it pass.
func enterGated(ctx context.Context, c *upstreamCall, wait bool) (*limit.Slot, error) {
	for wait {
		slot, err := enterHost(ctx, c, true)
		if err != nil {
			return nil, err
		}
		again, err := c.part.gate()
		if again == nil && err == nil {
			return slot, nil
		}
		slot.Leave(notSent) // which others need meanwhile
		if err != nil {
			return nil, err
		}
		select {
		case <-again:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return nil, nil
}

// settle ends a pending write with what is known of the outcome: what was not answered
// may still be run, and a task goes on after the answer that names it.
func (c *upstreamCall) settle(write *dedup.PendingWrite, answer upstream.Answer, err error) {
	if c.seen != nil && answer.Requests > 0 {
		c.s.srv.recorder.sent(c, answer.Requests)
	}
	if err != nil && answer.Sent && !answer.Limited {
		write.Doubt()
		c.part.noteDoubt()
		return
	}
	if err == nil {
		if id, ok := taskBegun(answer, c.class.task); ok {
			c.s.tasks.begin(c.lease, id, write)
			return
		}
	}
	write.End()
}
