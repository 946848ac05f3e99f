package proxy

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"mcpschedd/internal/front"
	"mcpschedd/internal/record"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// life is the course of a session: it opens with its client's first request, takes
// requests until it drains, and ends once. What follows from each step for the parts of
// the session stands here and nowhere else.
type life struct {
	cancel   context.CancelCauseFunc // ends the session's context
	opening  sync.Once
	draining chan struct{} // closed when no more requests come: what waits for nothing but changes ends
	drain    func()        // closes draining
	ending   sync.Once
}

func newLife(cancel context.CancelCauseFunc) *life {
	draining := make(chan struct{})
	return &life{cancel: cancel, draining: draining, drain: sync.OnceFunc(func() { close(draining) })}
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

// End ends the session, for a reason that its open requests are answered with: what it waits for
// is cancelled, its leases are given back. It returns when its goroutines have ended.
func (s *session) End(why error) {
	s.life.ending.Do(func() {
		s.requests.close()
		s.life.drain()
		s.life.cancel(why)
		s.lists.stop()
		s.suspended.end(why)
		leases := s.leases.close()
		var giveBack sync.WaitGroup
		for _, l := range leases {
			giveBack.Go(l.Close)
		}
		giveBack.Wait()
		s.work.Wait()
		for _, l := range leases {
			s.srv.prefetch.LeaseEnded(l.observable)
		}
		s.srv.store.Drop(s.identity.scope)
		s.srv.kept.drop(s)
		s.endObserved()          // after all its prefetches have ended
		s.srv.sessions.remove(s) // not before: the server's Close waits for what there is
	})
}

// endObserved lets the observers know that the session has ended, and records that after all
// that came of its prefetches.
func (s *session) endObserved() {
	s.srv.prefetch.SessionEnded(&s.observed.Client, func() {
		s.srv.recorder.record(false) // before the session's end stands there
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
