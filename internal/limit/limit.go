// Package limit limits the rate and concurrency of the calls to each host. All upstreams that
// call a host share its limits.
//
// Calls are bound only by the limits that the user set. Without limits a call starts at once,
// whatever the host has answered before. With a rate or a concurrency, calls take tokens and
// slots in order of arrival. A prefetch takes only spare tokens and slots, after every waiting
// call, and none from a host that has recently answered 429:
//
//	hosts := limit.New(map[string]limit.Rule{"api.github.com": {Rate: 10, Burst: 20}})
//	slot, err := hosts.Enter(ctx, "api.github.com") // the next of 10 per second
//	...
//	slot.Leave(limit.Outcome{Limited: true, RetryAfter: 7 * time.Second})
//	_, err = hosts.EnterSpare(ctx, "api.github.com", nil) // ErrCoolingDown
//	slot, err = hosts.Enter(ctx, "api.github.com")   // not affected
//
// After a 429 the host cools down for its Retry-After, or else for 30 s. Then it is half open:
// prefetches are still refused until a call that began after the cool-down has succeeded, so that
// a prefetch never probes the host.
//
// The package starts no goroutine: callers block on their own, and one timer per host fires
// when the next token arrives, or is requested from the limits that replicas share. It does not
// retry calls, nor decide how useful a prefetch is.
package limit

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Rule is a [limits.*] block, the user's limits for one host; a zero field is not set. A host named
// upstream:NAME is a local process, the upstream of that name. A local process has no quota
// that prefetches could use up, so SpeculativePerHour has no default for it.
type Rule struct {
	Rate               float64 `toml:"rate" min:"0"`                         // calls per second, including prefetches
	Burst              int     `toml:"burst" min:"0"`                        // calls; default: the rate, at least 1
	Concurrency        int     `toml:"concurrency" min:"0"`                  // concurrent calls, including prefetches
	SpeculativeShare   float64 `toml:"speculative_share" min:"0.01" max:"1"` // part of bucket and slots that a prefetch must leave free; default 0.5
	SpeculativePerHour int     `toml:"speculative_per_hour" min:"1"`         // prefetches begun within any hour; default 200, for upstream:NAME no limit
}

// Rules are the limits of hosts, "*" those of all others. Host names are compared as written.
type Rules map[string]Rule

// Of returns the limits of a host.
func (r Rules) Of(host string) Rule {
	if own, ok := r[host]; ok {
		return own
	}
	return r["*"]
}

// LocalPrefix is the prefix of hosts that are local processes.
const LocalPrefix = "upstream:"

// Default limits of prefetches. They do not apply to calls.
const (
	defaultShare      = 0.5
	defaultPerHour    = 200
	defaultPrefetches = 4 // concurrent, to a host without a Concurrency
)

// maxHosts is the number of hosts at which idle ones without a rule of their own are forgotten, as
// arguments of calls can name any number of hosts. Those that limit nothing go first.
const maxHosts = 1024

// Hosts enforces the limits of all hosts.
type Hosts struct {
	mu          sync.Mutex
	rules       Rules
	shared      SharedLimits     // limits that replicas share; nil if there is one replica
	partitioned bool             // the shared limits are not reachable
	replicas    int              // number of replicas that divide what is not shared
	byName      map[string]*host // hosts kept
}

// New returns hosts under these rules.
func New(rules Rules) *Hosts {
	return &Hosts{rules: rules, replicas: 1, byName: make(map[string]*host)}
}

// Configure replaces the rules. Buckets keep their tokens and calls their slots; waiting calls
// continue under the new rules.
func (hs *Hosts) Configure(rules Rules) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.rules = rules
	hs.applyLocked()
}

func (hs *Hosts) applyLocked() {
	for name, h := range hs.byName {
		h.apply(hs.rules.Of(name))
		h.dispatch()
	}
}

// TryEnter starts a call if it need not wait: always, if the host has no rate and no
// concurrency.
func (hs *Hosts) TryEnter(name string) (*Slot, bool) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h, now := hs.find(name), time.Now()
	if len(h.calls) > 0 || !h.take(now) {
		return nil, false
	}
	return h.start(false, now), true
}

