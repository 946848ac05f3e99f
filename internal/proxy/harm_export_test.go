package proxy

import "mcpschedd/internal/speculate"

// LineOf returns how the server judges the concurrency of an upstream, as far as one of its sessions has
// seen.
func LineOf(s *Server, name string) speculate.Concurrency {
	sessions := s.sessions.all()
	for _, n := range sessions {
		if l := n.leases.find(name); l != nil {
			is, _ := s.prefetch.Scheduler.Known(l.member.key)
			return is
		}
	}
	return speculate.Unknown
}

// Kept returns the number of objects of each kind that the server holds for its sessions and their open
// work. The worker must not have ended.
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

// Occupancies returns the number of upstream instances whose open calls are tracked, after the worker has
// handled all events so far.
func Occupancies(s *Server) int { return s.prefetch.Held().Instances }

// TakeForProcess makes the server treat the upstream as a process of unknown concurrency although it is
// reached over HTTP. It must be called before the session's first call.
func TakeForProcess(s *Server, name string) {
	for _, n := range s.sessions.all() {
		if l := n.leases.find(name); l != nil {
			l.prefetchUpstream.Remote = false
		}
	}
}
