package proxy

import (
	"maps"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
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

	Desk    speculate.Stats          `json:"speculation"`
	Learned map[string]predict.Stats `json:"learned"` // by upstream
}

// stats adds to what the store counts what the prefetcher does.
func (p *prefetcher) stats(store dedup.PrefetchStats) PrefetchStats {
	out := PrefetchStats{
		PrefetchStats: store, Desk: p.traffic.read().Stats(), Learned: make(map[string]predict.Stats),
		Dropped: p.queue.drops(), Panics: p.faults.count(),
	}
	p.tally.mu.Lock()
	out.Candidates, out.Declined = p.tally.candidates, maps.Clone(p.tally.declined)
	maps.Copy(out.Learned, p.tally.learned)
	p.tally.mu.Unlock()
	if store.Issued > 0 {
		out.Accuracy = float64(store.Used) / float64(store.Issued)
	}
	if store.Used > 0 {
		out.Timeliness = float64(store.Used-store.Late) / float64(store.Used)
	}
	return out
}
