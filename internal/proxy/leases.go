package proxy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/catalog"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// adoptPolicy replaces the session's leases with those of the current policy, and keeps those on
// upstreams that have not changed; [Server.Apply] closes the others. Before the session opens and after it
// has ended it does nothing.
func (s *session) adoptPolicy() {
	if !s.client.load().opened {
		return
	}
	var old, next catalog.Leases
	s.leases.update(func(now *catalog.Leases) {
		if s.ctx.Err() != nil { // the leases have been taken, or will be
			return
		}
		old, next = *now, catalog.Leases{}
		for _, m := range s.srv.policy.Load().Members {
			if only := s.identity.Only; only != "" && only != m.Spec.Name {
				continue
			}
			l := s.attach(m, old.Find(func(l *catalog.Lease) bool { return l.Member.Up == m.Up }))
			l.Prefetch = s.newPrefetchLease(l)
			next = append(next, l)
		}
		*now = next
	})
	for _, l := range next {
		l.SetLevel(s.client.load().LogLevel) // setLevel passes later levels to the leases itself
	}
	s.subscriptions.renew(s, next.Filter(func(l *catalog.Lease) bool {
		return !slices.ContainsFunc(old, func(o *catalog.Lease) bool { return o.Lease == l.Lease })
	}))
	if old != nil { // else no list has been shown yet
		s.lists.changes.trigger()
	}
}

// attach returns the session's lease on m: already, updated for m, or a new one if already is
// nil.
func (s *session) attach(m *catalog.Member, already *catalog.Lease) *catalog.Lease {
	if already != nil {
		return &catalog.Lease{Lease: already.Lease, Member: m, Since: already.Since}
	}
	l := &catalog.Lease{Member: m, Since: time.Now()}
	attached := make(chan struct{}) // a server may send messages before its lease is assigned
	defer close(attached)
	l.Lease = m.Up.Attach(s.client.load().Client, upstream.Listener{
		Notify: func(method string, params []byte) {
			<-attached
			s.relay(l, method, params)
		},
		Ask: func(method string) func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) {
			<-attached
			return s.askerFor(l, method)
		},
		Changed:     s.lists.changes.trigger,
		Multiplexed: s.identity.Multiplexed,
	})
	return l
}

// onceWait is the least startup_wait of a client that lists the tools once. Older versions of Codex give up on a server after 10 s.
const onceWait = 8 * time.Second

// awaitOffers waits until every upstream without a saved offer has made one, at most until
// startup_wait after the session opened or the upstream's configuration was changed.
func (s *session) awaitOffers(ctx context.Context) {
	wait := s.srv.policy.Load().StartupWait
	if catalog.ListsOnce.Include(s.client.load().Info) {
		wait = max(wait, onceWait)
	}
	for _, l := range *s.leases.load() {
		ctx, cancel := context.WithDeadline(ctx, l.Since.Add(wait))
		l.AwaitOffer(ctx)
		cancel()
	}
}

// AwaitTools is a key in the _meta of tools/list. With it, the request waits for each server as long as a
// call does, and fails if the tools of one are not known then.
const AwaitTools = "mcpschedd/await_tools"

// awaitTools waits for every upstream as long as a call does, and returns why the tools of one are not known.
func (s *session) awaitTools(ctx context.Context) error {
	for _, l := range *s.leases.load() {
		bounded, cancel := context.WithTimeout(ctx, l.Member.Spec.StartTimeout)
		l.AwaitOffer(bounded)
		cancel()
		if !l.Listed() {
			late := fmt.Errorf("still starting after %s", age.Text(l.Member.Spec.StartTimeout))
			return cmp.Or[error](l.Problem(), &upstream.Unavailable{Upstream: l.Name(), Cause: late})
		}
	}
	return nil
}
