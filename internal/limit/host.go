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
	all    *Hosts
	rule   Rule
	bucket *rate.Limiter // nil: the user set no rate

	calls      []*waiter     // real calls that wait, in the order they came
	prefetches []*waiter     // prefetches, likewise
	seen       HostStats     // what is counted at once: calls in flight, 429s, waits
	waited     time.Duration // of all real calls that had to wait
	harm       time.Duration // of that: for a slot while a prefetch had one

	timer *time.Timer // dispatches when the token that is waited for has come; nil: none ever was

	granted grants // by what replicas share

	cooling coolDown
	begun   []time.Time // when prefetches began, those of the last hour and perhaps older ones
}

// apply puts a rule in place.
func (at *host) apply(r Rule) {
	if r.SpeculativeShare <= 0 {
		r.SpeculativeShare = defaultShare
	}
	if r.SpeculativePerHour <= 0 {
		r.SpeculativePerHour = defaultPerHour
		if strings.HasPrefix(at.seen.Host, localPrefix) {
			r.SpeculativePerHour = math.MaxInt
		}
	}
	if r.Burst <= 0 {
		r.Burst = int(min(max(1, math.Ceil(r.Rate)), math.MaxInt32))
	}
	n := at.all.shares
	if r.Concurrency > 0 {
		r.Concurrency = max(1, r.Concurrency/n)
	}
	if at.all.apart {
		r.Rate, r.Burst = r.Rate/float64(n), max(1, r.Burst/n)
	}
	at.rule = r
	switch {
	case r.Rate <= 0:
		at.bucket = nil
	case at.bucket == nil:
		at.bucket = rate.NewLimiter(rate.Limit(r.Rate), r.Burst)
		if at.all.apart {
			at.bucket.AllowN(at.all.now(), r.Burst) // what there was others may have taken
		}
	default:
		now := at.all.now()
		at.bucket.SetLimitAt(now, rate.Limit(r.Rate))
		at.bucket.SetBurstAt(now, r.Burst)
	}
}

// free reports whether the user set nothing that a real call could wait for.
func (at *host) free() bool { return at.bucket == nil && at.rule.Concurrency <= 0 }

// idle reports whether no call uses the host or waits for it.
func (at *host) idle() bool {
	return at.seen.InFlight == 0 && len(at.calls) == 0 && len(at.prefetches) == 0
}

// remembers reports whether forgetting the host would allow what is not allowed
// now.
func (at *host) remembers() bool {
	return at.cooling.active() || at.lastHour(at.all.now()) > 0 ||
		at.bucket != nil && at.bucket.TokensAt(at.all.now()) < float64(at.rule.Burst)
}

// take takes what a real call needs, if it is there. A token that is taken is
// gone, so the slot is looked at first.
func (at *host) take(now time.Time) bool {
	switch {
	case !at.hasSlot():
		return false
	case at.bucket == nil:
		return true
	case at.all.asks():
		return at.granted.take(now)
	}
	return at.bucket.AllowN(now, 1)
}

func (at *host) hasSlot() bool {
	return at.rule.Concurrency <= 0 || at.seen.InFlight < at.rule.Concurrency
}

// takeSpare takes what a prefetch needs, if that is spare.
func (at *host) takeSpare(now time.Time) bool {
	switch {
	case !at.hasSpareSlot():
		return false
	case at.all.asks() && at.counted():
		if !at.granted.permit {
			return false
		}
		at.granted.permit = false
	case at.bucket != nil && (at.bucket.TokensAt(now) < at.spareTokens() || !at.bucket.AllowN(now, 1)):
		return false
	}
	at.begun = append(at.begun, now)
	return true
}

// lastHour is how many prefetches began within the hour before now.
func (at *host) lastHour(now time.Time) int {
	old := 0
	for old < len(at.begun) && now.Sub(at.begun[old]) >= time.Hour {
		old++
	}
	at.begun = at.begun[old:]
	return len(at.begun)
}

// hasSpareSlot reports whether a prefetch may take a slot: the share of all of them
// stays free. But a host that is wholly idle takes one prefetch, else a single slot
// would mean that there are none.
func (at *host) hasSpareSlot() bool {
	slots := at.rule.Concurrency
	if slots <= 0 {
		return at.seen.Prefetches < defaultPrefetches
	}
	stay := min(math.Ceil(at.rule.SpeculativeShare*float64(slots)), float64(slots-1))
	return float64(slots-at.seen.InFlight-1) >= stay
}

// spareTokens is how many tokens there must be for a prefetch to take one: its own
// and the share of the bucket; a full bucket has one to spare in any case.
func (at *host) spareTokens() float64 {
	burst := float64(at.rule.Burst)
	return min(1+at.rule.SpeculativeShare*burst, burst)
}

// tryEnter lets a real call begin if it need not wait, or returns nil.
func (at *host) tryEnter() *Slot {
	if at.free() || len(at.calls) == 0 && at.take(at.all.now()) {
		return at.enter(false)
	}
	return nil
}

