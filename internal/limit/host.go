package limit

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// host is the state of one host. The mutex of hosts guards it.
type host struct {
	hosts  *Hosts
	rule   Rule
	bucket *rate.Limiter // nil without a rate

	calls      []*waiter     // waiting calls, in order of arrival
	prefetches []*waiter     // waiting prefetches, likewise
	counters   HostStats     // counts of calls in flight and 429s
	harm       time.Duration // total wait of calls for a slot while a prefetch held one

	timer *time.Timer // runs dispatch when the next token arrives; nil before the first wait

	grants grants // from the shared limits

	cooling        coolDown
	prefetchStarts []time.Time // of the last hour, and perhaps older ones
}

// apply applies a rule.
func (h *host) apply(r Rule) {
	if r.SpeculativeShare <= 0 {
		r.SpeculativeShare = defaultShare
	}
	if r.SpeculativePerHour <= 0 {
		r.SpeculativePerHour = defaultPerHour
		if strings.HasPrefix(h.counters.Host, localPrefix) {
			r.SpeculativePerHour = math.MaxInt
		}
	}
	if r.Burst <= 0 {
		r.Burst = int(min(max(1, math.Ceil(r.Rate)), math.MaxInt32))
	}
	n := h.hosts.replicas
	if r.Concurrency > 0 {
		r.Concurrency = max(1, r.Concurrency/n)
	}
	if h.hosts.partitioned {
		r.Rate, r.Burst = r.Rate/float64(n), max(1, r.Burst/n)
	}
	h.rule = r
	g := &h.grants // their waits were computed for the earlier rule
	g.nextCall, g.nextPrefetch, g.quota = time.Time{}, time.Time{}, time.Time{}
	switch {
	case r.Rate <= 0:
		h.bucket = nil
	case h.bucket == nil:
		h.bucket = rate.NewLimiter(rate.Limit(r.Rate), r.Burst)
		if h.hosts.partitioned {
			h.bucket.AllowN(time.Now(), r.Burst) // other replicas may have taken these tokens
		}
	default:
		now := time.Now()
		h.bucket.SetLimitAt(now, rate.Limit(r.Rate))
		h.bucket.SetBurstAt(now, r.Burst)
	}
}

// unlimited reports whether the host has no limits that bind calls.
func (h *host) unlimited() bool { return h.bucket == nil && h.rule.Concurrency <= 0 }

// idle reports whether no call is in flight or waiting.
func (h *host) idle() bool {
	return h.counters.InFlight == 0 && len(h.calls) == 0 && len(h.prefetches) == 0
}

// fresh reports whether the host limits calls and prefetches no more than a new one does.
func (h *host) fresh(now time.Time) bool {
	full := h.bucket == nil || h.bucket.TokensAt(now) >= float64(h.rule.Burst)
	return full && !h.cooling.active() && h.lastHour(now) == 0
}

// take takes what a call needs, if available. It checks the slot first, as a token once taken
// cannot be given back.
func (h *host) take(now time.Time) bool {
	switch {
	case !h.hasSlot():
		return false
	case h.bucket == nil:
		return true
	case h.hosts.usesShared():
		return h.grants.take(now)
	}
	return h.bucket.AllowN(now, 1)
}

func (h *host) hasSlot() bool {
	return h.rule.Concurrency <= 0 || h.counters.InFlight < h.rule.Concurrency
}

// takeSpare takes what a prefetch needs, if it is spare.
func (h *host) takeSpare(now time.Time) bool {
	switch {
	case !h.hasSpareSlot():
		return false
	case h.hosts.usesShared() && h.usesSharedQuota():
		if !h.grants.permit {
			return false
		}
		h.grants.permit = false
	case h.bucket != nil && (h.bucket.TokensAt(now) < h.spareTokens() || !h.bucket.AllowN(now, 1)):
		return false
	}
	h.prefetchStarts = append(h.prefetchStarts, now)
	return true
}

// lastHour returns the number of prefetches that began within the last hour.
func (h *host) lastHour(now time.Time) int {
	old := 0
	for old < len(h.prefetchStarts) && now.Sub(h.prefetchStarts[old]) >= time.Hour {
		old++
	}
	h.prefetchStarts = h.prefetchStarts[old:]
	return len(h.prefetchStarts)
}

// hasSpareSlot reports whether a prefetch may take a slot: SpeculativeShare of all slots stays
// free. An idle host takes one prefetch in any case, else a host with one slot would get none.
func (h *host) hasSpareSlot() bool {
	slots := h.rule.Concurrency
	if slots <= 0 {
		return h.counters.Prefetches < defaultPrefetches
	}
	reserved := min(math.Ceil(h.rule.SpeculativeShare*float64(slots)), float64(slots-1))
	return float64(slots-h.counters.InFlight-1) >= reserved
}

// spareTokens is the number of tokens at which a prefetch may take one: its own and the share
// of the bucket that stays; a full bucket is always enough.
func (h *host) spareTokens() float64 {
	burst := float64(h.rule.Burst)
	return min(1+h.rule.SpeculativeShare*burst, burst)
}

// tryEnter starts a call if it need not wait, else it returns nil.
func (h *host) tryEnter() *Slot {
	if h.unlimited() || len(h.calls) == 0 && h.take(time.Now()) {
		return h.enter(false)
	}
	return nil
}

