package proxy

import (
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/front"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
)

// Begin begins a session, as a transport does.
func Begin(s *Server, c front.Client) front.Session { return s.newSession(c) }

// LineOf returns how the server judges the concurrency of an upstream, as far as one of its sessions has
// seen.
func LineOf(s *Server, name string) speculate.Concurrency {
	sessions := s.sessions.list()
	for _, n := range sessions {
		if l := n.leases.load().Named(name); l != nil {
			is, _ := s.prefetch.Scheduler.Concurrency(l.Member.Key)
			return is
		}
	}
	return speculate.Unknown
}

// Decided returns once the prefetch worker has handled all events so far.
func Decided(s *Server) { s.prefetch.Save() }

// Kept returns the number of objects of each kind that the server holds for its sessions and their open
// work. The worker must not have ended.
func Kept(s *Server) map[string]int {
	Decided(s)
	kept := map[string]int{"watched sessions": s.prefetch.Scheduler.Stats().Sessions}
	sessions := s.sessions.list()
	kept["sessions"] = len(sessions)
	for _, n := range sessions {
		kept["requests"] += n.openRequests()
		for _, l := range *n.leases.load() {
			calls, prefetches := n.requests.callsAt(l.Lease)
			kept["calls"] += len(calls)
			kept["prefetches with an upstream"] += len(prefetches)
		}
	}
	return kept
}

func (s *session) openRequests() int {
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	return len(s.requests.open)
}

// TakeForProcess makes the server treat the upstream as a process of unknown concurrency although it is
// reached over HTTP. It must be called before the session's first call.
func TakeForProcess(s *Server, name string) {
	for _, n := range s.sessions.list() {
		if l := n.leases.load().Named(name); l != nil {
			l.Prefetch.Remote = false
		}
	}
}

// Stats is the internal state of a server. Its counters are independent of the event log and may
// be ahead of it.
type Stats struct {
	Sessions int               `json:"sessions"`
	Prefetch PrefetchStats     `json:"prefetch"`
	Store    dedup.Stats       `json:"store"`
	Hosts    []limit.HostStats `json:"hosts"`
}

// Stats returns the server's internal state.
func (s *Server) Stats() Stats {
	s.recorder.record()
	out := Stats{Sessions: len(s.sessions.list()), Store: s.common.store.Stats(), Hosts: s.common.limits.Stats()}
	totals := s.recorder.tally.Stats(time.Now()).Totals
	out.Prefetch = PrefetchStats{
		PrefetchStats: out.Store.Prefetch, Scheduler: s.prefetch.Scheduler.Stats(), Declined: totals.Declined, Harm: totals.Harm,
	}
	return out
}

// PrefetchStats describes what became of prefetches.
type PrefetchStats struct {
	Declined map[string]int64 `json:"declined"` // count by reason, in the sessions that have ended
	dedup.PrefetchStats
	Scheduler speculate.Stats    `json:"speculation"`
	Harm      record.HarmFigures `json:"harm"`
}

// Results returns how many results the server keeps.
func Results(s *Server) int { return s.kept.Len() }

// Prefetch makes a prefetch in one of the sessions: the nth from the oldest, modulo their number.
func Prefetch(s *Server, nth int, name, tool, arguments string) (begun bool, why string) {
	sessions := s.sessions.list()
	if len(sessions) == 0 {
		return false, "no session"
	}
	n := sessions[nth%len(sessions)]
	l := n.leases.load().Named(name)
	if l == nil {
		return false, "away"
	}
	f, refused := l.Prefetch.Fetch(n.ctx, &speculate.Fetch{
		Candidate: &predict.Candidate{Candidate: enrich.Candidate{Key: call.Key{Tool: tool, Arguments: arguments}}, Why: predict.Why{Independent: true}},
		Call:      new(speculate.Call), ClientRequest: func(bool) {}, Done: func(speculate.FetchResult) {},
	})
	return f != nil, string(refused)
}

// BeginPrefetch adds a prefetch of unknown fate to the record.
func BeginPrefetch(s *Server) {
	r := &s.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = append(r.open, &openPrefetch{observed: new(observation), prefetch: new(dedup.Prefetch), event: record.Event{Kind: record.Prefetch}})
}

// EndPrefetches records the ends of all prefetches.
func EndPrefetches(s *Server) { s.recorder.recordChanges(true) }

// RefuseByHost makes the server learn that a host refused a prefetch.
func RefuseByHost(s *Server, host string) {
	s.prefetch.Scheduler.Harm(host, nil, speculate.RateLimited, 0)
}
