package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/front"
	"mcpschedd/internal/record"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// session is one client: the stdio process, an HTTP session, or, stateless
// over HTTP, all requests of one principal with the same capabilities. Each of its parts
// has a mutex and an invariant of its own. The methods of the session, more than 25, are what
// takes several of the parts at once: they hold no state beside them.
type session struct {
	srv      *Server
	identity sessionIdentity
	ctx      context.Context // ends with the session
	life     life
	running  sync.WaitGroup // requests being served, and what the session itself started

	client        clientState
	leases        leases
	lists         *shownLists
	subscriptions subscriptions
	tasks         tasks
	requests      requests
	questions     clientQuestions
	suspended     suspended
	plans         atomic.Int32 // begun so far

	observed *observedSession // as the record and the prefetcher know it
}

// sessionIdentity is what is fixed of a session when it begins.
type sessionIdentity struct {
	front.Client
	view      view
	scope     string           // of the answers it may be given from the store; "": none is stored
	delivered *dedup.Delivered // what the client was given; nil: it is several
}

func newIdentity(c front.Client, v view) sessionIdentity {
	i := sessionIdentity{Client: c, view: v, scope: "session " + rand.Text(), delivered: dedup.NewDelivered()}
	if c.Pool {
		i.delivered = nil // its requests come from any number of conversations
		if c.Anonymous {
			i.scope = "" // and from any number of people
		}
	}
	return i
}

// life is the course of a session: it opens with its client's first request, takes
// requests until it drains, and ends once.
type life struct {
	cancel   context.CancelCauseFunc // ends the session's context
	opening  sync.Once
	draining context.Context // ends when no more requests come: what waits for nothing but changes ends
	drain    func()          // ends it
	ending   sync.Once
}

func (s *Server) newSession(c front.Client) *session {
	ctx, cancel := context.WithCancelCause(context.Background())
	draining, drain := context.WithCancel(ctx)
	n := &session{
		srv: s, identity: newIdentity(c, view{s.names, c.Only}), ctx: ctx,
		life: life{cancel: cancel, draining: draining, drain: drain},
	}
	n.observed = newObservedSession(ctx, n.identity.delivered == nil)
	n.lists = newShownLists(n)
	n.questions.s, n.questions.ready, n.questions.open = n, make(chan struct{}), make(map[string]*question)
	n.suspended = newSuspended(n.running.Go)
	n.requests.open, n.requests.serving = make(map[string]*request), &n.running
	if !s.sessions.add(n) {
		cancel(front.ErrShutdown)
	}
	return n
}

// open leases the upstreams for a client that has introduced itself, once. A
// handshake later only notes what the client says anew.
func (s *session) open(client upstream.Client) {
	client.Info, client.Capabilities = bytes.Clone(client.Info), bytes.Clone(client.Capabilities) // not the whole body of the request
	s.life.opening.Do(func() {
		s.client.update(func(f *clientFacts) { f.Client, f.opened = client, time.Now() })
		s.srv.recorder.log.Add(record.Event{Kind: record.Session, At: time.Now(), Session: s.observed.Name, Client: clientName(client.Info)})
		s.adoptPolicy()
	})
	if !revision.Stateless(client.Version) && client.Version != "" {
		s.client.update(func(f *clientFacts) { f.Client = client })
	}
}

// Drain waits until no request is being served, at most d or until ctx ends.
func (s *session) Drain(ctx context.Context, d time.Duration) error {
	s.life.drain()
	s.suspended.end(front.ErrEnded)
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
		return fmt.Errorf("%d calls still open after %v", s.requests.count(), d)
	}
}

// End ends the session, for a reason that its open requests are answered with: what it waits for
// is cancelled, its leases are given back. It returns when its goroutines have ended.
func (s *session) End(why error) {
	s.life.ending.Do(func() {
		s.requests.close()
		s.life.cancel(why)
		s.lists.stop()
		s.suspended.end(why)
		leases := s.leases.close()
		var giveBack sync.WaitGroup
		for _, l := range leases {
			giveBack.Go(l.Close)
		}
		giveBack.Wait()
		s.running.Wait()
		for _, l := range leases {
			s.srv.prefetch.LeaseEnded(l.observable)
		}
		s.srv.store.DropScope(s.identity.scope)
		s.srv.kept.drop(s)
		s.srv.catalog.search.save(&s.srv.policy.Load().Selection)
		s.observed.spending.leave()
		s.endObservation()       // after all its prefetches have ended
		s.srv.sessions.remove(s) // not before: the server's Close waits for what there is
	})
}

// endObservation lets the observers know that the session has ended, and records that after all
// that came of its prefetches.
func (s *session) endObservation() {
	s.srv.prefetch.SessionEnded(&s.observed.Client, func() {
		s.srv.recorder.record() // before the session's end stands there
		if !s.client.facts().opened.IsZero() {
			s.srv.recorder.log.Add(record.Event{Kind: record.End, At: time.Now(), Session: s.observed.Name})
		}
	})
}

// Context ends with the session.
func (s *session) Context() context.Context { return s.ctx }

// Pending reports whether a call or a plan waits for the client's answer, and whether
// a task runs.
func (s *session) Pending() (suspended, task bool) {
	return s.suspended.any(), s.tasks.running()
}

// clientState owns what a session's client has said of itself.
type clientState struct {
	mu    sync.Mutex                  // held while known is replaced
	known atomic.Pointer[clientFacts] // nil: nothing yet
}

// clientFacts are what a client has said of itself so far. They are not changed once
// they can be seen.
type clientFacts struct {
	upstream.Client
	opened     time.Time     // when the session was opened for it; zero: not yet
	negotiated string        // the revision agreed on in a handshake; "" before it, and in the stateless era
	level      string        // the log level it wants; "": it did not say
	hop        *revision.Hop // what that says for a request that does not say it itself
}

// facts is what is known now.
func (c *clientState) facts() *clientFacts {
	if f := c.known.Load(); f != nil {
		return f
	}
	return &clientFacts{hop: &revision.Hop{Version: revision.Latest}}
}

// update changes what is known.
func (c *clientState) update(change func(*clientFacts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := *c.facts()
	change(&next)
	next.hop = &revision.Hop{Version: revision.Latest, Info: next.Info, Capabilities: next.Capabilities, LogLevel: next.level}
	c.known.Store(&next)
}

// handshake reports whether the client has opened the session with a handshake: one that
// has not, or has not yet, is sent nothing but what its requests ask for.
func (f *clientFacts) handshake() bool { return f.negotiated != "" }

// sessions are those of a server that have not ended.
type sessions struct {
	mu     sync.Mutex
	closed bool // no more are taken
	open   map[*session]struct{}
}

// add takes in a session; false: no more are taken.
func (s *sessions) add(n *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.open == nil {
		s.open = make(map[*session]struct{})
	}
	s.open[n] = struct{}{}
	return true
}

// remove drops a session that has ended.
func (s *sessions) remove(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, n)
}

// all returns the sessions there are.
func (s *sessions) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.open))
}

// close lets no more sessions begin, and returns those there are.
func (s *sessions) close() []*session {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return s.all()
}

func (s *sessions) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
