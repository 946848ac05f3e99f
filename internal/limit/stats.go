package limit

import (
	"cmp"
	"slices"
	"time"
)

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
	s.WaitedMS, s.HarmMS = at.waited.Milliseconds(), at.harm.Milliseconds()
	if at.cooling.active() {
		s.CoolingUntil = time.Now().Add(at.cooling.until.Sub(now))
	}
	if at.hour != nil {
		s.LastHour = at.hour.begun(now)
	}
	if at.bucket != nil {
		s.Tokens = new(at.bucket.TokensAt(now))
	}
	return s
}
