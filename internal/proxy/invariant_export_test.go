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
	l := n.leases.find(name)
	if l == nil {
		return false, "away"
	}
	c := &candidate{lease: l, tool: tool, arguments: []byte(arguments), free: true}
	f, why := n.fetch(n.ctx, c, n.observed.next(), nil, prefetchHooks{asked: func(bool) {}, landed: func(upstream.Answer, error) {}})
	return f != nil, why
}