// enter counts a call that starts.
func (h *host) enter(prefetch bool) *Slot {
	h.counters.InFlight++
	if prefetch { // counted as one even if promoted later
		h.counters.Prefetches++
	}
	return &Slot{host: h, prefetch: prefetch, began: time.Now()}
}

// dispatch starts the waiting calls that can start, then prefetches, and arms the timer for
// the rest.
func (h *host) dispatch() {
	now := time.Now()
	for len(h.calls) > 0 && (h.unlimited() || h.take(now)) {
		h.calls[0].end(h.enter(false), nil)
	}
	for len(h.prefetches) > 0 {
		w := h.prefetches[0]
		if err := h.refusal(now); err != nil {
			w.end(nil, err)
			continue
		}
		if len(h.calls) > 0 || !h.takeSpare(now) {
			break
		}
		w.end(h.enter(true), nil)
	}
	h.grants.dropUnused(now)
	h.arm(now)
}

// refusal returns why a prefetch cannot start now, however long it waits, or nil.
func (h *host) refusal(now time.Time) error {
	switch {
	case h.cooling.active():
		return ErrCoolingDown
	case h.hosts.usesShared():
		if now.Before(h.grants.quota) {
			return ErrQuota
		}
	case h.hosts.partitioned && h.rule.SpeculativePerHour < math.MaxInt, h.lastHour(now) >= h.rule.SpeculativePerHour:
		return ErrQuota
	}
	return nil
}

// arm sets the timer for the next token that is waited for. A call that waits for a slot starts
// when one is released.
func (h *host) arm(now time.Time) {
	wait, waits := h.untilToken(now)
	if h.timer == nil {
		h.timer = time.AfterFunc(maxTimer, func() {
			h.hosts.mu.Lock()
			defer h.hosts.mu.Unlock()
			h.askShared()
			h.dispatch()
		})
	}
	if !waits {
		h.timer.Stop()
		return
	}
	h.timer.Reset(min(max(wait, 0), maxTimer) + 1) // one nanosecond more, as the wait was rounded down
}

// maxTimer is the longest the timer runs; waits of years are then computed again.
const maxTimer = 365 * 24 * time.Hour

// untilToken returns the time until the token that the next in line waits for arrives, or may
// be requested; false if the next does not wait for a token.
func (h *host) untilToken(now time.Time) (wait time.Duration, waits bool) {
	want := 1.0
	switch {
	case h.hosts.usesShared():
		return h.untilGranted(now)
	case h.bucket == nil:
		return 0, false
	case len(h.calls) > 0:
		waits = h.hasSlot()
	default:
		want, waits = h.spareTokens(), len(h.prefetches) > 0 && h.hasSpareSlot()
	}
	missing := (want - h.bucket.TokensAt(now)) / h.rule.Rate * float64(time.Second)
	return time.Duration(min(max(missing, 0), float64(maxTimer))), waits
}

// Lengths of a cool-down after a 429.
const (
	firstCoolDown = 30 * time.Second // without Retry-After
	maxBackOff    = 15 * time.Minute // without Retry-After, after several in a row
	maxCoolDown   = time.Hour        // for any Retry-After
)

// coolDown is the state left by the 429s of a host. The host is half open when until has passed.
type coolDown struct {
	until   time.Time     // zero without a 429 since the last success
	last    time.Time     // of the last 429
	backOff time.Duration // last cool-down without Retry-After; 0 since the last success
}

// active reports whether prefetches are refused.
func (c *coolDown) active() bool { return !c.until.IsZero() }

// begin starts or extends the cool-down after a 429 on a call. It never shortens it. The back-off
// doubles only if the call began after the last 429 was known, so calls that are refused together
// double it once.
func (c *coolDown) begin(began time.Time, retryAfter time.Duration, now time.Time) {
	wait := min(retryAfter, maxCoolDown)
	if retryAfter <= 0 {
		if began.After(c.last) || c.backOff == 0 {
			c.backOff = min(max(firstCoolDown, 2*c.backOff), maxBackOff)
		}
		wait = c.backOff
	}
	c.last = now
	if until := now.Add(wait); until.After(c.until) {
		c.until = until
	}
}

// HostStats is a snapshot of one host.
type HostStats struct {
	Host              string
	InFlight          int       // calls in flight, including prefetches
	Prefetches        int       // of those: begun as prefetches
	Waiting           int       // waiting calls, including promoted prefetches
	WaitingPrefetches int       // waiting prefetches
	LastHour          int       // prefetches begun
	Limited           int64     // 429s
	HarmMS            int64     // total wait of calls for a slot while a prefetch held one
	CoolingUntil      time.Time // if past, the host is half open
	Tokens            *float64  // in the bucket; nil without a rate
}

// Stats returns all hosts kept, sorted by name.
func (hs *Hosts) Stats() []HostStats {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	now := time.Now()
	out := make([]HostStats, 0, len(hs.byName))
	for _, h := range hs.byName {
		s := h.counters
		s.Waiting, s.WaitingPrefetches, s.CoolingUntil = len(h.calls), len(h.prefetches), h.cooling.until
		s.LastHour, s.HarmMS = h.lastHour(now), h.harm.Milliseconds()
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