// Enter blocks until a call may start. The error is ctx's cause.
func (hs *Hosts) Enter(ctx context.Context, name string) (*Slot, error) {
	return hs.enter(ctx, name, false, nil)
}

// EnterSpare blocks until enough is spare for a prefetch and no call is waiting. Until then it may
// fail with ErrCoolingDown or ErrQuota. When promoted is closed (it may be nil), the prefetch
// becomes a call: it joins the end of the calls' queue, and neither the quota nor a cool-down
// applies. Any other error is ctx's cause.
func (hs *Hosts) EnterSpare(ctx context.Context, name string, promoted <-chan struct{}) (*Slot, error) {
	slot, err := hs.enter(ctx, name, true, promoted)
	if slot == nil {
		select {
		case <-promoted: // refused as a prefetch, but promoted since
			return hs.Enter(ctx, name)
		default:
		}
	}
	return slot, err
}

// MayPrefetch returns the error with which EnterSpare would fail at once, or nil. It takes no
// token.
func (hs *Hosts) MayPrefetch(name string) error {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.byName[name]
	if h == nil {
		h = hs.newHost(name)
	}
	err := h.refusal(time.Now())
	if err == ErrQuota {
		h.stats.OverQuota++
	}
	return err
}

// ReadHarm returns the total wait of the calls to the host that found no free slot while a prefetch
// held one, and the part of it that no ReadHarm has returned before, so that several readers can count it once.
func (hs *Hosts) ReadHarm(name string) (total, unread time.Duration) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.byName[name]
	if h == nil {
		return 0, 0
	}
	unread, h.harmRead = h.harm-h.harmRead, h.harm
	return h.harm, unread
}

// find returns the host, and creates it if needed.
func (hs *Hosts) find(name string) *host {
	if h := hs.byName[name]; h != nil {
		return h
	}
	if now := time.Now(); len(hs.byName) >= maxHosts {
		hs.forget(func(h *host) bool { return h.idle() && h.limitsNothing(now) })
	}
	if len(hs.byName) >= maxHosts {
		hs.forget((*host).idle)
	}
	hs.byName[name] = hs.newHost(name)
	return hs.byName[name]
}

// newHost returns a host under its rule, which is not kept.
func (hs *Hosts) newHost(name string) *host {
	h := &host{hosts: hs, stats: HostStats{Host: name}}
	h.apply(hs.rules.Of(name))
	return h
}

// forget forgets the hosts without a rule of their own for which may returns true.
func (hs *Hosts) forget(may func(h *host) bool) {
	maps.DeleteFunc(hs.byName, func(name string, h *host) bool {
		_, named := hs.rules[name]
		return !named && may(h)
	})
}

// HostStats is a snapshot of one host.
type HostStats struct {
	Host              string
	InFlight          int       // calls in flight, including prefetches, but not paused calls
	Prefetches        int       // of those: begun as prefetches
	Waiting           int       // waiting calls, including promoted prefetches and paused calls that go on
	WaitingPrefetches int       // waiting prefetches
	LastHour          int       // prefetches begun
	OverQuota         int64     // times that MayPrefetch returned ErrQuota for the quota in force
	Limited           int64     // 429s
	HarmMS            int64     // total wait of calls that found no free slot while a prefetch held one
	CoolingUntil      time.Time // zero without a cool-down; if past, the host is half open
	Tokens            *float64  // in the bucket; nil without a rate
}

// Stats returns all hosts kept, sorted by name.
func (hs *Hosts) Stats() []HostStats {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	now := time.Now()
	out := make([]HostStats, 0, len(hs.byName))
	for _, h := range hs.byName {
		s := h.stats
		s.Waiting, s.WaitingPrefetches, s.CoolingUntil = len(h.calls)+len(h.resuming), len(h.prefetches), h.cooling.until
		s.LastHour, s.HarmMS = len(h.lastHour(now)), h.harm.Milliseconds()
		switch {
		case h.bucket == nil:
		case hs.usesShared():
			s.Tokens = new(h.grants.left)
		default:
			s.Tokens = new(h.bucket.TokensAt(now))
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b HostStats) int { return cmp.Compare(a.Host, b.Host) })
	return out
}
