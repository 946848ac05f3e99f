package proxy

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/events"
	"mcpschedd/internal/front"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// outlet is where messages to a client go.
type outlet = front.Outlet

// session is one client: the stdio process, an HTTP session, or, stateless
// over HTTP, all requests of one principal with the same capabilities.
type session struct {
	srv           *Server
	view          *view
	id            string           // by which its client finds it again on another connection; "": it cannot
	scope         string           // whose answers it stores; "": nobody knows, and nothing is stored
	delivered     *dedup.Delivered // what the client was given; nil: it is several
	ctx           context.Context
	cancel        context.CancelCauseFunc
	out           outlet       // for what belongs to no request; nil: the client listens to nothing else
	pooled        bool         // its requests come from clients that know nothing of each other: ids may clash
	unblocked     bool         // answers never wait for the client: any goroutine may write them
	recordName    string       // its name in the record
	learnedAs     uint64       // its name where it is learned which session said what: none that stands anywhere else
	predictionOff atomic.Bool  // prediction panicked over it: what it calls is not looked at any more
	numbered      atomic.Int64 // calls and guesses so far
	turns         turns
	guessing      guessing
	requests      requests
	work          sync.WaitGroup // requests being served, and what the session itself started
	client        clientState
	leases        leases
	lists         *shownLists
	subscriptions subscriptions
	tasks         tasks
	questions     clientQuestions
	suspended     suspended
	plans         atomic.Int32 // so far

	opening   sync.Once
	ended     chan struct{} // closed when end has done its work
	drainOnce sync.Once
	draining  chan struct{} // closed when no more requests come: what waits for nothing but changes ends

	mu     sync.Mutex
	closed bool
}

var (
	errSessionEnded = front.ErrEnded
	errShutdown     = front.ErrShutdown
)

func (s *Server) newSession(c front.Client) *session {
	ctx, cancel := context.WithCancelCause(context.Background())
	n := &session{
		scope: "session " + strconv.FormatUint(s.scopes.Add(1), 10), delivered: dedup.NewDelivered(),
		recordName: recordID(), learnedAs: rand.Uint64(), srv: s, view: s.view(c.Only), ctx: ctx, cancel: cancel,
		id: c.ID, pooled: c.Pool, unblocked: c.Unblocked, out: c.Out,
		draining: make(chan struct{}), ended: make(chan struct{}),
	}
	n.lists, n.subscriptions.watchers = newShownLists(n.announce), &s.statsNotices.watchers
	n.questions = clientQuestions{
		log: s.log, out: c.Out, ended: ctx.Done(), ready: make(chan struct{}),
		capabilities: func() []byte { return n.client.facts().Capabilities },
	}
	n.suspended.start = n.work.Go
	n.requests.open, n.requests.serving = make(map[string]*request), &n.work
	if c.Pool {
		n.delivered = nil // its requests come from any number of conversations
		if c.Anonymous {
			n.scope = "" // and from any number of people
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		cancel(errShutdown)
	} else {
		s.sessions[n] = struct{}{}
	}
	return n
}

// open leases the upstreams for a client that has said who it is, once. A
// handshake later only notes what the client says anew.
func (s *session) open(client upstream.Client) {
	client.Info, client.Capabilities = bytes.Clone(client.Info), bytes.Clone(client.Capabilities) // not the whole body of the request
	s.opening.Do(func() {
		s.client.update(func(f *clientFacts) { f.Client, f.opened = client, time.Now() })
		s.srv.events.Add(events.Event{Kind: events.Session, At: time.Now(), Session: s.recordName, Client: clientName(client.Info)})
		s.adoptPolicy()
	})
	if !revision.Stateless(client.Version) && client.Version != "" {
		s.client.update(func(f *clientFacts) { f.Client = client })
	}
}

func (s *session) current() []*leased { return s.leases.current() }

func (s *session) find(name string) *leased { return s.leases.find(name) }

// close ends the session: what it waits for is cancelled, its leases are given
// back. It returns when its goroutines have ended.
func (s *session) close() { s.End(errSessionEnded) }

// Context ends with the session.
func (s *session) Context() context.Context { return s.ctx }

// Pending reports whether a call or a plan waits for the client's answer, and whether
// a task runs.
func (s *session) Pending() (suspended, task bool) {
	return s.suspended.any(), s.tasks.running()
}

// End ends the session, for the reason that its open requests are told.
func (s *session) End(why error) {
	s.requests.close()
	s.mu.Lock()
	done := s.closed
	s.closed = true
	s.mu.Unlock()
	s.stopListening()
	s.cancel(why)
	if done {
		<-s.ended
		return
	}
	defer close(s.ended)
	s.subscriptions.close()
	s.lists.stop()
	s.suspended.end(why)
	var wg sync.WaitGroup
	leases := s.leases.close()
	for _, l := range leases {
		wg.Go(l.Close)
	}
	wg.Wait()
	s.work.Wait()
	for _, l := range leases {
		s.forgetInstance(l)
	}
	s.srv.store.Drop(s.scope)
	s.srv.kept.drop(s)
	s.srv.prefetcher.last(s) // after all its guesses have met their fate
	s.srv.mu.Lock()
	delete(s.srv.sessions, s) // not before: the server's Close waits for what is in it
	s.srv.mu.Unlock()
}

func (s *session) stopListening() { s.drainOnce.Do(func() { close(s.draining) }) }

// Drain waits until no request is being served, at most d or until ctx ends.
func (s *session) Drain(ctx context.Context, d time.Duration) error {
	s.stopListening()
	s.suspended.end(errSessionEnded)
	idle := make(chan struct{})
	go func() {
		s.work.Wait()
		close(idle)
	}()
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
		return fmt.Errorf("%d calls still open after %v", s.requests.count(), d)
	}
}
