package proxy

import (
	"context"
	"errors"
	"io"
	"strings"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/valuemodel"
)

// Connected is a client that reaches this process through another one.
type Connected struct {
	Only     string   // the one upstream that it sees; "": all
	Repeated []string // raw ids of its first requests that a process before may have had already

	// Begun is told of its session before the first request: prompted notes what the client's
	// user asks for from now on. nil: nothing is.
	Begun func(prompted func(words string))
}

// ServeConnected is ServeStdio for such a client. Of its requests that a process before may have
// had, and their servers too, what might do something twice is answered with that.
func (s *Server) ServeConnected(ctx context.Context, in io.Reader, out io.Writer, c Connected) error {
	o := s.front()
	o.Repeated = c.Repeated
	o.NewSession = func(client front.Client) front.Session {
		n := s.newSession(client)
		if c.Begun != nil {
			c.Begun(n.prompted)
		}
		return n
	}
	return front.ServeStdio(ctx, in, out, c.Only, o)
}

// prompted notes what the client's user asks for. They may have changed anything elsewhere
// since what was fetched early, and it says what the model will be after.
func (s *session) prompted(words string) {
	s.srv.store.ExpirePrefetches(func(scope string) bool {
		return scope == s.identity.scope || strings.HasPrefix(scope, everyone)
	})
	s.srv.prefetch.Prompted(&s.srv.policy.Load().Enrichment, &s.observed.Client, words)
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
