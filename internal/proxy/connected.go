package proxy

import (
	"context"
	"errors"
	"io"
	"strings"

	"mcpschedd/internal/front"
	"mcpschedd/internal/valuemodel"
)

// Connected describes a client that is connected through another process.
type Connected struct {
	Only         string   // only server that the client sees; "" means all
	Replayed     []string // raw ids of first requests that an earlier process may have received already
	ServedBefore bool     // by an earlier process, which may have shown other lists, and sent writes of unknown outcome

	// Begun, if not nil, is called with the new session before its first request. The
	// connecting process calls prompted with each prompt of the client's user.
	Begun func(prompted func(words string))
}

// ServeConnected is like [Server.ServeStdio] for such a client. If a request in Replayed may
// have an effect when it runs twice, the response is an error instead.
func (s *Server) ServeConnected(ctx context.Context, in io.Reader, out io.Writer, c Connected) error {
	o := s.front()
	o.Replayed = c.Replayed
	o.NewSession = func(client front.Client) front.Session {
		n := s.newSession(client)
		if c.ServedBefore {
			n.lists.outdate()
			s.common.store.DoubtAll()
		}
		if c.Begun != nil {
			c.Begun(n.prompted)
		}
		return n
	}
	return front.ServeStdio(ctx, in, out, c.Only, o)
}

// prompted handles a prompt of the client's user. The user may have changed data outside the
// proxy since results were prefetched, so those are invalidated. The words of the prompt help
// to predict calls.
func (s *session) prompted(words string) {
	s.srv.common.store.ExpirePrefetches(func(scope string) bool {
		return scope == s.identity.scope || strings.HasPrefix(scope, everyone)
	})
	s.srv.prefetch.Prompted(&s.observed.Session, words)
}

var errOutcomeUnknown = errors.New("outcome unknown: the mcpschedd process that received the call has ended; the call was not repeated, since it may have run")

// repeatable reports whether the call may run a second time: it only reads, costs nothing and
// discloses nothing to third parties.
func (c *upstreamCall) repeatable() bool {
	if c.method != "tools/call" {
		return reads(c.method)
	}
	m := c.s.srv.catalog.Tool(c.policy.Policy, c.lease, c.tool).Model
	learned := c.s.srv.prefetch.Tool(c.lease.Member.Key, c.tool)
	return c.class.kind.Reads() && c.params.Get("task") == nil && c.params.Get("requestState") == nil &&
		m.Speculate != nil && *m.Speculate && m.Cost.Dollars == 0 && m.Disclosure == valuemodel.SameService &&
		(!m.Annotated() || learned.Proven) && !learned.Barred
}
