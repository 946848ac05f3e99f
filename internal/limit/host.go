package limit

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// host is what is known of one host. The mutex of all guards it.
type host struct {
	hosts  *Hosts
	rule   Rule
	bucket *rate.Limiter // nil: the user set no rate

	calls      []*waiter     // real calls that wait, in the order they came
	prefetches []*waiter     // prefetches, likewise
	counters   HostStats     // what is counted at once: calls in flight, 429s, waits
	waited     time.Duration // of all real calls that had to wait
	harm       time.Duration // of that: for a slot while a prefetch had one

	timer *time.Timer // dispatches when the token that is waited for has come; nil: none ever was

	grants grants // by what replicas share

	cooling        coolDown
	prefetchStarts []time.Time // when prefetches began, those of the last hour and perhaps older ones
}

// apply puts a rule in place.
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
	switch {
	case r.Rate <= 0:
		h.bucket = nil
	case h.bucket == nil:
		h.bucket = rate.NewLimiter(rate.Limit(r.Rate), r.Burst)
		if h.hosts.partitioned {
			h.bucket.AllowN(h.hosts.now(), r.Burst) // what there was others may have taken
		}
	default:
		now := h.hosts.now()
		h.bucket.SetLimitAt(now, rate.Limit(r.Rate))
		h.bucket.SetBurstAt(now, r.Burst)
	}
}

// free reports whether the user set nothing that a real call could wait for.
func (h *host) unlimited() bool { return h.bucket == nil && h.rule.Concurrency <= 0 }

// idle reports whether no call uses the host or waits for it.
func (h *host) idle() bool {
	return h.counters.InFlight == 0 && len(h.calls) == 0 && len(h.prefetches) == 0
}

// remembers reports whether forgetting the host would allow what is not allowed
// now.
func (h *host) hasState() bool {
	return h.cooling.active() || h.lastHour(h.hosts.now()) > 0 ||
		h.bucket != nil && h.bucket.TokensAt(h.hosts.now()) < float64(h.rule.Burst)
}

// take takes what a real call needs, if it is there. A token that is taken is
// gone, so the slot is looked at first.
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

// takeSpare takes what a prefetch needs, if that is spare.
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

// lastHour is how many prefetches began within the hour before now.
func (h *host) lastHour(now time.Time) int {
	old := 0
	for old < len(h.prefetchStarts) && now.Sub(h.prefetchStarts[old]) >= time.Hour {
		old++
	}
	h.prefetchStarts = h.prefetchStarts[old:]
	return len(h.prefetchStarts)
}

// hasSpareSlot reports whether a prefetch may take a slot: the share of all of them
// stays free. But a host that is wholly idle takes one prefetch, else a single slot
// would mean that there are none.
func (h *host) hasSpareSlot() bool {
	slots := h.rule.Concurrency
	if slots <= 0 {
		return h.counters.Prefetches < defaultPrefetches
	}
	stay := min(math.Ceil(h.rule.SpeculativeShare*float64(slots)), float64(slots-1))
	return float64(slots-h.counters.InFlight-1) >= stay
}

// spareTokens is how many tokens there must be for a prefetch to take one: its own
// and the share of the bucket; a full bucket has one to spare in any case.
func (h *host) spareTokens() float64 {
	burst := float64(h.rule.Burst)
	return min(1+h.rule.SpeculativeShare*burst, burst)
}

// tryEnter lets a real call begin if it need not wait, or returns nil.
func (h *host) tryEnter() *Slot {
	if h.unlimited() || len(h.calls) == 0 && h.take(h.hosts.now()) {
		return h.enter(false)
	}
	return nil
}

// enter counts a call that begins.
func (h *host) enter(prefetch bool) *Slot {
	h.counters.InFlight++
	if prefetch { // also if it is promoted later
		h.counters.Prefetches++
	}
	return &Slot{host: h, prefetch: prefetch, generation: h.cooling.generation, probe: h.cooling.halfOpen(h.hosts.now)}
}