// enter counts a call that begins.
func (at *host) enter(prefetch bool) *Slot {
	at.seen.InFlight++
	if prefetch { // also if it is promoted later
		at.seen.Prefetches++
	}
	return &Slot{at: at, prefetch: prefetch, era: at.cooling.era, probe: at.cooling.halfOpen(at.all.now)}
}

// dispatch lets calls begin that can, real ones first, and sees to it that it is called
// again for those that cannot.
func (at *host) dispatch(now time.Time) {
	for len(at.calls) > 0 && (at.free() || at.take(now)) {
		at.calls[0].end(at.enter(false), nil)
	}
	for len(at.prefetches) > 0 {
		w := at.prefetches[0]
		if err := at.refusal(now); err != nil {
			w.end(nil, err)
			continue
		}
		if len(at.calls) > 0 || !at.takeSpare(now) {
			break
		}
		w.end(at.enter(true), nil)
	}
	at.granted.drop(now)
	at.arm(now)
}

// refusal is why a prefetch cannot begin now, however long it waits.
func (at *host) refusal(now time.Time) error {
	switch {
	case at.cooling.active():
		return ErrCoolingDown
	case at.all.asks():
		if now.Before(at.granted.quota) {
			return ErrQuota
		}
	case at.all.apart && at.rule.SpeculativePerHour < math.MaxInt, at.lastHour(now) >= at.rule.SpeculativePerHour:
		return ErrQuota
	}
	return nil
}

// arm sets the timer for the token that the first in line waits for. A call that waits
// for a slot is let in when one is left.
func (at *host) arm(now time.Time) {
	wait, waits := at.lack(now)
	if at.timer == nil {
		at.timer = time.AfterFunc(longestSleep, at.tokenCame)
	}
	if !waits {
		at.timer.Stop()
		return
	}
	// A nanosecond more, for it was rounded down; and a lack of years is looked at
	// again after one of them.
	at.timer.Reset(min(max(wait, 0), longestSleep) + 1)
}

func (at *host) tokenCame() {
	at.all.mu.Lock()
	defer at.all.mu.Unlock()
	at.askShared()
	at.dispatch(at.all.now())
}

// longestSleep is how long the timer runs at most.
const longestSleep = 365 * 24 * time.Hour

// lack is how long it takes until there is the token that the next waits for, or may be asked
// for, if that is what it waits for.
func (at *host) lack(now time.Time) (wait time.Duration, waits bool) {
	want := 1.0
	switch {
	case at.all.asks():
		return at.untilGranted(now)
	case at.bucket == nil:
		return 0, false
	case len(at.calls) > 0:
		waits = at.hasSlot()
	default:
		want, waits = at.spareTokens(), len(at.prefetches) > 0 && at.hasSpareSlot()
	}
	lack := (want - at.bucket.TokensAt(now)) / at.rule.Rate * float64(time.Second)
	return time.Duration(min(max(lack, 0), float64(longestSleep))), waits
}

// How long a host is left alone after a 429.
const (
	firstCoolDown   = 30 * time.Second // unless the host says
	longestUnsaid   = 15 * time.Minute // however often it did not say
	longestCoolDown = time.Hour        // whatever it says
)

// coolDown is what the 429s of a host leave behind. Three states: none (the zero
// time in until), cooling (until lies ahead), half open (it lies behind).
type coolDown struct {
	until  time.Time
	era    uint64        // how many 429s have counted as news
	unsaid time.Duration // the last cool-down of which the host did not say the length; 0: none since the host was well
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
func (c *coolDown) begin(era uint64, said time.Duration, now time.Time) {
	wait := min(said, longestCoolDown)
	if said <= 0 {
		if era == c.era || c.unsaid == 0 {
			c.unsaid = min(max(firstCoolDown, 2*c.unsaid), longestUnsaid)
		}
		wait = c.unsaid
	}
	c.era++
	if until := now.Add(wait); until.After(c.until) {
		c.until = until
	}
}

// end is a real call's success after the cool-down.
func (c *coolDown) end() { c.until, c.unsaid = time.Time{}, 0 }

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
func (h *Hosts) Stats() []HostStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	out := make([]HostStats, 0, len(h.byName))
	for _, at := range h.byName {
		out = append(out, at.stats(now))
	}
	slices.SortFunc(out, func(a, b HostStats) int { return cmp.Compare(a.Host, b.Host) })
	return out
}

func (at *host) stats(now time.Time) HostStats {
	s := at.seen
	s.Waiting, s.WaitingPrefetches = len(at.calls), len(at.prefetches)
	s.LastHour, s.WaitedMS, s.HarmMS = at.lastHour(now), at.waited.Milliseconds(), at.harm.Milliseconds()
	if at.cooling.active() {
		s.CoolingUntil = time.Now().Add(at.cooling.until.Sub(now))
	}
	if at.bucket != nil {
		s.Tokens = new(at.bucket.TokensAt(now))
		if at.all.asks() {
			*s.Tokens = at.granted.left
		}
	}
	return s
}
