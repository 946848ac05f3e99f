package proxy

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/front"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
)

// figures are what is shown of a server: what the record adds up to, what stands at the
// moment, and the pages that show it.
type figures struct {
	tally    *record.Tally
	begin    record.Event // of this process, as far as the program says it
	began    time.Time
	rejected atomic.Pointer[error] // why a newer configuration is not in force; nil: there is none
	pages    []front.Page          // served beside MCP
	notices  throttle              // to clients that subscribed to the stats
}

// sessionsKept is how many sessions the figures are kept of, each by itself.
const sessionsKept = 256

func newFigures(s *Server, begin record.Event) *figures {
	f := &figures{begin: begin, began: time.Now()}
	f.tally = record.New(sessionsKept)
	f.notices.interval, f.notices.call = statsInterval, func() { announceStats(s.sessions.all()) }
	return f
}

// add takes in an event of the record.
func (f *figures) add(e *record.Event) {
	f.tally.Count(e)
	if changesStats(e) {
		f.notices.trigger()
	}
}

// Report is everything there is to say of the proxy: what the record adds up to, and
// what stands at the moment.
func (s *Server) Report() record.Stats {
	s.recorder.record()
	out := s.figures.tally.Stats(time.Now())
	s.addMoment(&out)
	return out
}

// ReportOfAll is Report with the figures of the replicas that share the store.
func (s *Server) ReportOfAll() record.Stats {
	out := s.Report()
	s.common.addOthers(&out)
	return out
}

// View is what the dashboard shows: the figures are of all replicas, what happened lately is of
// this one.
func (s *Server) View() record.View {
	s.recorder.record()
	v := s.figures.tally.View(time.Now())
	s.addMoment(&v.Stats)
	s.common.addOthers(&v.Stats)
	return v
}

// addMoment adds what stands at the moment.
func (s *Server) addMoment(out *record.Stats) {
	out.UptimeS = int64(time.Since(s.figures.began).Seconds())
	out.Open = len(s.sessions.all())
	out.Config = s.figures.config(s.policy.Load())
	out.Engine = s.Stats()
	now := s.standing(true)
	now.Lost = s.recorder.log.Lost()
	out.Stand([]record.Status{now})
}

// config says which configuration is in force.
func (f *figures) config(p *policy) record.Config {
	out := record.Config{Path: p.ConfigPath, LoadedAt: p.loaded.UTC().Format(time.RFC3339)}
	if err := f.rejected.Load(); err != nil {
		out.Error = (*err).Error()
	}
	return out
}

// Reject notes why a newer configuration is not in force; nil: there is none.
func (s *Server) Reject(err error) {
	defer s.recorder.log.Changed()
	if err == nil {
		s.figures.rejected.Store(nil)
		return
	}
	s.figures.rejected.Store(&err)
}

// Stats is the state of what works inside, for finding a fault. Its counts
// are its own, and may be ahead of the record.
type Stats struct {
	Sessions int               `json:"sessions"`
	Prefetch PrefetchStats     `json:"prefetch"`
	Store    dedup.Stats       `json:"store"`
	Hosts    []limit.HostStats `json:"hosts"`

	Upstreams map[string]upstream.Stats `json:"upstreams"`
}

// Stats tells of the state of what works inside.
func (s *Server) Stats() Stats {
	out := Stats{Sessions: len(s.sessions.all()), Store: s.store.Stats(), Hosts: s.limits.Stats(), Upstreams: make(map[string]upstream.Stats)}
	for _, m := range s.policy.Load().members {
		out.Upstreams[m.Spec.Name] = m.up.Stats()
	}
	f := s.prefetch.Figures()
	out.Prefetch = PrefetchStats{
		PrefetchStats: out.Store.Prefetch, Scheduler: s.prefetch.Scheduler.Stats(),
		Candidates: f.Candidates, Declined: f.Declined, Dropped: f.Dropped, Panics: f.Panics,
	}
	return out
}

// PrefetchStats is what came of running calls early.
type PrefetchStats struct {
	Candidates int64                   `json:"candidates"`
	Declined   map[enrich.Reason]int64 `json:"declined"` // by reason
	dedup.PrefetchStats
	Dropped speculate.Drops `json:"not_seen"` // calls and answers that the worker was too slow for
	Panics  int64           `json:"panics"`   // of the worker; each but those over what is kept ends a session's predictions

	Scheduler speculate.Stats `json:"speculation"`
}

// hosts says what every host allows at the moment, in the order of their names.
func (s *Server) hosts() []record.Host {
	p, now := s.policy.Load(), time.Now()
	out := make(map[string]record.Host)
	for _, h := range s.limits.Stats() {
		rule := p.rule(h.Host)
		shown := record.Host{
			Host: h.Host, Level: speculate.Normal, InFlight: h.InFlight, Waiting: h.Waiting, Limited: h.Limited,
			Rate: rule.Rate, Burst: rule.Burst, Concurrency: rule.Concurrency, Prefetches: h.LastHour, HarmMS: float64(h.HarmMS),
		}
		if !h.CoolingUntil.IsZero() {
			shown.CoolingMS = max(0, ms(h.CoolingUntil.Sub(now)))
		}
		if h.Tokens != nil {
			shown.Tokens = *h.Tokens
		}
		out[h.Host] = shown
	}
	for host, level := range s.prefetch.Scheduler.Stats().Hosts {
		h := out[host]
		h.Host, h.Level = host, level
		out[host] = h
	}
	return slices.SortedFunc(maps.Values(out), func(a, b record.Host) int { return cmp.Compare(a.Host, b.Host) })
}
