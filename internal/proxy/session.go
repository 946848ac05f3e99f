package proxy

import (
	"context"
	"crypto/rand"
	"sync"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/front"
)

// session is one client: the stdio process, an HTTP session, or, stateless
// over HTTP, all requests of one principal with the same capabilities. Each of its parts
// has a file, a mutex and an invariant of its own.
type session struct {
	srv      *Server
	identity sessionIdentity
	out      front.Outlet    // for what belongs to no request; nil: the client listens to nothing else
	ctx      context.Context // ends with the session
	life     *life
	work     sync.WaitGroup // requests being served, and what the session itself started

	client        clientState
	leases        leases
	lists         *shownLists
	subscriptions subscriptions
	tasks         tasks
	requests      requests
	questions     clientQuestions
	suspended     suspended

	observed *observedSession // as the record and the prefetcher know it
}

// sessionIdentity is what is fixed of a session when it begins.
type sessionIdentity struct {
	view      view
	id        string           // by which its client finds it again on another connection; "": it cannot
	scope     string           // of the answers it may be given from the store; "": none is stored
	delivered *dedup.Delivered // what the client was given; nil: it is several
	pooled    bool             // its requests come from clients that know nothing of each other: ids may clash
	unblocked bool             // answers never wait for the client: any goroutine may write them
}

func newIdentity(c front.Client, v view, scope string) sessionIdentity {
	i := sessionIdentity{
		view: v, id: c.ID, scope: scope, delivered: dedup.NewDelivered(), pooled: c.Pool, unblocked: c.Unblocked,
	}
	if c.Pool {
		i.delivered = nil // its requests come from any number of conversations
		if c.Anonymous {
			i.scope = "" // and from any number of people
		}
	}
	return i
}

func (s *Server) newSession(c front.Client) *session {
	ctx, cancel := context.WithCancelCause(context.Background())
	n := &session{
		srv: s, identity: newIdentity(c, view{s.names, c.Only}, "session "+rand.Text()),
		out: c.Out, ctx: ctx, life: newLife(cancel),
	}
	n.observed = newObservedSession(ctx, n.identity.delivered == nil)
	n.lists = newShownLists(n)
	n.questions = clientQuestions{
		log: s.log, out: c.Out, ended: ctx.Done(), ready: make(chan struct{}),
		capabilities: func() []byte { return n.client.facts().Capabilities },
	}
	n.suspended = newSuspended(n.work.Go)
	n.requests.open, n.requests.serving = make(map[string]*request), &n.work
	if !s.sessions.add(n) {
		cancel(front.ErrShutdown)
	}
	return n
}
