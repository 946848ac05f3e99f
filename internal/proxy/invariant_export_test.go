package proxy

import (
	"cmp"
	"slices"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/speculate"
)

// Prefetch makes a prefetch in one of the sessions: the nth from the oldest, modulo their number.
func Prefetch(s *Server, nth int, name, tool, arguments string) (begun bool, why string) {
	sessions := s.sessions.all()
	age := func(n *session) int64 { return n.client.facts().opened.UnixNano() }
	slices.SortFunc(sessions, func(a, b *session) int { return cmp.Compare(age(a), age(b)) })
	if len(sessions) == 0 {
		return false, "no session"
	}
	n := sessions[nth%len(sessions)]
	l := n.leases.find(name)
	if l == nil {
		return false, "away"
	}
	f, why := l.prefetchUpstream.Fetch(n.ctx, &speculate.Fetch{
		Candidate: &predict.Candidate{Candidate: enrich.Candidate{Key: call.Key{Tool: tool, Arguments: arguments}}, Why: predict.Why{Independent: true}},
		Call:      new(speculate.Call), ClientRequest: func(bool) {}, Done: func(speculate.FetchResult) {},
	})
	return f != nil, why
}
