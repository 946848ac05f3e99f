package proxy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
)

// sessionLease is a session's lease on one upstream. It has more than 25 methods: those of the
// lease, and those that look up the upstream's offer as the session sees it.
type sessionLease struct {
	*upstream.Lease
	member        *member
	since         time.Time        // start of the lease
	prefetchLease *speculate.Lease // the lease as the prefetch worker sees it
}

// leases holds a session's leases. They are replaced when the session opens and when a new
// policy takes effect.
type leases struct{ snapshot[[]*sessionLease] }

// current returns the leases in the order of the configuration; nil until the session opens.
func (ls *leases) current() []*sessionLease { return *ls.load() }

// find returns the lease on the named upstream, or nil.
func (ls *leases) find(name string) *sessionLease {
	return findLease(ls.current(), func(l *sessionLease) bool { return l.member.Spec.Name == name })
}

// findLease returns the first lease for which fits returns true, or nil.
func findLease(all []*sessionLease, fits func(*sessionLease) bool) *sessionLease {
	if i := slices.IndexFunc(all, fits); i >= 0 {
		return all[i]
	}
	return nil
}

// filterLeases returns the leases for which fits returns true.
func filterLeases(leases []*sessionLease, fits func(*sessionLease) bool) (found []*sessionLease) {
	for _, l := range leases {
		if fits(l) {
			found = append(found, l)
		}
	}
	return found
}

// adoptPolicy replaces the session's leases with those of the current policy, and keeps those on
// upstreams that have not changed; [Server.Apply] closes the others. Before the session opens and after it
// has ended it does nothing.
func (s *session) adoptPolicy() {
	if !s.client.load().opened {
		return
	}
	var old, next []*sessionLease
	s.leases.update(func(now *[]*sessionLease) {
		if s.ctx.Err() != nil { // the leases have been taken, or will be
			return
		}
		old, next = *now, []*sessionLease{}
		for _, m := range s.srv.policy.Load().members {
			if only := s.identity.Only; only != "" && only != m.Spec.Name {
				continue
			}
			l := s.attach(m, findLease(old, func(l *sessionLease) bool { return l.member.up == m.up }))
			l.prefetchLease = s.newPrefetchLease(l)
			next = append(next, l)
		}
		*now = next
	})
	for _, l := range next {
		l.SetLevel(s.client.load().LogLevel) // setLevel passes later levels to the leases itself
	}
	s.subscriptions.renew(s, filterLeases(next, func(l *sessionLease) bool {
		return !slices.ContainsFunc(old, func(o *sessionLease) bool { return o.Lease == l.Lease })
	}))
	if old != nil { // else no list has been shown yet
		s.lists.changes.trigger()
	}
}

// attach returns the session's lease on m: already, updated for m, or a new one if already is
// nil.
func (s *session) attach(m *member, already *sessionLease) *sessionLease {
	if already != nil {
		return &sessionLease{Lease: already.Lease, member: m, since: already.since}
	}
	l := &sessionLease{member: m, since: time.Now()}
	attached := make(chan struct{}) // a server may send messages before its lease is assigned
	defer close(attached)
	l.Lease = m.up.Attach(s.client.load().Client, upstream.Listener{
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
	if listsOnce.include(s.client.load().Info) {
		wait = max(wait, onceWait)
	}
	for _, l := range s.leases.current() {
		ctx, cancel := context.WithDeadline(ctx, l.since.Add(wait))
		l.AwaitOffer(ctx)
		cancel()
	}
}

// AwaitTools is a key in the _meta of tools/list. With it, the request waits for each server as long as a
// call does, and fails if the tools of one are not known then.
const AwaitTools = "mcpschedd/await_tools"

// awaitTools waits for every upstream as long as a call does, and returns why the tools of one are not known.
func (s *session) awaitTools(ctx context.Context) error {
	for _, l := range s.leases.current() {
		bounded, cancel := context.WithTimeout(ctx, l.member.Spec.StartTimeout)
		l.AwaitOffer(bounded)
		cancel()
		if !l.Listed() {
			late := fmt.Errorf("still starting after %s", age.Text(l.member.Spec.StartTimeout))
			return cmp.Or[error](l.Problem(), &upstream.Unavailable{Upstream: l.Name(), Cause: late})
		}
	}
	return nil
}

// The methods below look up the upstream's offer, which is nil until a first connection.

// lists reports whether the upstream lists an item with that name.
func (l *sessionLease) lists(list upstream.List, name string) bool {
	_, ok := l.Offer().Find(list, name)
	return ok
}

// has reports whether the upstream lists a tool that the session may call.
func (l *sessionLease) has(tool string) bool {
	return l.lists(upstream.Tools, tool) && l.member.allows(tool)
}

// lacks reports whether the upstream lists tools, but not this one.
func (l *sessionLease) lacks(tool string) bool {
	return len(l.Offer().Items(upstream.Tools)) > 0 && !l.lists(upstream.Tools, tool)
}

// items returns the items of a list that the client may see.
func (l *sessionLease) items(list upstream.List) []upstream.Item {
	items := l.Offer().Items(list)
	if list == upstream.Tools && l.member.Allows != nil {
		items = slices.DeleteFunc(slices.Clone(items), func(item upstream.Item) bool { return !l.member.Allows(item.Name) })
	}
	return items
}

// structured reports whether a tool declares an output schema, or is not known. Nothing is
// added to or removed from the answers of such a tool.
func (l *sessionLease) structured(tool string) bool {
	item, ok := l.Offer().Find(upstream.Tools, tool)
	return !ok || jsonrpc.Get(item.Raw, "outputSchema") != nil
}

// mayHave reports whether the server declares a capability, in the protocol or as one of MCP's own
// extensions, or is not known yet.
func (l *sessionLease) mayHave(capability string) bool {
	offer := l.Offer()
	return offer == nil || offer.Has(capability) || jsonrpc.Get(jsonrpc.Get(offer.Capabilities, "extensions"), "io.modelcontextprotocol/"+capability) != nil
}
