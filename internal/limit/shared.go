package limit

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Shared is what replicas of this process have in common: a bucket of tokens for each host, and
// how many prefetches have begun. It waits for the answer. An error says that there is none now.
type SharedLimits func(TokenRequest) (Grant, error)

// Ask asks for what calls to a host take: tokens for Calls real calls, or all that one prefetch
// takes where Calls is 0.
type TokenRequest struct {
	Host       string
	Rate       float64 // tokens that come in a second; 0: calls take none
	Burst      int     // how many tokens there are at most
	Calls      int
	MinTokens  float64 // for a prefetch: how many tokens there must be; it takes one
	MaxPerHour int     // likewise: how many prefetches may begin within any hour; 0: any number
}

// Ahead is how long after the answer the last token that it grants may come.
const MaxAhead = 100 * time.Millisecond

// Granted is the answer.
type Grant struct {
	Tokens    int           // for a prefetch 1, or 0: it may not begin yet
	Left      float64       // in the bucket after that; below 0: how many of those granted are to come yet
	QuotaWait time.Duration // for a prefetch: as many as may have begun, for so long
}

// again is when what could not be asked for is asked for again.
const retryDelay = 250 * time.Millisecond

// grants is what a host may use of what replicas share.
type grants struct {
	tokens     []time.Time // when each may be used; one that no call waits for then is lost
	permit     bool        // the first prefetch may begin
	requesting bool        // an answer is waited for; nothing else is asked meanwhile
	quota      time.Time   // no prefetch may begin before

	nextCall, nextPrefetch time.Time // nothing is asked for those before
	left                   float64   // tokens in the bucket, as was said last
}

// ShareBy has the hosts go by what replicas share. It is called before there is a call.
func (hs *Hosts) SetShared(shared SharedLimits) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.shared = shared
}

// Share says how many replicas there are, this one included, among which the slots of hosts are
// divided evenly: each has at least one. Apart, while what they share cannot be reached, a
// replica has such a part of the tokens as well, and makes no prefetch where those are counted.
func (hs *Hosts) SetReplicas(n int, partitioned bool) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if partitioned && !hs.partitioned {
		for _, h := range hs.byName {
			h.bucket = nil // it was no use, and the next one begins empty
		}
	}
	hs.replicas, hs.partitioned = max(1, n), partitioned
	hs.applyLocked()
}

// asks reports whether what calls take is asked for.
func (hs *Hosts) usesShared() bool { return hs.shared != nil && !hs.partitioned }

// counted reports whether a prefetch takes something that is shared.
func (h *host) usesSharedQuota() bool {
	return h.bucket != nil || h.rule.SpeculativePerHour < math.MaxInt
}

// ask is what is to be asked for, and when; false: nothing.
func (h *host) nextRequest() (a TokenRequest, when time.Time, ok bool) {
	g := &h.grants
	if !h.hosts.usesShared() || g.requesting {
		return a, when, false
	}
	a = TokenRequest{Host: h.counters.Host, Rate: h.rule.Rate, Burst: h.rule.Burst}
	if len(h.calls) > 0 {
		a.Calls = len(h.calls)
		if h.rule.Concurrency > 0 {
			a.Calls = min(a.Calls, h.rule.Concurrency-h.counters.InFlight)
		}
		a.Calls -= len(g.tokens)
		return a, g.nextCall, h.bucket != nil && a.Calls > 0
	}
	if h.bucket != nil {
		a.MinTokens = h.spareTokens()
	}
	if h.rule.SpeculativePerHour < math.MaxInt {
		a.MaxPerHour = h.rule.SpeculativePerHour
	}
	return a, g.nextPrefetch, len(h.prefetches) > 0 && h.usesSharedQuota() && h.hasSpareSlot()
}

// untilGranted is how long it takes until a token may be used that was granted, or something is
// to be asked for; false: neither is to come.
func (h *host) untilGranted(now time.Time) (wait time.Duration, waits bool) {
	if waits = len(h.grants.tokens) > 0; waits {
		wait = h.grants.tokens[0].Sub(now)
	}
	if _, when, asks := h.nextRequest(); asks && (!waits || when.Sub(now) < wait) {
		return when.Sub(now), true
	}
	return wait, waits
}

// askShared asks for what is to be asked for now, without the mutex that its caller holds.
func (h *host) askShared() {
	now := h.hosts.now()
	a, when, ok := h.nextRequest()
	if !ok || now.Before(when) {
		return
	}
	h.grants.requesting = true
	h.arm(now)
	h.hosts.mu.Unlock()
	got, err := h.hosts.shared(a)
	h.hosts.mu.Lock()
	h.grants.requesting = false
	h.grants.record(h.hosts.now(), a, got, err)
}

// note notes an answer.
func (g *grants) record(now time.Time, a TokenRequest, got Grant, err error) {
	after := func(tokens float64) time.Duration { // that come in so long
		return time.Duration(min(max(tokens, 0)/a.Rate*float64(time.Second), float64(maxTimer)))
	}
	if err != nil {
		g.nextCall, g.nextPrefetch = now.Add(retryDelay), now.Add(retryDelay)
		return
	}
	g.left = got.Left
	switch {
	case a.Calls > 0:
		for i := range got.Tokens {
			g.tokens = append(g.tokens, now.Add(after(float64(i+1-got.Tokens)-got.Left)))
		}
		slices.SortFunc(g.tokens, time.Time.Compare) // an answer may have come late
		if got.Tokens < a.Calls {
			g.nextCall = now.Add(max(after(1-got.Left)-MaxAhead, MaxAhead/2) + rand.N(MaxAhead/2)) // no replica is always the first
		}
	case got.Tokens > 0:
		g.permit = true
	case got.QuotaWait > 0:
		g.quota = now.Add(got.QuotaWait)
	default:
		g.nextPrefetch = now.Add(after(a.MinTokens-got.Left) + rand.N(MaxAhead/2))
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

// drop gives up what no call has used in time.
func (g *grants) dropUnused(now time.Time) {
	g.permit = false
	for g.take(now) {
	}
}
