package proxy

import (
	"time"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/telemetry"
	"mcpschedd/internal/upstream"
)

// Report is everything there is to say of the proxy: what the record adds up to, and
// what stands at the moment.
func (s *Server) Report() telemetry.Stats {
	s.observe(false)
	s.events.Tell()
	now := time.Now()
	out := s.tally.Stats(now)
	s.complete(&out)
	return out
}

// View is what the dashboard shows.
func (s *Server) View() telemetry.View {
	s.observe(false)
	s.events.Tell()
	v := s.tally.View(time.Now())
	s.complete(&v.Stats)
	return v
}

// complete adds what stands at the moment, and what no event tells of yet.
func (s *Server) complete(out *telemetry.Stats) {
	sessions := s.sessions.all()
	engine := s.Stats()
	out.UptimeS = int64(time.Since(s.began).Seconds())
	out.Open = len(sessions)
	out.Config = s.config()
	out.Hosts = s.hosts()
	out.Totals.Prefetch.Open = engine.Prefetch.Issued - out.Totals.Prefetch.Issued
	out.Totals.Candidates = engine.Prefetch.Candidates // those of choices under way too
	declined := make(map[string]int64, len(engine.Prefetch.Declined))
	for why, n := range engine.Prefetch.Declined {
		declined[string(why)] = n
	}
	out.Totals.Declined = declined
	out.Engine = engine
	out.Report = out.Line()
}

// config says which configuration is in force.
func (s *Server) config() telemetry.Config {
	p := s.policy.Load()
	out := telemetry.Config{Path: p.ConfigPath, LoadedAt: p.loaded.UTC().Format(time.RFC3339)}
	if err := s.rejected.Load(); err != nil {
		out.Error = (*err).Error()
	}
	return out
}

// Reject notes why a newer configuration is not in force; nil: there is none.
func (s *Server) Reject(err error) {
	if err == nil {
		s.rejected.Store(nil)
		return
	}
	s.rejected.Store(&err)
}

// Latencies are those of the calls of each tool, by upper bounds in ms.
func (s *Server) Latencies(bounds []float64) map[string]telemetry.Histogram {
	return s.tally.Latencies(bounds)
}

// Stats is the state of what works inside, for whoever looks for a fault. Its counts
// are its own, and may be ahead of the record.
type Stats struct {
	Sessions int               `json:"sessions"`
	Prefetch PrefetchStats     `json:"prefetch"`
	Store    dedup.Stats       `json:"store"`
	Hosts    []limit.HostStats `json:"hosts"`

	Upstreams map[string]upstream.Stats `json:"upstreams"`
	Unlisted  []string                  `json:"unlisted"` // upstreams that have had so many names that no new one of theirs is listed
}

// Stats tells of the state of what works inside.
func (s *Server) Stats() Stats {
	sessions := s.sessions.all()
	out := Stats{Sessions: len(sessions), Store: s.store.Stats(), Hosts: s.limits.Stats(), Upstreams: make(map[string]upstream.Stats)}
	for _, m := range s.policy.Load().members {
		out.Upstreams[m.Spec.Name] = m.up.Stats()
	}
	out.Unlisted = s.views.filled()
	out.Prefetch = s.prefetcher.stats(out.Store.Prefetch)
	return out
}