// dispatch lets calls begin that can, real ones first, and sees to it that it is called
// again for those that cannot.
func (h *host) dispatch(now time.Time) {
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

// refusal is why a prefetch cannot begin now, however long it waits.
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

// arm sets the timer for the token that the first in line waits for. A call that waits
// for a slot is let in when one is left.
func (h *host) arm(now time.Time) {
	wait, waits := h.untilToken(now)
	if h.timer == nil {
		h.timer = time.AfterFunc(maxTimer, h.timerFired)
	}
	if !waits {
		h.timer.Stop()
		return
	}
	// A nanosecond more, for it was rounded down; and a lack of years is looked at
	// again after one of them.
	h.timer.Reset(min(max(wait, 0), maxTimer) + 1)
}

func (h *host) timerFired() {
	h.hosts.mu.Lock()
	defer h.hosts.mu.Unlock()
	h.askShared()
	h.dispatch(h.hosts.now())
}

// longestSleep is how long the timer runs at most.
const maxTimer = 365 * 24 * time.Hour

// lack is how long it takes until there is the token that the next waits for, or may be asked
// for, if that is what it waits for.
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
	lack := (want - h.bucket.TokensAt(now)) / h.rule.Rate * float64(time.Second)
	return time.Duration(min(max(lack, 0), float64(maxTimer))), waits
}

// How long a host is left alone after a 429.
const (
	firstCoolDown = 30 * time.Second // unless the host says
	maxBackOff    = 15 * time.Minute // however often it did not say
	maxCoolDown   = time.Hour        // whatever it says
)

// coolDown is what the 429s of a host leave behind. Three states: none (the zero
// time in until), cooling (until lies ahead), half open (it lies behind).
type coolDown struct {
	until       time.Time
	generation  uint64        // how many 429s have counted as news
	lastBackOff time.Duration // the last cool-down of which the host did not say the length; 0: none since the host was well
}

// active reports whether prefetches are refused.
func (c *coolDown) active() bool { return !c.until.IsZero() }

// halfOpen reports whether a real call that begins now is a probe. It asks for
// the time only if that matters.
func (c *coolDown) halfOpen(now func() time.Time) bool {
	return c.active() && !now().Before(c.until)
}

// begin notes a 429 on a call that began in that era. What several calls hear at
// once is one piece of news: only a 429 on a call that began after the one before
// was known makes the cool-down longer than that was. None makes it shorter.
func (c *coolDown) begin(generation uint64, retryAfter time.Duration, now time.Time) {
	wait := min(retryAfter, maxCoolDown)
	if retryAfter <= 0 {
		if generation == c.generation || c.lastBackOff == 0 {
			c.lastBackOff = min(max(firstCoolDown, 2*c.lastBackOff), maxBackOff)
		}
		wait = c.lastBackOff
	}
	c.generation++
	if until := now.Add(wait); until.After(c.until) {
		c.until = until
	}
}

// end is a real call's success after the cool-down.
func (c *coolDown) end() { c.until, c.lastBackOff = time.Time{}, 0 }

// HostStats is what is known of one host.
type HostStats struct {
	Host              string    `json:"host"`
	InFlight          int       `json:"in_flight"`              // calls begun and not ended, prefetches included
	Prefetches        int       `json:"prefetches"`             // of those: begun as prefetches
	Waiting           int       `json:"waiting"`                // real calls, promoted prefetches included
	WaitingPrefetches int       `json:"waiting_prefetches"`     // the others
	LastHour          int       `json:"prefetches_last_hour"`   // prefetches begun
	Limited           int64     `json:"limited"`                // 429s
	LimitedPrefetches int64     `json:"limited_prefetches"`     // of those: on calls begun as prefetches
	Waits             int64     `json:"waits"`                  // real calls that had to wait and do no more
	WaitedMS          int64     `json:"waited_ms"`              // how long, together
	HarmMS            int64     `json:"harm_ms"`                // of that: for a slot while a prefetch had one
	CoolingUntil      time.Time `json:"cooling_until,omitzero"` // past: half open
	Tokens            *float64  `json:"tokens,omitempty"`       // in the bucket; nil: the user set no rate
}

// Stats tells of every host that is remembered, sorted by name.
func (hs *Hosts) Stats() []HostStats {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	now := hs.now()
	out := make([]HostStats, 0, len(hs.byName))
	for _, h := range hs.byName {
		out = append(out, h.stats(now))
	}
	slices.SortFunc(out, func(a, b HostStats) int { return cmp.Compare(a.Host, b.Host) })
	return out
}

func (h *host) stats(now time.Time) HostStats {
	s := h.counters
	s.Waiting, s.WaitingPrefetches = len(h.calls), len(h.prefetches)
	s.LastHour, s.WaitedMS, s.HarmMS = h.lastHour(now), h.waited.Milliseconds(), h.harm.Milliseconds()
	if h.cooling.active() {
		s.CoolingUntil = time.Now().Add(h.cooling.until.Sub(now))
	}
	if h.bucket != nil {
		s.Tokens = new(h.bucket.TokensAt(now))
		if h.hosts.usesShared() {
			*s.Tokens = h.grants.left
		}
	}
	return s
}
