package proxy

import (
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/speculate"
)

// PrefetchStats is what came of running calls early.
type PrefetchStats struct {
	Candidates int64                   `json:"candidates"`
	Declined   map[enrich.Reason]int64 `json:"declined"` // by reason
	dedup.PrefetchStats
	Accuracy   float64         `json:"accuracy"`   // used / issued; 0 without any
	Timeliness float64         `json:"timeliness"` // ready when asked for / used; 0 without any
	Dropped    speculate.Drops `json:"not_seen"`   // calls and answers that the worker was too slow for
	Panics     int64           `json:"panics"`     // of the worker; each but those over what is kept ends a session's predictions

	Desk speculate.Stats `json:"speculation"`
}

// prefetched adds to what the store counts what the prefetch worker does.
func (s *Server) prefetched(store dedup.PrefetchStats) PrefetchStats {
	f := s.prefetch.Figures()
	out := PrefetchStats{
		PrefetchStats: store, Desk: s.prefetch.Scheduler.Stats(),
		Candidates: f.Candidates, Declined: f.Declined, Dropped: f.Dropped, Panics: f.Panics,
	}
	if store.Issued > 0 {
		out.Accuracy = float64(store.Used) / float64(store.Issued)
	}
	if store.Used > 0 {
		out.Timeliness = float64(store.Used-store.Late) / float64(store.Used)
	}
	return out
}
