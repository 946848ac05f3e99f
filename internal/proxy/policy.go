package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/budget"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// policy is one version of the configuration with its upstreams. It has as many fields as the
// configuration. It is immutable; a reload replaces it as a whole.
type policy struct {
	Options
	members []*member  // in the order of the configuration
	prefix  bool       // shown names are upstream__tool
	own     []*ownTool // the proxy's own tools, in the order of the list
	loaded  time.Time
}

// livePolicy holds the policy in force.
type livePolicy struct {
	atomic.Pointer[policy]
	replacing sync.Mutex // held while the policy is replaced
	closed    bool       // no more policies are adopted
}

// member is one upstream of a policy.
type member struct {
	Upstream
	up                *upstream.Upstream
	nothingToPrefetch atomic.Pointer[upstream.Offer] // offer in which no tool may ever be prefetched; nil if none is known
	status            atomic.Pointer[cachedStatus]   // summary of the tools in an offer; nil if not computed
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

// withRestartSettings returns o with the settings that need a restart taken from old.
func (o Options) withRestartSettings(old Options) Options {
	o.Log, o.HTTP, o.Version, o.Trace, o.Common, o.LocalExclusive = old.Log, old.HTTP, old.Version, old.Trace, old.Common, old.LocalExclusive
	o.NameStyle, o.StartupWait, o.DrainTimeout, o.MaxMessage = old.NameStyle, old.StartupWait, old.DrainTimeout, old.MaxMessage
	o.Selection = old.Selection
	if o.Models == nil {
		o.Models = old.Models
	}
	return o
}

// buildPolicy builds the policy of o. It keeps upstreams of old that have not changed, and creates
// others with connect.
func buildPolicy(o Options, old *policy, connect func(Upstream) *upstream.Upstream) *policy {
	p := &policy{Options: o, loaded: time.Now(), prefix: o.NameStyle == "always" || o.NameStyle != "never" && len(o.Upstreams)+o.OtherUpstreams != 1}
	for _, u := range o.Upstreams {
		m := &member{Upstream: u, key: u.Spec.Name + "\x00" + u.Fingerprint}
		if before := old.find(u.Spec.Name); before != nil && before.Fingerprint == u.Fingerprint {
			m.up = before.up
		} else {
			m.up = connect(u)
		}
		p.members = append(p.members, m)
	}
	p.Plans.withDefaults()
	p.own = append(searchTools(&p.Selection, p.members), planTools(&p.Plans)...)
	return p
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

// rule returns the configured limits of a host.
func (p *policy) rule(host string) limit.Rule {
	if r, ok := p.Limits[host]; ok {
		return r
	}
	return p.Limits["*"]
}

// Apply replaces the configuration. It starts new upstreams, closes removed ones, and notifies
// every session of changed lists. Settings of the server and of HTTP need a restart and keep
// their values. After Close, Apply does nothing.
func (s *Server) Apply(o Options) {
	s.policy.replacing.Lock()
	defer s.policy.replacing.Unlock()
	if s.policy.closed {
		return
	}
	old := s.policy.Load()
	next := buildPolicy(o.withRestartSettings(old.Options), old, s.connect)
	s.policy.Store(next)
	sameRules := next.Models.Same(old.Models) && slices.EqualFunc(next.members, old.members, func(a, b *member) bool { return reflect.DeepEqual(a.Model, b.Model) })
	if !sameRules { // then not every call is classified as before
		s.common.store.Reclassify() // after the new policy is visible: writes classified before stay pending from now on
	}
	s.recorder.log.Reconfigure(next.Record.Full, !next.Record.Off)
	s.common.store.Configure(next.Dedup)
	s.common.limits.Configure(next.Limits)
	s.common.budgets.Configure(next.Budgets)
	s.prefetch.Scheduler.Configure(next.Enrichment.Slots())
	s.recorder.log.Changed()
	var ending sync.WaitGroup
	for _, m := range old.members {
		if now := next.find(m.Spec.Name); now == nil || now.up != m.up {
			ending.Go(m.up.Close)
		}
	}
	for _, session := range s.sessions.list() {
		session.adoptPolicy()
	}
	ending.Wait()
	s.prefetch.UpstreamsChanged()
}

// Common holds what the servers of one process share: the store, so that a write through one
// server invalidates the answers of all; the limits of hosts; and the pool of tokens. Two
// servers never share a session or an instance, so neither serves the other's answers.
type Common struct {
	store  *dedup.Store
	limits *limit.Hosts

	budgets *budget.Pool
	meter   *meter // counts the tokens of answers against budgets

	replicas Replicas

	servers set[*Server] // open servers; the first one reports the process's memory, hosts and budgets
}

// NewCommon returns a Common with the bounds and limits of o.
func NewCommon(o Options) *Common {
	return &Common{
		store: dedup.New(o.Dedup), limits: limit.New(o.Limits),
		budgets: budget.NewPool(o.Budgets, nil), meter: newMeter(),
	}
}

// SetReplicas sets the number of replicas, this process included. partitioned means that this
// process cannot reach their shared state.
func (c *Common) SetReplicas(n int, partitioned bool) { c.limits.SetReplicas(n, partitioned) }

// Replicas connects this process to its replicas. Nil fields disable the feature.
type Replicas struct {
	Figures func(context.Context) []string // published figures of the other replicas, each from [Common.Figures]
	Limits  limit.SharedLimits             // shared rate limits and quotas

	// PublishRefused notifies the other replicas of a host's 429 response. It must not block.
	PublishRefused func(host string, retryAfter time.Duration)

	// Learned combines own, the storage of one server's learned state, with that of the
	// replicas that return the same key at that moment. For the key "" it is own alone.
	Learned func(key func() string, own speculate.Storage) speculate.Storage
}

// ConnectReplicas connects c to the replicas. It must be called before the first server is created.
func (c *Common) ConnectReplicas(r Replicas) {
	c.replicas = r
	c.limits.SetShared(r.Limits)
}

// Refused records that a host refused a call of another replica with a 429. It stops
// prefetches to the host for retryAfter, and lowers the host's level if this process prefetched
// from it within the last minute.
func (c *Common) Refused(host string, retryAfter time.Duration) {
	c.limits.Refused(host, retryAfter)
	for _, s := range c.servers.list() {
		s.prefetch.Scheduler.Limited(host, true, time.Now())
	}
}

// Figures returns the figures of this replica as JSON for the other replicas, or nil if no
// server is open.
func (c *Common) Figures() []byte {
	servers := c.servers.list()
	if len(servers) == 0 {
		return nil
	}
	sum := servers[0].Report()
	for _, s := range servers[1:] {
		more := s.Report()
		sum.Add(&more)
	}
	sum.Replicas = []string{replicaName()}
	text, err := json.Marshal(sum)
	if err != nil {
		return nil // figures can always be marshalled
	}
	return text
}

// replicaName returns the name that reports show for this replica: host name and process id.
func replicaName() string {
	machine, err := os.Hostname()
	if err != nil {
		machine = "unknown"
	}
	return machine + "/" + strconv.Itoa(os.Getpid())
}

// addReplicas adds the figures that the other replicas have published. It skips figures that
// it cannot parse and those of another schema version.
func (c *Common) addReplicas(out *record.Stats) {
	if c.replicas.Figures == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), replicasTimeout)
	defer cancel()
	out.Replicas = []string{replicaName()}
	for _, text := range c.replicas.Figures(ctx) {
		var more record.Stats
		if json.Unmarshal([]byte(text), &more) == nil && more.SchemaVersion == out.SchemaVersion {
			out.Add(&more)
		}
	}
	slices.Sort(out.Replicas)
}

// replicasTimeout bounds the wait for the other replicas' figures.
const replicasTimeout = 2 * time.Second

// Close closes the store. The servers must have been closed.
func (c *Common) Close() { c.store.Close() }

// local is the domain of everything on this machine.
const local = "local"

// BeginLocalWrite registers a write of anything on this machine by a program other than the
// proxy. Until the write ends, at the latest after write_settle, no answer that reads this
// machine is served from the store. Nothing is prefetched for a moment either, because other
// programs, such as formatters, may follow a change with changes of their own.
func (c *Common) BeginLocalWrite() *dedup.PendingWrite {
	write := c.store.RegisterWrite(call.Effect{Places: []call.Place{{Domain: local}}, Remote: true})
	write.AnnounceAsync()
	write.Doubt()
	return write
}

// InvalidateLocal invalidates the answers that read anything on this machine.
func (c *Common) InvalidateLocal() { c.store.Invalidate(call.Place{Domain: local}) }
