package proxy

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"time"

	"mcpschedd/internal/budget"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/deliver"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/valuemodel"
)

// Common holds what the servers of one process share: the store, so that a write through one
// server invalidates the answers of all; the limits of hosts; and the pool of tokens. Two
// servers never share a session or an instance, so neither serves the other's answers.
type Common struct {
	store  *dedup.Store
	limits *limit.Hosts

	budgets *budget.Pool
	meter   *deliver.Meter // estimates the tokens of answers

	replicas Replicas

	servers set[*Server] // open servers; the first one reports the process's memory, hosts and budgets
}

// NewCommon returns a Common with the bounds and limits of o.
func NewCommon(o Options) *Common {
	return &Common{
		store: dedup.New(o.Dedup), limits: limit.New(o.Limits),
		budgets: budget.NewPool(o.Budgets), meter: deliver.NewMeter(),
	}
}

// Configure replaces the bounds and limits with those of o. [Server.Apply] does so too; a process
// that has no server at the moment needs it.
func (c *Common) Configure(o Options) {
	c.store.Configure(o.Dedup)
	c.limits.Configure(o.Limits)
	c.budgets.Configure(o.Budgets)
}

// SetReplicas sets the number of replicas, this process included. partitioned means that this
// process cannot reach their shared state.
func (c *Common) SetReplicas(n int, partitioned bool) { c.limits.SetReplicas(n, partitioned) }

// Replicas connects this process to its replicas. Nil fields disable the feature.
type Replicas struct {
	Figures func(context.Context) []string // published figures of the other replicas, each from [Common.Figures]
	Limits  limit.SharedLimits             // shared rate limits and quotas
	Problem func() string                  // why the replicas' store cannot be used now; "" if it can

	// PublishLimited notifies the other replicas of a host's 429 response. It must not block.
	PublishLimited func(host string, retryAfter time.Duration)

	// Learned combines own, the storage of one server's learned state, with that of the
	// replicas with the same key, which a reload may change.
	Learned func(key func() string, own speculate.Storage) speculate.Storage
}

// ConnectReplicas connects c to the replicas. It must be called before the first server is created.
func (c *Common) ConnectReplicas(r Replicas) {
	c.replicas = r
	c.limits.SetShared(r.Limits)
}

// Limited records that a host answered 429 to a call of another replica. It stops
// prefetches to the host for retryAfter, and lowers the host's level if this process prefetched
// from it within the last minute.
func (c *Common) Limited(host string, retryAfter time.Duration) {
	c.limits.NoteLimited(host, retryAfter)
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
		more.Running[0].MemoryKB, more.Running[0].Pool = 0, nil // of the process, which count once
		sum.Add(&more)
	}
	sum.Replicas = []string{replicaName()}
	text, _ := json.Marshal(sum) // figures always marshal
	return text
}

// replicaName returns the name that reports show for this replica: host name and process id.
func replicaName() string {
	machine, _ := os.Hostname() // "" if it is not known
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

// BeginLocalWrite registers a write of anything on this machine by a program other than the
// proxy. Until the write ends, at the latest after write_settle, no answer that reads this
// machine is served from the store. Nothing is prefetched for a moment either, because other
// programs, such as formatters, may follow a change with changes of their own.
func (c *Common) BeginLocalWrite() *dedup.PendingWrite {
	write := c.store.RegisterWrite(call.Effect{Places: []call.Place{{Domain: valuemodel.LocalDomain}}, Remote: true})
	write.AnnounceAsync()
	write.Doubt()
	return write
}

// InvalidateLocal invalidates the answers that read anything on this machine.
func (c *Common) InvalidateLocal() { c.store.Invalidate(call.Place{Domain: valuemodel.LocalDomain}) }
