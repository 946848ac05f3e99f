package proxy

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// policy is one version of the configuration with its upstreams. It is immutable; a reload replaces it
// as a whole. It has more than 15 fields because it embeds the options.
type policy struct {
	Options
	members []*member  // in the order of the configuration
	prefix  bool       // shown names are NAME__TOOL
	own     []*ownTool // the proxy's own tools, in the order of the list
	loaded  time.Time
}

// livePolicy holds the policy in force.
type livePolicy struct {
	atomic.Pointer[policy]
	replacing sync.Mutex     // held while the policy is replaced
	closed    bool           // no more policies are adopted
	retiring  sync.WaitGroup // upstreams that were replaced; started with replacing held
}

// member is one upstream of a policy.
type member struct {
	Upstream
	up                *upstream.Upstream
	nothingToPrefetch atomic.Pointer[upstream.Offer] // offer in which no tool may ever be prefetched; nil if none is known
	status            atomic.Pointer[cachedStatus]   // summary of the tools in an offer; nil if not computed
	unlisted          atomic.Int64                   // tools that are not listed, as the log last said
	key               string                         // name and fingerprint: another command under the same name is another server
}

// allows reports whether the configuration lets a tool of this upstream be listed and called.
func (m *member) allows(tool string) bool { return m.Allows == nil || m.Allows(tool) }

func withDefaults(o Options) Options {
	o.Version, o.Log = cmp.Or(o.Version, "dev"), cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Models == nil {
		o.Models, _ = valuemodel.Compile(nil)
	}
	return o
}

// buildPolicy builds the policy of o. It keeps upstreams of old that have not changed, and creates
// others with connect.
func buildPolicy(o Options, old *policy, connect func(Upstream) *upstream.Upstream) *policy {
	p := &policy{Options: o, loaded: time.Now(), prefix: Prefixed(o.NameStyle, len(o.Upstreams)+o.OtherUpstreams)}
	for _, u := range o.Upstreams {
		m := &member{Upstream: u, key: u.Spec.Name + "\x00" + u.Fingerprint}
		if before := old.find(u.Spec.Name); before != nil && before.Fingerprint == u.Fingerprint {
			m.up = before.up
		} else {
			m.up = connect(u)
		}
		p.members = append(p.members, m)
	}
	p.own = newOwnTools(p)
	return p
}

// Prefixed reports whether the tools of that many upstreams are listed as NAME__TOOL.
func Prefixed(nameStyle string, upstreams int) bool {
	return nameStyle == "always" || nameStyle != "never" && upstreams != 1
}

// find returns the named upstream, or nil.
func (p *policy) find(name string) *member {
	if p == nil {
		return nil
	}
	i := slices.IndexFunc(p.members, func(m *member) bool { return m.Spec.Name == name })
	if i < 0 {
		return nil
	}
	return p.members[i]
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
	next := buildPolicy(withDefaults(o), old, s.connect)
	s.policy.Store(next)
	var ending sync.WaitGroup
	for _, m := range old.members {
		switch now := next.find(m.Spec.Name); {
		case now == nil:
			ending.Go(m.up.Close)
		case now.up != m.up:
			m.up.Retire(next.DrainTimeout)
			s.policy.retiring.Go(func() {
				m.up.Close()
				s.prefetch.UpstreamsChanged()
			})
		}
	}
	// By the name that it gives itself, another server may have other domains.
	isSame := func(a, b *member) bool { return a.up == b.up && a.Model.Same(b.Model) }
	if !next.Models.Same(old.Models) || !slices.EqualFunc(next.members, old.members, isSame) { // then not every call is classified as before
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
