// Package limit keeps the pace and the concurrency that each remote host can
// bear, for all upstreams that name the same host together.
//
// A real call owes its host only what the user wrote down, a prefetch owes it caution
// besides. Where the user set nothing a real call is
// counted and let through, whatever the host has answered before; where the user
// set a rate or a concurrency, real calls take tokens and slots in the order they
// came. A prefetch takes what is spare, behind every real call that waits, and
// nothing at all from a host that has lately said 429:
//
//	hosts := limit.New(map[string]limit.Rule{"api.github.com": {Rate: 10, Burst: 20}})
//	slot, err := hosts.Enter(ctx, "api.github.com") // the next of 10 per second
//	...
//	slot.Leave(limit.Verdict{Limited: true, RetryAfter: 7 * time.Second})
//	_, err = hosts.Prefetch(ctx, "api.github.com", nil) // ErrCoolingDown
//	slot, err = hosts.Enter(ctx, "api.github.com")   // goes on as before
//
// After a 429 the host cools down, for as long as it said or else 30 s, twice
// that after the next one that says nothing. Then it is half open: a prefetch is
// still refused until one real call that began after the cool-down has succeeded,
// so that what finds out whether the host answers again is never a prefetch.
//
// It starts no goroutine: a caller waits on its own, and one timer a host says when the
// next token has come, or asks what replicas share for one. It retries nothing, and does not
// judge how useful prefetches are.
package limit

import (
	"context"
	"maps"
	"sync"
	"time"

	"mcpschedd/internal/age"
)

// Rule is what the user set for one host. A zero field is not set. A host named
// upstream:NAME is the upstream of that name and nothing remote: a process on this
// machine. It has no quota that prefetches could use up, so SpeculativePerHour has no
// default there; the share and the caution after a 429 are the same.
type Rule struct {
	Rate               float64 // calls per second, prefetches included
	Burst              int     // calls; default: the rate, at least 1
	Concurrency        int     // calls at once, prefetches included
	SpeculativeShare   float64 // of bucket and slots that a prefetch must leave free; default 0.5
	SpeculativePerHour int     // prefetches begun within any hour; default 200, of upstream:NAME any number
}

// localPrefix begins the names of hosts that are processes on this machine.
const localPrefix = "upstream:"

// Caution that needs no rule. It binds prefetches only.
const (
	defaultShare      = 0.5
	defaultPerHour    = 200
	defaultPrefetches = 4 // at once, to a host for which the user set no concurrency
)

// How many hosts are remembered. Arguments name hosts, so there may be any
// number of them.
const (
	maxKept    = 1024        // more only while all of them are in use or remember something
	maxIdle    = 4 * maxKept // more only while all of them are in use
	sweepEvery = maxKept / 4 // new hosts between two looks at all of them
)

// Hosts is the pace of every host.
type Hosts struct {
	clock func() age.Moment

	mu          sync.Mutex
	lastRead    age.Moment       // what the clock said last
	lastNow     time.Time        // and what now made of it
	rules       map[string]Rule  // host, or "*" for every other → what the user set
	shared      SharedLimits     // nil: there is one replica
	partitioned bool             // what is shared cannot be reached
	replicas    int              // among how many replicas what is not shared is divided
	byName      map[string]*host // those remembered
	sweepAt     int              // how many there may be before some are forgotten
}

// New returns hosts under these rules: host → rule, "*" for every other host.
// Hosts are compared as they are written.
func New(rules map[string]Rule) *Hosts {
	return &Hosts{clock: age.Now, lastRead: age.Now(), lastNow: time.Now().Round(0), rules: rules, replicas: 1, byName: make(map[string]*host), sweepAt: maxKept}
}

// now is the time that buckets, cool-downs and quotas go by, and is compared with
// nothing else. Hosts do not sleep when this machine does: between any two looks it
// goes on by the larger of what both clocks say, and so never back.
func (hs *Hosts) now() time.Time {
	m := hs.clock()
	hs.lastNow, hs.lastRead = hs.lastNow.Add(m.Since(hs.lastRead)), m
	return hs.lastNow
}

// Configure puts other rules in place. Buckets keep their tokens and calls their
// slots; a call that waits does so under the new rules.
func (hs *Hosts) Configure(rules map[string]Rule) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.rules = rules
	hs.applyLocked()
}

func (hs *Hosts) applyLocked() {
	for name, h := range hs.byName {
		h.apply(hs.rule(name))
		h.dispatch(hs.now())
	}
}

// TryEnter lets a real call begin if it need not wait: always, where the user set
// no rate and no concurrency.
func (hs *Hosts) TryEnter(name string) (*Slot, bool) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	slot := hs.find(name).tryEnter()
	return slot, slot != nil
}

// Enter lets a real call begin when it is its turn. The error is ctx's cause.
func (hs *Hosts) Enter(ctx context.Context, name string) (*Slot, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	hs.mu.Lock()
	h := hs.find(name)
	if slot := h.tryEnter(); slot != nil {
		hs.mu.Unlock()
		return slot, nil
	}
	w := h.queue(false)
	hs.mu.Unlock()
	return hs.wait(ctx, w, nil)
}

// Prefetch lets a prefetch begin once the spare share is free and no real call waits.
// Until then it may be refused with ErrCoolingDown or ErrQuota. As soon as
// promoted is closed (nil never is) it is as good as a real call: it joins the
// end of their queue, needs no quota and minds no cool-down. Any other error is
// ctx's cause.
func (hs *Hosts) Prefetch(ctx context.Context, name string, promoted <-chan struct{}) (*Slot, error) {
	if isClosed(promoted) {
		return hs.Enter(ctx, name)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	hs.mu.Lock()
	w := hs.find(name).queue(true)
	hs.mu.Unlock()
	slot, err := hs.wait(ctx, w, promoted)
	if slot == nil && ctx.Err() == nil && isClosed(promoted) {
		return hs.Enter(ctx, name) // refused as the prefetch that it was no longer
	}
	return slot, err
}

// MayPrefetch is the error with which Prefetch would refuse a prefetch at once. It takes
// nothing.
func (hs *Hosts) MayPrefetch(name string) error {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.byName[name]
	if h == nil {
		return nil
	}
	return h.refusal(hs.now())
}

// Harm is how long real calls to the host have waited so far, together, for slots
// while prefetches had some.
func (hs *Hosts) Harm(name string) time.Duration {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h := hs.byName[name]; h != nil {
		return h.harm
	}
	return 0
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (hs *Hosts) rule(name string) Rule {
	if r, ok := hs.rules[name]; ok {
		return r
	}
	return hs.rules["*"]
}

// find returns the host, which is remembered from now on.
func (hs *Hosts) find(name string) *host {
	if h := hs.byName[name]; h != nil {
		return h
	}
	if len(hs.byName) >= hs.sweepAt {
		hs.evict()
	}
	h := &host{hosts: hs, counters: HostStats{Host: name}}
	h.apply(hs.rule(name))
	hs.byName[name] = h
	return h
}

// forget makes room: first of the hosts that are idle and remember nothing, then, where
// there are too many that do, of all that are idle.
func (hs *Hosts) evict() {
	maps.DeleteFunc(hs.byName, func(_ string, h *host) bool { return h.idle() && !h.hasState() })
	if len(hs.byName) >= maxIdle {
		maps.DeleteFunc(hs.byName, func(_ string, h *host) bool { return h.idle() })
	}
	hs.sweepAt = max(maxKept, len(hs.byName)+sweepEvery)
}
