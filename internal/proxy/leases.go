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

// leased is a session's lease on one upstream. It has more than 25 methods because it is all
// that may be asked of a lease, and of what the upstream offers with the session's view of it.
type leased struct {
	*upstream.Lease
	member     *member
	prefetches *prefetches
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
	return findLease(ls.current(), func(l *leased) bool { return l.member.Spec.Name == name })
}

// byInstance returns the lease on an instance, nil if there is none.
func (ls *leases) byInstance(instance uint64) *leased {
	return findLease(ls.current(), func(l *leased) bool { return l.Instance() == instance })
}

// findLease returns the first of the leases that fits, nil if none does.
func findLease(all []*leased, fits func(*leased) bool) *leased {
	if i := slices.IndexFunc(all, fits); i >= 0 {
		return all[i]
	}
	return nil
}

// filterLeases are the leases that fit.
func filterLeases(leases []*leased, fits func(*leased) bool) (found []*leased) {
	for _, l := range leases {
		if fits(l) {
			found = append(found, l)
		}
	}
	return found
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

// adoptPolicy makes the session's leases those of the current policy.
func (s *session) adoptPolicy() {
	if s.client.facts().opened.IsZero() {
		return
	}
	old, next := s.replaceLeases()
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

// replaceLeases takes leases on the upstreams of the current policy: one on an upstream
// that had one is kept. It returns the leases from before (nil: never any) and from now
// on, neither once the leases have been closed.
func (s *session) replaceLeases() (old, next []*leased) {
	s.leases.mu.Lock()
	defer s.leases.mu.Unlock()
	if s.leases.closed {
		return nil, nil
	}
	old, next = s.leases.current(), []*leased{}
	for _, m := range s.srv.policy.Load().members {
		if only := s.identity.view.only; only != "" && only != m.Spec.Name {
			continue
		}
		l := s.attach(m, findLease(old, func(l *leased) bool { return l.member.up == m.up }))
		l.observable = s.observable(l)
		next = append(next, l)
	}
	s.leases.now.Store(&next)
	return old, next
}

// attach leases one upstream, unless there is a lease on it already.
func (s *session) attach(m *member, already *leased) *leased {
	if already != nil {
		kept := *already
		kept.member = m
		return &kept
	}
	l := &leased{member: m, prefetches: new(prefetches)}
	attached := make(chan struct{}) // a server may speak before its lease is known here
	defer close(attached)
	l.Lease = m.up.Attach(s.client.facts().Client, upstream.Listener{
		Notify: func(method string, params []byte) {
			<-attached
			s.relay(l, method, params)
		},
		Ask: func(method string) func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) {
			<-attached
			return s.askerFor(l)
		},
		Changed: s.lists.changed,
		Pooled:  s.identity.Pool,
	})
	return l
}

// awaitOffers waits until each upstream that was never seen before has said what it
// offers, at most until startup_wait after the session opened.
func (s *session) awaitOffers(ctx context.Context) {
	ctx, cancel := context.WithDeadline(ctx, s.client.facts().opened.Add(s.srv.policy.Load().StartupWait))
	defer cancel()
	for _, l := range s.leases.current() {
		l.AwaitOffer(ctx)
	}
}

// What the upstream of a lease offers. Nothing is known of one that was never connected.

// find returns the item of that name in a list of the upstream.
func (l *leased) find(list upstream.List, name string) (upstream.Item, bool) {
	offer := l.Offer()
	if offer == nil {
		return upstream.Item{}, false
	}
	return offer.Find(list, name)
}

// lists reports whether the upstream lists an item of that name.
func (l *leased) lists(list upstream.List, name string) bool {
	_, ok := l.find(list, name)
	return ok
}

// has reports whether the upstream is known to have a tool that its session may call.
func (l *leased) has(tool string) bool {
	return l.lists(upstream.Tools, tool) && l.member.allows(tool)
}

// lacks reports whether the tools of the upstream are known, and this is none of them.
func (l *leased) lacks(tool string) bool {
	offer := l.Offer()
	return offer != nil && len(offer.Lists[upstream.Tools]) > 0 && !l.lists(upstream.Tools, tool)
}

// items are those of a list that a client may see.
func (l *leased) items(list upstream.List) []upstream.Item {
	offer := l.Offer()
	if offer == nil {
		return nil
	}
	items := offer.Lists[list]
	if list == upstream.Tools && l.member.Allows != nil {
		items = slices.DeleteFunc(slices.Clone(items), func(item upstream.Item) bool { return !l.member.Allows(item.Name) })
	}
	return items
}

// structured reports whether a tool promises a schema that its answers have:
// nothing is ever added to one of those, nor taken from it.
func (l *leased) structured(tool string) bool {
	item, ok := l.find(upstream.Tools, tool)
	return !ok || jsonrpc.Get(item.Raw, "outputSchema") != nil
}

// extension is the prefix of MCP's own extensions among the capabilities.
const extension = "io.modelcontextprotocol/"

// mayHave reports whether the server declared a capability, as part of the protocol or as
// an extension, or is not known yet.
func (l *leased) mayHave(capability string) bool {
	offer := l.Offer()
	return offer == nil || offer.Has(capability) || jsonrpc.Get(jsonrpc.Get(offer.Capabilities, "extensions"), extension+capability) != nil
}
