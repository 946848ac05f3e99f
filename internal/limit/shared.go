package limit

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Shared is what replicas of this process have in common: a bucket of tokens for each host, and
// how many prefetches have begun. It waits for the answer. An error says that there is none now.
type Shared func(Ask) (Granted, error)

// Ask asks for what calls to a host take: tokens for Calls real calls, or all that one prefetch
// takes where Calls is 0.
type Ask struct {
	Host  string
	Rate  float64 // tokens that come in a second; 0: calls take none
	Burst int     // how many tokens there are at most
	Calls int
	Spare float64 // for a prefetch: how many tokens there must be; it takes one
	Hour  int     // likewise: how many prefetches may begin within any hour; 0: any number
}

// Ahead is how long after the answer the last token that it grants may come.
const Ahead = 100 * time.Millisecond

// Granted is the answer.
type Granted struct {
	Tokens int           // for a prefetch 1, or 0: it may not begin yet
	Left   float64       // in the bucket after that; below 0: how many of those granted are to come yet
	Quota  time.Duration // for a prefetch: as many as may have begun, for so long
}

// again is when what could not be asked for is asked for again.
const again = 250 * time.Millisecond

// grants is what a host may use of what replicas share.
type grants struct {
	tokens []time.Time // when each may be used; one that no call waits for then is lost
	permit bool        // the first prefetch may begin
	asking bool        // an answer is waited for; nothing else is asked meanwhile
	quota  time.Time   // no prefetch may begin before

	nextCall, nextPrefetch time.Time // nothing is asked for those before
	left                   float64   // tokens in the bucket, as was said last
}

// ShareBy has the hosts go by what replicas share. It is called before there is a call.
func (h *Hosts) ShareBy(shared Shared) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shared = shared
}

// Share says how many replicas there are, this one included, among which the slots of hosts are
// divided evenly: each has at least one. Apart, while what they share cannot be reached, a
// replica has such a part of the tokens as well, and makes no prefetch where those are counted.
func (h *Hosts) Share(n int, apart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if apart && !h.apart {
		for _, at := range h.byName {
			at.bucket = nil // it was no use, and the next one begins empty
		}
	}
	h.shares, h.apart = max(1, n), apart
	h.applyLocked()
}

// asks reports whether what calls take is asked for.
func (h *Hosts) asks() bool { return h.shared != nil && !h.apart }

// counted reports whether a prefetch takes something that is shared.
func (at *host) counted() bool { return at.bucket != nil || at.rule.SpeculativePerHour < math.MaxInt }

// ask is what is to be asked for, and when; false: nothing.
func (at *host) ask() (a Ask, when time.Time, ok bool) {
	g := &at.granted
	if !at.all.asks() || g.asking {
		return a, when, false
	}
	a = Ask{Host: at.seen.Host, Rate: at.rule.Rate, Burst: at.rule.Burst}
	if len(at.calls) > 0 {
		a.Calls = len(at.calls)
		if at.rule.Concurrency > 0 {
			a.Calls = min(a.Calls, at.rule.Concurrency-at.seen.InFlight)
		}
		a.Calls -= len(g.tokens)
		return a, g.nextCall, at.bucket != nil && a.Calls > 0
	}
	if at.bucket != nil {
		a.Spare = at.spareTokens()
	}
	if at.rule.SpeculativePerHour < math.MaxInt {
		a.Hour = at.rule.SpeculativePerHour
	}
	return a, g.nextPrefetch, len(at.prefetches) > 0 && at.counted() && at.hasSpareSlot()
}

// untilGranted is how long it takes until a token may be used that was granted, or something is
// to be asked for; false: neither is to come.
func (at *host) untilGranted(now time.Time) (wait time.Duration, waits bool) {
	if waits = len(at.granted.tokens) > 0; waits {
		wait = at.granted.tokens[0].Sub(now)
	}
	if _, when, asks := at.ask(); asks && (!waits || when.Sub(now) < wait) {
		return when.Sub(now), true
	}
	return wait, waits
}

// askShared asks for what is to be asked for now, without the mutex that its caller holds.
func (at *host) askShared() {
	now := at.all.now()
	a, when, ok := at.ask()
	if !ok || now.Before(when) {
		return
	}
	at.granted.asking = true
	at.arm(now)
	at.all.mu.Unlock()
	got, err := at.all.shared(a)
	at.all.mu.Lock()
	at.granted.asking = false
	at.granted.note(at.all.now(), a, got, err)
}

// note notes an answer.
func (g *grants) note(now time.Time, a Ask, got Granted, err error) {
	after := func(tokens float64) time.Duration { // that come in so long
		return time.Duration(min(max(tokens, 0)/a.Rate*float64(time.Second), float64(longestSleep)))
	}
	if err != nil {
		g.nextCall, g.nextPrefetch = now.Add(again), now.Add(again)
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
			g.nextCall = now.Add(max(after(1-got.Left)-Ahead, Ahead/2) + rand.N(Ahead/2)) // no replica is always the first
		}
	case got.Tokens > 0:
		g.permit = true
	case got.Quota > 0:
		g.quota = now.Add(got.Quota)
	default:
		g.nextPrefetch = now.Add(after(a.Spare-got.Left) + rand.N(Ahead/2))
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
func (g *grants) drop(now time.Time) {
	g.permit = false
	for g.take(now) {
	}
}
