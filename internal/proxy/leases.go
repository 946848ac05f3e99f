package proxy

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
)

// leased is a session's lease on one upstream.
type leased struct {
	*upstream.Lease
	member     *member
	early      *earlyCalls
	observable *speculate.Upstream // as the prefetch worker knows it
}

// leases owns a session's leases on the upstreams that it sees. They are replaced as a
// whole when the session opens and when a new policy comes into force.
type leases struct {
	mu     sync.Mutex // held while now is replaced
	closed bool
	now    atomic.Pointer[[]*leased] // nil: none were taken yet
}

// current returns the leases in the order of the configuration. The slice is not changed
// afterwards.
func (ls *leases) current() []*leased {
	if now := ls.now.Load(); now != nil {
		return *now
	}
	return nil
}

// find returns the lease on the upstream so named, nil if there is none.
func (ls *leases) find(name string) *leased {
	return leaseWhere(ls.current(), func(l *leased) bool { return l.member.Spec.Name == name })
}

// on returns the lease on an instance, nil if there is none.
func (ls *leases) on(instance uint64) *leased {
	return leaseWhere(ls.current(), func(l *leased) bool { return l.Instance() == instance })
}

// leaseWhere returns the first of the leases that fits, nil if none does.
func leaseWhere(all []*leased, fits func(*leased) bool) *leased {
	if i := slices.IndexFunc(all, fits); i >= 0 {
		return all[i]
	}
	return nil
}

// replace makes the leases those on the members that seen returns: one on an upstream
// that had one is kept, for any other attach takes one. It returns the leases from before
// (nil: never any) and from now on; false: they have been closed.
func (ls *leases) replace(seen func() []*member, attach func(*member) *leased, observable func(*leased) *speculate.Upstream) (old, next []*leased, ok bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closed {
		return nil, nil, false
	}
	old, next = ls.current(), []*leased{}
	for _, m := range seen() {
		l := leaseWhere(old, func(l *leased) bool { return l.member.up == m.up })
		if l == nil {
			l = attach(m)
		} else {
			kept := *l
			kept.member = m
			l = &kept
		}
		l.observable = observable(l)
		next = append(next, l)
	}
	ls.now.Store(&next)
	return old, next, true
}

// close lets no more leases be taken, and returns those there were for the caller to
// give back.
func (ls *leases) close() []*leased {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.closed = true
	last := ls.current()
	ls.now.Store(new([]*leased))
	return last
}

// awaitOffers waits until each upstream that was never seen before has said what it
// offers, at most until ctx ends.
func (ls *leases) awaitOffers(ctx context.Context) {
	for _, l := range ls.current() {
		l.AwaitOffer(ctx)
	}
}

// adoptPolicy makes the session's leases those of the current policy.
func (s *session) adoptPolicy() {
	if s.client.facts().opened.IsZero() {
		return
	}
	old, next, ok := s.leases.replace(func() []*member { return s.srv.policy.Load().seenIn(s.identity.view) }, s.attach, s.observable)
	if !ok {
		return
	}
	if level := s.client.facts().level; level != "" { // one that is set from now on reaches the leases by itself
		for _, l := range next {
			l.SetLevel(level)
		}
	}
	for _, l := range old {
		if !slices.ContainsFunc(next, func(n *leased) bool { return n.Lease == l.Lease }) {
			if successor := s.leases.find(l.member.Spec.Name); successor != nil {
				s.subscriptions.handOver(l, successor)
			}
			s.srv.prefetch.LeaseEnded(l.observable)
			l.Close()
		}
	}
	if old != nil { // else nothing was shown yet
		for l := range upstream.Lists {
			s.lists.changed(l)
		}
	}
}

// attach leases one upstream.
func (s *session) attach(m *member) *leased {
	l := &leased{member: m, early: new(earlyCalls)}
	attached := make(chan struct{}) // a server may speak before its lease is known here
	defer close(attached)
	l.Lease = m.up.Attach(s.client.facts().Client, upstream.Listener{
		Notify: func(method string, params []byte) {
			<-attached
			s.relay(l, method, params)
		},
		Ask: func(method string) func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) {
			<-attached
			return s.question(l)
		},
		Changed: s.lists.changed,
		Pooled:  s.identity.Pool,
	})
	return l
}

// awaitOffers waits for the upstreams until startup_wait after the session opened.
func (s *session) awaitOffers(ctx context.Context) {
	deadline := s.client.facts().opened.Add(s.srv.policy.Load().StartupWait)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	s.leases.awaitOffers(ctx)
}
