package proxy

import "mcpschedd/internal/speculate"

// LineOf is how the server takes an upstream to work on several calls, as far as one
// of its sessions has seen.
func LineOf(s *Server, name string) speculate.Concurrency {
	sessions := s.sessions.all()
	for _, n := range sessions {
		if l := n.leases.find(name); l != nil {
			return s.prefetch.Scheduler.Known(l.Instance()).Is
		}
	}
	return speculate.Unknown
}

// Kept is how many things of each kind the server keeps for its sessions and what
// they have under way. The worker must not have ended.
func Kept(s *Server) map[string]int {
	h := s.prefetch.Held()
	kept := map[string]int{
		"watched sessions": h.Sessions, "prefetches that wait for a slot": h.Waiting,
		"bytes in the queue": h.Bytes,
	}
	sessions := s.sessions.all()
	kept["sessions"] = len(sessions)
	for _, n := range sessions {
		kept["requests"] += n.requests.count()
		for _, l := range n.leases.current() {
			kept["prefetches with an upstream"] += len(l.prefetches.list())
		}
	}
	return kept
}

// Occupancies is of how many upstream instances it is kept how many calls they have, once
// the worker has looked at what it was told so far.
func Occupancies(s *Server) int { return s.prefetch.Held().Instances }

// TakeForProcess has the upstream taken for a process, of which nothing is known of how it
// works on several calls, though it is reached over HTTP. It is to be said before the
// session's first call.
func TakeForProcess(s *Server, name string) {
	for _, n := range s.sessions.all() {
		if l := n.leases.find(name); l != nil {
			l.prefetchUpstream.Remote = false
		}
	}
}
