package proxy

import (
	"context"
	"net"
	"net/http"
	"reflect"

	"mcpschedd/internal/speculate"
)

// DialWith has an upstream over HTTP reached by other connections than those of
// the network, so that all of it fits into a synctest bubble. It is to be said
// before the first session.
func DialWith(s *Server, name string, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	up := reflect.ValueOf(s.policy.Load().find(name).up).Elem()
	transport := (*http.Transport)(up.FieldByName("transport").UnsafePointer())
	transport.Proxy, transport.DialContext = nil, dial
}

// LineOf is how the server takes an upstream to work on several calls, as far as one
// of its sessions has seen.
func LineOf(s *Server, name string) speculate.Concurrency {
	sessions := s.sessions.all()
	for _, n := range sessions {
		if l := n.leases.find(name); l != nil {
			return s.prefetcher.traffic.read().Concurrency(l.Instance())
		}
	}
	return speculate.Unknown
}

// Kept is how many things of each kind the server keeps for its sessions and what
// they have under way. The worker must not have ended.
func Kept(s *Server) map[string]int {
	kept := make(map[string]int)
	done := make(chan struct{})
	w := s.prefetcher.worker
	s.prefetcher.queue.enqueueAlways(func() {
		defer close(done)
		kept["watched sessions"] = len(w.sessions)
		for _, v := range w.sessions {
			for _, f := range v.pairs {
				kept["guesses that wait for a slot"] += f.offer.Open()
				kept["guesses that follow from guesses"] += len(f.chained)
			}
		}
	})
	<-done
	s.prefetcher.queue.mu.Lock()
	kept["bytes in the queue"] = s.prefetcher.queue.bytes
	s.prefetcher.queue.mu.Unlock()
	kept["guesses with an upstream"] = s.prefetcher.underway.count()
	sessions := s.sessions.all()
	kept["sessions"] = len(sessions)
	for _, n := range sessions {
		kept["requests"] += n.requests.count()
	}
	return kept
}

// Occupancies is of how many upstream instances it is kept how many calls they have, once
// the prefetcher has looked at what it was told so far.
func Occupancies(s *Server) (n int) {
	Kept(s)
	for range s.occupancies.byInstance.Range {
		n++
	}
	return n
}
