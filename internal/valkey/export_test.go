package valkey

import (
	"context"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/dedup"
)

// Renew renews announced writes in one round trip.
func Renew(all ...dedup.Announcement) {
	open := make([]*announcement, len(all))
	for i, a := range all {
		open[i] = a.(*announcement)
	}
	open[0].s.renew(context.Background(), open)
}

// RenewedAt returns when a write was last renewed.
func RenewedAt(a dedup.Announcement) age.Moment {
	w := a.(*announcement)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.renewedAt
}

// Confirmed reports whether a reply is trusted, for a lease and the age of the last confirmation by
// the monotonic clock and by the wall clock.
func Confirmed(lease, monotonic, wall time.Duration) bool {
	s := &Store{options: Options{Lease: lease}, confirmation: confirmation{servers: 3, history: "h", last: age.At(0, 0)}}
	return s.confirmed("h", age.At(monotonic, wall))
}

// Awaited returns how many ends of fetches the store waits for.
func Awaited(s *Store) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.fetchEnded)
}

// GiveUp gives up a write's request as its timer does.
func GiveUp(a dedup.Announcement) {
	w := a.(*announcement)
	w.s.giveUp(w)
}
