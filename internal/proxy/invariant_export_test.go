package proxy

import (
	"cmp"
	"slices"

	"mcpschedd/internal/upstream"
)

// Guess makes the prefetch that one of the sessions would make on a guess; nth
// counts them from the oldest, round and round.
func Guess(s *Server, nth int, name, tool, arguments string) (begun bool, why string) {
	sessions := s.sessions.all()
	age := func(n *session) int64 { return n.client.facts().opened.UnixNano() }
	slices.SortFunc(sessions, func(a, b *session) int { return cmp.Compare(age(a), age(b)) })
	if len(sessions) == 0 {
		return false, "no session"
	}
	n := sessions[nth%len(sessions)]
	l := n.find(name)
	if l == nil {
		return false, "away"
	}
	j := guessed(n, tool, []byte(arguments))
	j.callClass = j.classifyCall(s.policy.Load(), l, s.catalog.model(s.policy.Load(), l, tool))
	g, why := n.prefetch(n.ctx, l, j, func(upstream.Answer, error) {})
	return g != nil, why
}
