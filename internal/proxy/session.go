package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/catalog"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/front"
	"mcpschedd/internal/record"
	"mcpschedd/internal/revision"
)

// session is one client: the stdio process, an HTTP session, or, in stateless HTTP, the requests
// of all clients with the same name and capabilities. Each part has its own mutex and invariant.
// The session's own methods are those that need several parts at once.
type session struct {
	srv       *Server
	identity  sessionIdentity
	ctx       context.Context // cancelled when the session ends
	lifecycle lifecycle
	running   sync.WaitGroup // requests being served and goroutines that the session started

	client        snapshot[clientFacts]
	leases        snapshot[catalog.Leases] // in the order of the configuration; nil until the session opens
	lists         *shownLists
	choices       catalog.Choices // which tools are listed
	subscriptions subscriptions
	tasks         *tasks
	requests      requests
	questions     questions    // to the client, and the works that wait for its replies
	plans         atomic.Int32 // number of plans started

	observed *observedSession // the session as the recorder and the prefetch worker see it
}

// sessionIdentity is the part of a session that is fixed when it begins.
type sessionIdentity struct {
	front.Client
	scope     string           // scope of its answers in the store; "" if none may be stored
	delivered *dedup.Delivered // answers that the client has received; nil if the session has several clients
}

// lifecycle is the life cycle of a session: it opens with the client's first request, accepts
// requests until it drains, and ends once.
type lifecycle struct {
	cancel   context.CancelCauseFunc // cancels the session's context
	opening  sync.Once
	draining context.Context // done when no more requests come; ends requests that only wait for changes
	drain    func()          // cancels draining
	ending   sync.Once
}

func (s *Server) newSession(c front.Client) *session {
	ctx, cancel := context.WithCancelCause(context.Background())
	draining, drain := context.WithCancel(ctx)
	identity := sessionIdentity{Client: c, scope: "session " + rand.Text(), delivered: dedup.NewDelivered()}
	if c.Multiplexed {
		identity.delivered = nil // the requests come from any number of conversations
		if c.Anonymous {
			identity.scope = "" // and from any number of users
		}
	}
	n := &session{
		srv: s, identity: identity, ctx: ctx, tasks: newTasks(),
		lifecycle: lifecycle{cancel: cancel, draining: draining, drain: drain},
	}
	n.observed = newObservedSession(ctx, c.Multiplexed)
	n.observed.join = sync.OnceValue(n.joinPool)
	n.lists, n.choices.Multiplexed = newShownLists(n), c.Multiplexed
	n.questions.s, n.questions.works = n, make(map[*work]struct{})
	n.questions.ready, n.questions.setReady = context.WithCancel(context.Background())
	n.subscriptions.client = &listener{send: func(method string, params []byte) { n.notify(method, params) }}
	n.subscriptions.open = []*listener{n.subscriptions.client}
	n.requests.open, n.requests.inFlight = make(map[string]*request), &s.inFlight
	if c.NonBlocking { // on stdio
		n.requests.inFlight = new(atomic.Int64)
	}
	if !s.sessions.add(n) {
		cancel(front.ErrShutdown)
	}
	return n
}

// open leases the upstreams for the client, once. A later handshake only updates what is
// known of the client.
func (s *session) open(client revision.Client) {
	// The request's body is not retained, and its log level holds for itself alone.
	client.Info, client.Capabilities, client.LogLevel = bytes.Clone(client.Info), bytes.Clone(client.Capabilities), ""
	s.lifecycle.opening.Do(func() {
		s.client.update(func(f *clientFacts) { f.Client, f.opened = client, true })
		s.srv.recorder.log.Add(record.Event{Kind: record.Session, At: time.Now(), Session: s.observed.Name, Client: clientName(client.Info)})
		s.adoptPolicy()
	})
	if client.Handshake() {
		s.client.update(func(f *clientFacts) {
			client.LogLevel = f.LogLevel
			f.Client = client
		})
	}
}

// Drain waits until all requests have been served, for at most d or until ctx is done.
func (s *session) Drain(ctx context.Context, d time.Duration) error {
	s.lifecycle.drain()
	s.questions.endSuspended(front.ErrEnded)
	idle := make(chan struct{})
	go func() {
		s.running.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return errors.New("calls still open after " + age.Text(d))
	}
}

// End ends the session: it cancels open requests with the cause why, closes the leases, and
// returns when the session's goroutines have ended.
func (s *session) End(why error) {
	s.lifecycle.ending.Do(func() {
		s.requests.mu.Lock() // a request is either added before, and waited for, or refused
		s.lifecycle.cancel(why)
		s.requests.mu.Unlock()
		s.lists.changes.stop()
		s.questions.endSuspended(why)
		var closing sync.WaitGroup
		s.leases.update(func(last *catalog.Leases) {
			for _, l := range *last {
				closing.Go(l.Close)
			}
			*last = nil
		})
		closing.Wait()
		s.running.Wait()
		s.srv.common.store.DropScope(s.identity.scope)
		s.srv.kept.Drop(s)
		s.srv.catalog.SaveLearned()
		if agent := s.observed.agent.Load(); agent != nil {
			agent.Leave()
		}
		s.endObservation()
		s.srv.sessions.remove(s) // last, as Server.Close waits only for the sessions in the set
	})
}

// endObservation notifies the prefetch worker that the session has ended, and records its end after the
// prefetches of known fate. Those that are still open are recorded later.
func (s *session) endObservation() {
	s.srv.prefetch.SessionEnded(&s.observed.Session, func() {
		s.srv.recorder.record()
		if s.client.load().opened {
			s.srv.recorder.log.Add(record.Event{Kind: record.End, At: time.Now(), Session: s.observed.Name})
		}
	})
}

// view returns what the session sees under the policy in force.
func (s *session) view() view {
	p := s.srv.policy.Load()
	return view{catalog.View{
		Catalog: s.srv.catalog, Policy: p.Policy, Leases: *s.leases.load(), Only: s.identity.Only,
		Client: &s.client.load().Client, Choices: &s.choices,
	}, p}
}

// view is what a session sees under one policy.
type view struct {
	catalog.View
	policy *policy
}

// Context returns a context that is cancelled when the session ends.
func (s *session) Context() context.Context { return s.ctx }

// Pending reports whether a call or a plan is suspended until the client answers, or a task is running.
func (s *session) Pending() bool { return s.questions.anySuspended() || s.tasks.running() }

// clientFacts is what a client has declared about itself: in its handshake, or else in its first
// request. Clients without a handshake are sent nothing but what their requests ask for.
type clientFacts struct {
	revision.Client      // without a version if the client has declared none
	opened          bool // the session has opened
}
