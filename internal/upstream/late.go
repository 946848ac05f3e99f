package upstream

import "github.com/hashicorp/golang-lru/v2/simplelru"

// lateKept is how many requests of one connection are remembered whose caller has
// given up; the oldest go first.
const lateKept = 4096

// abandoned is a request whose caller has given up.
type abandoned struct {
	late func()   // Request.Late; may be nil
	of   *account // may be nil
}

// abandon takes a request whose caller gives up out of those that wait, and
// remembers who wants to hear of its answer nevertheless. It is false if the
// request waits no more: its answer is on the way to the caller.
func (c *conn) abandon(p *pending) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[p.id] != p {
		return false
	}
	c.leaveLocked(p)
	c.noteUnfinishedLocked(p.account)
	if p.req.Late == nil && p.account == nil || c.http && c.stateless() {
		return true
	}
	if c.late == nil {
		c.late, _ = simplelru.NewLRU[int64, abandoned](lateKept, nil) // an error: no size
	}
	c.late.Add(p.id, abandoned{p.req.Late, p.account})
	return true
}

// overdue takes the answer to a request that nobody waits for.
func (c *conn) overdue(id int64) {
	c.mu.Lock()
	var a abandoned
	if c.late != nil {
		a, _ = c.late.Peek(id)
		c.late.Remove(id)
	}
	a.of.answered()
	c.mu.Unlock()
	if a.late != nil {
		a.late()
	}
}
