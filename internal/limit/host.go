package limit

import (
	"math"
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
	resuming   []*waiter     // paused calls that wait for a slot, likewise
	paused     int           // paused calls, which are not counted as in flight
	stats      HostStats     // its name, and the counts of calls in flight and of 429s
	harm       time.Duration // total wait of calls that found no free slot while a prefetch held one
	harmRead   time.Duration // the part that ReadHarm has returned

	timer *time.Timer // runs dispatch when the next token arrives; nil before the first wait

	grants grants // from the shared limits

	cooling        coolDown
	prefetchStarts []time.Time // when prefetches began in the last hour, and perhaps before
}

// dispatch resumes the paused calls that can go on, starts the waiting calls that can start, then
// prefetches, and arms the timer for the rest.
func (h *host) dispatch() {
	now := time.Now()
	for len(h.resuming) > 0 && h.hasSlot() {
		h.resuming[0].resume()
	}
	for len(h.calls) > 0 && h.take(now) {
		h.calls[0].end(h.start(false, now), nil)
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
		w.end(h.start(true, now), nil)
	}
	h.grants.dropUnused(now)
	h.arm(now)
}

// refusal returns why prefetches are refused now instead of queued, or nil.
func (h *host) refusal(now time.Time) error {
	switch {
	case h.cooling.active():
		return ErrCoolingDown
	case h.hosts.usesShared():
		if now.Before(h.grants.quotaUntil) {
			return ErrQuota
		}
	case h.rule.SpeculativePerHour > 0 && (h.hosts.partitioned || len(h.lastHour(now)) >= h.rule.SpeculativePerHour):
		return ErrQuota
	}
	return nil
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
	return h.rule.Concurrency <= 0 || h.stats.InFlight < h.rule.Concurrency
}

// takeSpare takes what a prefetch needs, if it is spare.
func (h *host) takeSpare(now time.Time) bool {
	switch {
	case !h.hasSpareSlot():
		return false
	case h.prefetchNeedsGrant():
		if !h.grants.permit {
			return false
		}
		h.grants.permit = false
	case h.bucket != nil && (h.bucket.TokensAt(now) < h.spareTokens() || !h.bucket.AllowN(now, 1)):
		return false
	}
	h.prefetchStarts = append(h.lastHour(now), now)
	return true
}

// hasSpareSlot reports whether a prefetch may take a slot: SpeculativeShare of all slots stays
// free, and at least one for each paused call, which will need it again. A host without calls takes one
// prefetch in any case, else a host with one slot would get none.
func (h *host) hasSpareSlot() bool {
	slots := h.rule.Concurrency
	if slots <= 0 {
		return h.stats.Prefetches < defaultPrefetches
	}
	reserved := min(math.Ceil(h.rule.SpeculativeShare*float64(slots)), float64(slots-1))
	return float64(slots-h.stats.InFlight-1) >= max(reserved, float64(h.paused))
}

// spareTokens is the number of tokens at which a prefetch may take one: its own and the share
// of the bucket that stays; a full bucket is always enough.
func (h *host) spareTokens() float64 {
	burst := float64(h.rule.Burst)
	return min(1+h.rule.SpeculativeShare*burst, burst)
}

// lastHour returns when the prefetches of the last hour began, and forgets earlier ones.
func (h *host) lastHour(now time.Time) []time.Time {
	for len(h.prefetchStarts) > 0 && now.Sub(h.prefetchStarts[0]) >= time.Hour {
		h.prefetchStarts = h.prefetchStarts[1:]
	}
	return h.prefetchStarts
}

// start counts a call that starts.
func (h *host) start(prefetch bool, now time.Time) *Slot {
	h.stats.InFlight++
	if prefetch { // counted as one even if promoted later
		h.stats.Prefetches++
	}
	return &Slot{hosts: h.hosts, host: h, prefetch: prefetch, began: now}
}

// arm sets the timer for the next token that is waited for. A call that waits for a slot starts
// when one is released.
func (h *host) arm(now time.Time) {
	wait, waits := h.untilToken(now)
	if h.timer == nil {
		h.timer = time.AfterFunc(maxTimer, func() {
			h.hosts.mu.Lock()
			defer h.hosts.mu.Unlock()
			h.sendRequest()
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

// apply applies a rule. If SpeculativePerHour is still 0 then, there is no limit.
func (h *host) apply(r Rule) {
	if r.SpeculativeShare <= 0 {
		r.SpeculativeShare = defaultShare
	}
	if r.SpeculativePerHour <= 0 && !strings.HasPrefix(h.stats.Host, LocalPrefix) {
		r.SpeculativePerHour = defaultPerHour
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
	if r.SpeculativePerHour != h.rule.SpeculativePerHour {
		h.stats.OverQuota = 0
	}
	h.rule = r
	g := &h.grants // their waits were computed for the earlier rule
	g.nextCall, g.nextPrefetch, g.quotaUntil = time.Time{}, time.Time{}, time.Time{}
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

// idle reports whether no call is in flight, paused or waiting.
func (h *host) idle() bool {
	return h.stats.InFlight == 0 && h.paused == 0 && len(h.calls) == 0 && len(h.prefetches) == 0
}

// limitsNothing reports whether the host limits calls and prefetches no more than a new host does.
func (h *host) limitsNothing(now time.Time) bool {
	full := h.bucket == nil || h.bucket.TokensAt(now) >= float64(h.rule.Burst)
	return full && !h.cooling.active() && len(h.lastHour(now)) == 0
}
