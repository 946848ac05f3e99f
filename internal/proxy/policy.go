package proxy

import (
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/limit"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// policy is what one configuration says, and the upstreams it names. It is as wide as the
// configuration, of which nothing changes: it is replaced whole.
type policy struct {
	Options
	members []*member  // in configuration order
	prefix  bool       // names are upstream__tool
	own     []*ownTool // what the proxy itself offers
	search  []*ownTool // what it offers beside where tools are searched for; nil: they never are
	loaded  time.Time
}

// livePolicy is the policy that is in force.
type livePolicy struct {
	atomic.Pointer[policy]
	replacing sync.Mutex // held while a new one is put in its place
}

// member is one upstream of a policy.
type member struct {
	Upstream
	up                *upstream.Upstream
	gone              chan struct{}                  // closed when up has been closed
	nothingToPrefetch atomic.Pointer[upstream.Offer] // in which nothing may ever be run early; nil: not looked at
	status            atomic.Pointer[cachedStatus]   // what its tools allow; nil: not looked at
	key               string                         // its name and how it is reached: another command under the same name is another server
}

func (m *member) close() {
	m.up.Close()
	close(m.gone)
}

// allows reports whether the operator lets a tool of this upstream be seen and
// called.
func (m *member) allows(tool string) bool { return m.Allows == nil || m.Allows(tool) }

func withDefaults(o Options) Options {
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.MaxMessage == 0 {
		o.MaxMessage = 64 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Models == nil {
		o.Models, _ = valuemodel.Compile(nil)
	}
	return o
}

// withRestartSettings is o with what needs a restart to change as it was in old.
func (o Options) withRestartSettings(old Options) Options {
	o.Log, o.HTTP, o.Version, o.Trace, o.Common, o.LocalExclusive = old.Log, old.HTTP, old.Version, old.Trace, old.Common, old.LocalExclusive
	o.NameStyle, o.StartupWait, o.DrainTimeout, o.MaxMessage = old.NameStyle, old.StartupWait, old.DrainTimeout, old.MaxMessage
	o.Selection = old.Selection
	if o.Models == nil {
		o.Models = old.Models
	}
	return o
}

// connector makes the connections to an upstream, which begin after a channel has been
// closed; nil: at once.
type connector func(u Upstream, after <-chan struct{}) *upstream.Upstream

// buildPolicy makes the policy of o. It takes over from old the upstreams that are the
// same; of one that is not, the old connection ends before the new one begins.
func buildPolicy(o Options, old *policy, connect connector) *policy {
	p := &policy{Options: o, loaded: time.Now(), prefix: o.NameStyle == "always" || o.NameStyle != "never" && len(o.Upstreams)+o.Elsewhere != 1}
	for _, u := range o.Upstreams {
		m := &member{Upstream: u, key: u.Spec.Name + "\x00" + u.Fingerprint}
		switch before := old.find(u.Spec.Name); {
		case before == nil:
			m.up, m.gone = connect(u, nil), make(chan struct{})
		case before.Fingerprint == u.Fingerprint:
			m.up, m.gone = before.up, before.gone
		default:
			m.up, m.gone = connect(u, before.gone), make(chan struct{})
		}
		p.members = append(p.members, m)
	}
	p.Plans.withDefaults()
	p.own, p.search = ownTools(&p.Plans), searchTools(&p.Selection, p.members)
	return p
}

// sameRules reports whether two policies agree on what every call may change and
// what its answer depends on. Freshness and costs may differ.
func (p *policy) sameRules(old *policy) bool {
	return p.Models.Same(old.Models) && slices.EqualFunc(p.members, old.members, func(a, b *member) bool { return reflect.DeepEqual(a.Model, b.Model) })
}

// find is the upstream so named, nil if there is none.
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

// removedIn are the upstreams of p that next does not take over.
func (p *policy) removedIn(next *policy) []*member {
	return slices.DeleteFunc(slices.Clone(p.members), func(m *member) bool {
		now := next.find(m.Spec.Name)
		return now != nil && now.up == m.up
	})
}

// rule is what the operator says of a host.
func (p *policy) rule(host string) limit.Rule {
	if r, ok := p.Limits[host]; ok {
		return r
	}
	return p.Limits["*"]
}

// Apply replaces the configuration: upstreams that are no longer in it end,
// new ones start, and every session is sent what changed. Server and HTTP
// settings need a restart and are left as they were. After Close it does nothing.
func (s *Server) Apply(o Options) {
	s.policy.replacing.Lock()
	defer s.policy.replacing.Unlock()
	if s.sessions.isClosed() {
		return
	}
	old := s.policy.Load()
	next := buildPolicy(o.withRestartSettings(old.Options), old, s.connect)
	s.policy.Store(next)
	if !next.sameRules(old) {
		s.store.Reclassify() // after it can be seen: a write classified before stays pending from now on
	}
	s.configure(next)
	var ending sync.WaitGroup
	for _, m := range old.removedIn(next) {
		ending.Go(m.close)
	}
	for _, session := range s.sessions.all() {
		session.adoptPolicy()
	}
	ending.Wait()
	s.prefetch.UpstreamsChanged()
}

// configure hands the parts of a new policy to what keeps a copy of them.
func (s *Server) configure(p *policy) {
	s.recorder.log.Reconfigure(p.Record.Full, !p.Record.Off)
	s.store.Configure(p.Dedup)
	s.limits.Configure(p.Limits)
	s.common.budgets.Configure(p.Budgets)
	s.configurePrefetch(&p.Enrichment)
	s.recorder.log.Changed()
}
