package proxy

import (
	"context"
	"errors"
	"io"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/valuemodel"
)

// ServeAgain is ServeStdio for a client that another process has served until that ended. It
// may have had those first requests that have one of these raw ids, and their servers too: what
// might do something twice is answered with that.
func (s *Server) ServeAgain(ctx context.Context, stream io.ReadWriter, only string, repeated []string) error {
	o := s.front()
	o.Repeated = repeated
	return front.ServeStdio(ctx, stream, stream, only, o)
}

var errOutcomeUnknown = errors.New("outcome unknown: the process of mcpschedd that had the call has ended; it was not made again, as it may have been run")

// repeatable reports whether the call may be made although it may have been made: it asks for
// nothing but what may be asked at any time, costs nothing, and tells no third party anything.
func (c *upstreamCall) repeatable() bool {
	if c.method != "tools/call" {
		return reads(c.method)
	}
	m := c.s.srv.catalog.model(c.policy, c.lease, c.tool)
	learned := c.s.srv.prefetch.Tool(c.lease.member.key, c.tool)
	return c.class.kind.Reads() && !c.class.task && c.params.Get("requestState") == nil &&
		m.Speculate != nil && *m.Speculate && m.Cost.Dollars == 0 && m.Disclosure == valuemodel.SameService &&
		(!untrustedHint(m) || learned.Proven) && !learned.Barred && !learned.CrashesServer
}

// refuseRepeat has a request be answered with its outcome being unknown. What its call may
// have changed, if it has one, is reckoned with as if it were under way.
func (x *request) refuseRepeat() {
	if x.call == nil {
		x.local = func() { x.finish(failedResult(errOutcomeUnknown)) }
		return
	}
	x.call.pending.Swap(nil).Doubt()
	x.local = func() {
		x.call.observeResult(x.ctx, outcome{err: errOutcomeUnknown})
		if x.msg.Method == "tools/call" {
			x.finish(failedResult(errOutcomeUnknown))
		} else {
			x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: errOutcomeUnknown.Error()})
		}
	}
}
