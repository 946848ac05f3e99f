package proxy

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// policy is one version of the configuration with its upstreams. It is immutable; a reload replaces it
// as a whole. It has more than 15 fields because it embeds the options.
type policy struct {
	Options
	*catalog.Policy
	own    []*ownTool // the proxy's own tools, in the order of the list
	loaded time.Time
}

// livePolicy holds the policy in force.
type livePolicy struct {
	atomic.Pointer[policy]
	replacing sync.Mutex     // held while the policy is replaced
	closed    bool           // no more policies are adopted
	retiring  sync.WaitGroup // upstreams that were replaced; started with replacing held
}

func withDefaults(o Options) Options {
	o.Version, o.Log = cmp.Or(o.Version, "dev"), cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Models == nil {
		o.Models, _ = valuemodel.Compile(nil)
	}
	return o
}

// buildPolicy builds the policy of o. It keeps upstreams of old that have not changed, and creates
// others with connect.
func buildPolicy(o Options, old *catalog.Policy, connect func(catalog.Upstream) *upstream.Upstream) *policy {
	p := &policy{Options: o, loaded: time.Now(), Policy: &catalog.Policy{
		NameStyle: o.NameStyle, Prefix: catalog.Prefixed(o.NameStyle, len(o.Upstreams)+o.OtherUpstreams),
		Models: o.Models, Selection: o.Selection, Learn: o.Enrichment.Learn,
	}}
	for _, u := range o.Upstreams {
		m := &catalog.Member{Upstream: u, Key: u.Spec.Name + "\x00" + u.Fingerprint}
		if before := old.Find(u.Spec.Name); before != nil && before.Fingerprint == u.Fingerprint {
			m.Up = before.Up
		} else {
			m.Up = connect(u)
		}
		p.Members = append(p.Members, m)
	}
	p.own = newOwnTools(p)
	return p
}

// Apply replaces the configuration. It starts new upstreams, closes removed ones, and notifies every
// session of changed lists. Calls that run on a changed upstream have DrainTimeout to finish. Fixed settings
// keep their values. After Close, Apply does nothing.
func (s *Server) Apply(o Options) {
	s.policy.replacing.Lock()
	defer s.policy.replacing.Unlock()
	if s.policy.closed {
		return
	}
	old := s.policy.Load()
	o.Fixed = old.Fixed
	next := buildPolicy(withDefaults(o), old.Policy, s.connect)
	s.policy.Store(next)
	var ending sync.WaitGroup
	for _, m := range old.Members {
		switch now := next.Find(m.Spec.Name); {
		case now == nil:
			ending.Go(m.Up.Close)
		case now.Up != m.Up:
			m.Up.Retire(next.DrainTimeout)
			s.policy.retiring.Go(func() {
				m.Up.Close()
				s.prefetch.UpstreamsChanged()
			})
		}
	}
	// By the name that it gives itself, another server may have other domains.
	isSame := func(a, b *catalog.Member) bool { return a.Up == b.Up && a.Model.Same(b.Model) }
	if !next.Policy.Models.Same(old.Policy.Models) || !slices.EqualFunc(next.Members, old.Members, isSame) { // then not every call is classified as before
		// The new policy is visible, and old upstreams have retired: writes classified before stay pending from now on.
		s.common.store.Reclassify()
	}
	s.recorder.log.Reconfigure(next.Record.Full, next.Record.Off)
	s.common.Configure(next.Options)
	s.prefetch.Scheduler.Configure(next.Enrichment.Slots())
	s.recorder.log.StatusChanged()
	for _, session := range s.sessions.list() {
		session.adoptPolicy()
	}
	ending.Wait()
	s.prefetch.UpstreamsChanged()
}
