package limit

import (
	"math"
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

	cooling coolDown
	hour    *hour // the prefetches of the last hour; nil: there were none
}

// apply puts a rule in place.
func (at *host) apply(r Rule) {
	if r.SpeculativeShare <= 0 {
		r.SpeculativeShare = defaultShare
	}
	if r.SpeculativePerHour <= 0 {
		r.SpeculativePerHour = perHour(at.seen.Host)
	}
	if r.Burst <= 0 {
		r.Burst = int(min(max(1, math.Ceil(r.Rate)), math.MaxInt32))
	}
	if n := at.all.shares; n > 1 {
		r.Rate /= float64(n)
		r.Burst = max(1, r.Burst/n)
		if r.Concurrency > 0 {
			r.Concurrency = max(1, r.Concurrency/n)
		}
		if r.SpeculativePerHour < math.MaxInt {
			r.SpeculativePerHour = max(1, r.SpeculativePerHour/n)
		}
	}
	at.rule = r
	switch {
	case r.Rate <= 0:
		at.bucket = nil
	case at.bucket == nil:
		at.bucket = rate.NewLimiter(rate.Limit(r.Rate), r.Burst)
	default:
		now := at.all.now()
		at.bucket.SetLimitAt(now, rate.Limit(r.Rate))
		at.bucket.SetBurstAt(now, r.Burst)
	}
}

// perHour is how many prefetches may begin within any hour where the user set no
// number.
func perHour(name string) int {
	if strings.HasPrefix(name, localPrefix) {
		return math.MaxInt
	}
	return defaultPerHour
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
	return at.cooling.active() || at.hour != nil && at.hour.begun(at.all.now()) > 0 ||
		at.bucket != nil && at.bucket.TokensAt(at.all.now()) < float64(at.rule.Burst)
}

// take takes what a real call needs, if it is there. A token that is taken is
// gone, so the slot is looked at first.
func (at *host) take(now time.Time) bool {
	return at.hasSlot() && (at.bucket == nil || at.bucket.AllowN(now, 1))
}

func (at *host) hasSlot() bool {
	return at.rule.Concurrency <= 0 || at.seen.InFlight < at.rule.Concurrency
}

// takeSpare takes what a prefetch needs, if that is spare.
func (at *host) takeSpare(now time.Time) bool {
	if !at.hasSpareSlot() || at.bucket != nil && (at.bucket.TokensAt(now) < at.spareTokens() || !at.bucket.AllowN(now, 1)) {
		return false
	}
	if at.hour == nil {
		at.hour = newHour(now)
	}
	at.hour.add(now)
	return true
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
	at.arm(now)
}

// refusal is why a prefetch cannot begin now, however long it waits.
func (at *host) refusal(now time.Time) error {
	switch {
	case at.cooling.active():
		return ErrCoolingDown
	case at.hour != nil && at.hour.begun(now) >= at.rule.SpeculativePerHour:
		return ErrQuota
	}
	return nil
}

// arm sets the timer for the token that the first in line waits for. A call that waits
// for a slot is let in when one is left.
func (at *host) arm(now time.Time) {
	want, waits := at.wanted()
	if at.timer == nil {
		at.timer = time.AfterFunc(longestSleep, at.tokenCame)
	}
	if !waits {
		at.timer.Stop()
		return
	}
	// A nanosecond more, for it was rounded down; and a lack of years is looked at
	// again after one of them.
	lack := (want - at.bucket.TokensAt(now)) / at.rule.Rate * float64(time.Second)
	at.timer.Reset(time.Duration(min(max(lack, 0), float64(longestSleep))) + 1)
}

func (at *host) tokenCame() {
	at.all.mu.Lock()
	defer at.all.mu.Unlock()
	at.dispatch(at.all.now())
}

// longestSleep is how long the timer runs at most.
const longestSleep = 365 * 24 * time.Hour

// wanted is how many tokens there must be for the next to begin, if tokens are
// what it waits for.
func (at *host) wanted() (tokens float64, waits bool) {
	switch {
	case at.bucket == nil:
		return 0, false
	case len(at.calls) > 0:
		return 1, at.hasSlot()
	default:
		return at.spareTokens(), len(at.prefetches) > 0 && at.hasSpareSlot()
	}
}
