package limit

import (
	"math/rand/v2"
	"slices"
	"time"
)

// SharedLimits takes from what replicas share: a bucket of tokens for each host, and a count of
// prefetches. It blocks for the reply. An error means that none is available now.
type SharedLimits func(TokenRequest) (Grant, error)

// TokenRequest requests tokens of a host for Calls calls, or what one prefetch needs if Calls
// is 0.
type TokenRequest struct {
	Host       string
	Rate       float64 // tokens per second; 0 if calls take none
	Burst      int     // size of the bucket
	Calls      int
	MinTokens  float64 // for a prefetch: tokens that must be there; it takes one
	MaxPerHour int     // for a prefetch: how many may begin within any hour; 0 for no limit
}

// MaxAhead is how long after the reply the last granted token may arrive.
const MaxAhead = 100 * time.Millisecond

// Grant is the reply to a TokenRequest.
type Grant struct {
	Tokens    int           // for a prefetch 1 if it may begin, else 0
	Left      float64       // in the bucket after that; if negative, the number of granted tokens yet to arrive
	QuotaWait time.Duration // for a prefetch: time until the hourly limit allows one
}

// retryDelay is the wait between failed requests to the shared limits.
const retryDelay = 250 * time.Millisecond

// grants are what a host has received from the shared limits.
type grants struct {
	tokens     []time.Time // when each token may be used; a token that no call then takes is lost
	permit     bool        // the first waiting prefetch may begin
	quotaUntil time.Time   // the hourly limit allows no prefetch before

	requesting             bool      // a request is in progress
	nextCall, nextPrefetch time.Time // no request is sent for a call or a prefetch before
	left                   float64   // tokens in the bucket, by the last reply
}

// SetShared sets the limits that replicas share. It must be called before the first call.
func (hs *Hosts) SetShared(shared SharedLimits) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.shared = shared
}

// SetReplicas sets the number of replicas, including this one, among which the slots of hosts
// are divided evenly; each has at least one. While partitioned, when the shared limits are not
// reachable, a replica also has an equal part of the tokens, and makes no prefetch if those
// have an hourly limit.
func (hs *Hosts) SetReplicas(n int, partitioned bool) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if partitioned && !hs.partitioned {
		for _, h := range hs.byName {
			h.bucket = nil // unused until now; the next one starts empty
		}
	}
	hs.replicas, hs.partitioned = max(1, n), partitioned
	hs.applyLocked()
}

// usesShared reports whether tokens are requested from the shared limits.
func (hs *Hosts) usesShared() bool { return hs.shared != nil && !hs.partitioned }

// prefetchNeedsGrant reports whether a prefetch takes something that replicas share.
func (h *host) prefetchNeedsGrant() bool {
	return h.hosts.usesShared() && (h.bucket != nil || h.rule.SpeculativePerHour > 0)
}

// nextRequest returns the next request to the shared limits and its time; false for none.
func (h *host) nextRequest() (r TokenRequest, when time.Time, ok bool) {
	g := &h.grants
	if !h.hosts.usesShared() || g.requesting {
		return r, when, false
	}
	r = TokenRequest{Host: h.stats.Host, Rate: h.rule.Rate, Burst: h.rule.Burst}
	if len(h.calls) > 0 {
		r.Calls = len(h.calls)
		if h.rule.Concurrency > 0 {
			r.Calls = min(r.Calls, h.rule.Concurrency-h.stats.InFlight)
		}
		r.Calls -= len(g.tokens)
		return r, g.nextCall, h.bucket != nil && r.Calls > 0
	}
	if h.bucket != nil {
		r.MinTokens = h.spareTokens()
	}
	r.MaxPerHour = h.rule.SpeculativePerHour
	return r, g.nextPrefetch, len(h.prefetches) > 0 && h.prefetchNeedsGrant() && h.hasSpareSlot()
}

// untilGranted returns the time until a granted token may be used, or the next request is due;
// false if neither will happen.
func (h *host) untilGranted(now time.Time) (wait time.Duration, waits bool) {
	if waits = len(h.grants.tokens) > 0; waits {
		wait = h.grants.tokens[0].Sub(now)
	}
	if _, when, due := h.nextRequest(); due && (!waits || when.Sub(now) < wait) {
		return when.Sub(now), true
	}
	return wait, waits
}

// sendRequest sends the request to the shared limits that is due, if any. It unlocks the mutex
// until the reply is there.
func (h *host) sendRequest() {
	now := time.Now()
	r, when, ok := h.nextRequest()
	if !ok || now.Before(when) {
		return
	}
	h.grants.requesting = true
	h.arm(now)
	rule := h.rule
	h.hosts.mu.Unlock()
	got, err := h.hosts.shared(r)
	h.hosts.mu.Lock()
	h.grants.requesting = false
	if h.rule == rule { // else its waits are those of an earlier rule, and its tokens are lost
		h.grants.record(time.Now(), r, got, err)
	}
}

// record records a reply.
func (g *grants) record(now time.Time, r TokenRequest, got Grant, err error) {
	after := func(tokens float64) time.Duration { // time in which that many tokens arrive
		return time.Duration(min(max(tokens, 0)/r.Rate*float64(time.Second), float64(maxTimer)))
	}
	if err != nil {
		g.nextCall, g.nextPrefetch = now.Add(retryDelay), now.Add(retryDelay)
		return
	}
	g.left = got.Left
	switch {
	case r.Calls > 0:
		for i := range got.Tokens {
			g.tokens = append(g.tokens, now.Add(after(float64(i+1-got.Tokens)-got.Left)))
		}
		slices.SortFunc(g.tokens, time.Time.Compare) // replies may be late
		if got.Tokens < r.Calls {
			g.nextCall = now.Add(max(after(1-got.Left)-MaxAhead, MaxAhead/2) + rand.N(MaxAhead/2)) // random, so that no replica is always first
		}
	case got.Tokens > 0:
		g.permit = true
	case got.QuotaWait > 0:
		g.quotaUntil = now.Add(got.QuotaWait)
	default:
		g.nextPrefetch = now.Add(after(r.MinTokens-got.Left) + rand.N(MaxAhead/2))
	}
}

// take takes a token that may be used now.
func (g *grants) take(now time.Time) bool {
	if len(g.tokens) == 0 || g.tokens[0].After(now) {
		return false
	}
	g.tokens = g.tokens[1:]
	return true
}

// dropUnused discards the permit and the tokens that no call has used in time.
func (g *grants) dropUnused(now time.Time) {
	g.permit = false
	for g.take(now) {
	}
}
