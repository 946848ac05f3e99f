package valkey

import (
	"context"

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

// GiveUp gives up a write's request as its timer does.
func GiveUp(a dedup.Announcement) {
	w := a.(*announcement)
	w.s.giveUp(w)
}
