package proxy

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"mcpschedd/internal/budget"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
)

// Common is what the servers of one process have in common: the store, so that a write through
// one of them ends the answers of all, the pace of hosts, and the pool of tokens. No two of them
// have a session or an instance in common, so no answer of the one is given by another.
type Common struct {
	store  *dedup.Store
	limits *limit.Hosts

	budgets *budget.Pool
	meter   *meter // of the answers that these count

	replicas Replicas

	mu      sync.Mutex
	servers []*Server // that have not been closed; the first reports the figures of both
}

// NewCommon makes it, with the bounds and limits of a configuration.
func NewCommon(o Options) *Common {
	return &Common{
		store: dedup.New(o.Dedup), limits: limit.New(o.Limits),
		budgets: budget.NewPool(o.Budgets, nil), meter: newMeter(),
	}
}

// Share says how many replicas there are, this process included, and whether it is apart: what
// they share cannot be reached.
func (c *Common) Share(n int, apart bool) { c.limits.Share(n, apart) }

// Replicas are the other replicas of this process, as far as more than answers is shared with
// them. What is nil is not.
type Replicas struct {
	Figures func(context.Context) []string // what they published, each [Common.Figures]
	Limits  limit.Shared                   // their pace and quotas

	// TellRefused tells them that a host said 429. It must not wait.
	TellRefused func(host string, retryAfter time.Duration)

	// Learned keeps what belongs to a server, which own keeps, with what those have that say the
	// same key at that moment; "": alone.
	Learned func(key func() string, own speculate.Learned) speculate.Learned
}

// ShareWith is called before there is a server.
func (c *Common) ShareWith(r Replicas) {
	c.replicas = r
	c.limits.ShareBy(r.Limits)
}

// releaseSlot ends a call at a host, and tells the other replicas if it was refused there.
func (c *Common) releaseSlot(slot *limit.Slot, host string, v limit.Verdict) {
	if news := slot.Leave(v); news && c.replicas.TellRefused != nil {
		c.replicas.TellRefused(host, v.RetryAfter)
	}
}

// Refused notes that a host refused a call of another replica as one too many: prefetches leave
// it alone for as long here, and fewer are made.
func (c *Common) Refused(host string, retryAfter time.Duration) {
	c.limits.Refused(host, retryAfter)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		s.prefetch.Scheduler.LimitedElsewhere(host, time.Now())
	}
}

// Figures are those of this replica, as JSON for the others; nil: there are none yet.
func (c *Common) Figures() []byte {
	c.mu.Lock()
	servers := slices.Clone(c.servers)
	c.mu.Unlock()
	if len(servers) == 0 {
		return nil
	}
	sum := servers[0].Report()
	for _, s := range servers[1:] {
		more := s.Report()
		sum.Add(&more)
	}
	sum.Replicas, sum.Engine = []string{replicaName()}, nil
	text, err := json.Marshal(sum)
	if err != nil {
		return nil // figures always marshal
	}
	return text
}

// replicaName is what people know this replica by.
func replicaName() string {
	machine, err := os.Hostname()
	if err != nil {
		machine = "unknown"
	}
	return machine + "/" + strconv.Itoa(os.Getpid())
}

// addReplicas adds what the other replicas have published. What cannot be read, of another
// version perhaps, is left out.
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

// replicasTimeout is how long the figures of the others are waited for.
const replicasTimeout = 2 * time.Second

// Close ends it, after its servers.
func (c *Common) Close() { c.store.Close() }

// local is the domain of what is on this machine.
const local = "local"

// ChangeLocal notes that something is about to be changed on this machine without the proxy,
// be it by a command that may change anything. Until the write ends, at the latest after
// write_settle, nothing that reads this machine is served from the store. Nor is anything made
// early for a moment then: what else changes files when one has changed, as formatters do, is
// at work.
func (c *Common) ChangeLocal() *dedup.PendingWrite {
	write := c.store.RegisterWrite(call.Effect{Places: []call.Place{{Domain: local}}, Remote: true})
	write.AnnounceAsync()
	write.Doubt()
	return write
}

// LocalChanged notes that anything on this machine may have changed.
func (c *Common) LocalChanged() { c.store.Invalidate(call.Place{Domain: local}) }

func (c *Common) add(s *Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers = append(c.servers, s)
}

func (c *Common) remove(s *Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers = slices.DeleteFunc(c.servers, func(other *Server) bool { return other == s })
	if len(c.servers) > 0 {
		c.servers[0].recorder.log.Changed() // it may report the figures of both from now on
	}
}

// reports says whether a server reports the figures: what several reported would be added up.
func (c *Common) reports(s *Server) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.servers) > 0 && c.servers[0] == s
}
