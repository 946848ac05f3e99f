package proxy

import (
	"sync"
	"time"
)

// What a call takes in company says little of what it would take alone: a server that
// works on one call at a time has it wait for the others. So it is kept for how long an
// upstream instance has had more than one call at once.

// companies are those of all instances.
type companies struct{ byInstance sync.Map } // instance → *company

func (c *companies) of(instance uint64) *company {
	if own, ok := c.byInstance.Load(instance); ok {
		return own.(*company)
	}
	own, _ := c.byInstance.LoadOrStore(instance, new(company))
	return own.(*company)
}

func (c *companies) forget(instance uint64) { c.byInstance.Delete(instance) }

// company is the calls that one instance has at once.
type company struct {
	mu     sync.Mutex
	calls  int           // there now
	shared time.Duration // for how long there was more than one, up to at
	at     time.Time
}

// count counts one call more or less, and returns for how long there has been more
// than one so far.
func (c *company) count(more int, now time.Time) (shared time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls > 1 {
		c.shared += now.Sub(c.at)
	}
	c.at = now
	c.calls += more
	return c.shared
}

// stay is one call's time with an instance.
type stay struct {
	at     *company
	before time.Duration // company.shared when it began
	left   sync.Once
}

func (c *company) enter(now time.Time) *stay { return &stay{at: c, before: c.count(1, now)} }

// leave ends the stay.
func (s *stay) leave(now time.Time) { s.left.Do(func() { s.at.count(-1, now) }) }

// shared is for how long so far there was somebody else.
func (s *stay) shared(now time.Time) time.Duration { return s.at.count(0, now) - s.before }

// lingers is how long a server is taken to be still at a call that was cut short, if it
// does not say otherwise.
const lingers = time.Minute
