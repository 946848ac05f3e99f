package proxy

import (
	"maps"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/forecast"
	"mcpschedd/internal/speculate"
)

// PrefetchStats is what came of running calls early.
type PrefetchStats struct {
	Candidates int64                   `json:"candidates"`
	Declined   map[enrich.Reason]int64 `json:"declined"` // by reason
	dedup.PrefetchStats
	Accuracy   float64 `json:"accuracy"`   // used / issued; 0 without any
	Timeliness float64 `json:"timeliness"` // ready when asked for / used; 0 without any
	Dropped    drops   `json:"not_seen"`   // calls and answers that the worker was too slow for
	Panics     int64   `json:"panics"`     // of the worker; each but those over what is kept ends a session's predictions

	Desk    speculate.Stats           `json:"speculation"`
	Learned map[string]forecast.Stats `json:"learned"` // by upstream
}

func (w *prefetcher) stats(p dedup.PrefetchStats) PrefetchStats {
	out := PrefetchStats{PrefetchStats: p, Desk: w.desk.Stats(), Learned: make(map[string]forecast.Stats)}
	w.tally.mu.Lock()
	out.Candidates, out.Declined = w.tally.candidates, maps.Clone(w.tally.declined)
	maps.Copy(out.Learned, w.tally.learned)
	w.tally.mu.Unlock()
	w.mu.Lock()
	out.Dropped, out.Panics = w.dropped, w.panics
	w.mu.Unlock()
	if p.Issued > 0 {
		out.Accuracy = float64(p.Used) / float64(p.Issued)
	}
	if p.Used > 0 {
		out.Timeliness = float64(p.Used-p.Late) / float64(p.Used)
	}
	return out
}
