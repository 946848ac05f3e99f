package proxy

import (
	"slices"
	"sync"

	"mcpschedd/internal/budget"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/limit"
)

// Common is what the servers of one process have in common: the store, so that a write through
// one of them ends the answers of all, the pace of hosts, and the pool of tokens. No two of them have a session or
// an instance in common, so no answer of the one is given by another.
type Common struct {
	store  *dedup.Store
	limits *limit.Hosts

	budgets *budget.Pool
	meter   *meter // of the answers that these count

	mu      sync.Mutex
	servers []*Server // that have not been closed; the first reports the figures of both
}

// NewCommon makes it, with the bounds and limits of a configuration.
func NewCommon(o Options) *Common {
	return &Common{
		store: dedup.New(o.Dedup), limits: limit.New(o.Limits),
		budgets: budget.NewPool(o.Budgets, nil), meter: &meter{Meter: budget.NewMeter()},
	}
}

// Share divides the limits of hosts among n replicas, of which this process is one.
func (c *Common) Share(n int) { c.limits.Share(n) }

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
	write := c.store.Arrive(call.Effect{Places: []call.Place{{Domain: local}}, Remote: true})
	write.AnnounceSoon()
	write.Doubt()
	return write
}

// LocalChanged notes that anything on this machine may have changed.
func (c *Common) LocalChanged() { c.store.Bump(call.Place{Domain: local}) }

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

// reportedBy says whether a server reports the figures: what several reported would be added up.
func (c *Common) reportedBy(s *Server) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.servers) > 0 && c.servers[0] == s
}
