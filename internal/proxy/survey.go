package proxy

import (
	"context"
	"sync"
	"time"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/front"
	"mcpschedd/internal/record"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// Surveyed is the result of [Server.Survey] for one server.
type Surveyed struct {
	Upstream string
	Offer    *upstream.Offer        // nil if Problem is set
	Problem  error                  // why the server has no offer
	Took     time.Duration          // from its start to its offer
	Tools    []catalog.SurveyedTool // in the server's order
	Status   record.UpstreamStatus
}

// Survey starts all servers concurrently and returns the offer of each. After
// Options.StartupWait it gives up on a server that has a problem, such as one that writes anything but MCP messages,
// and calls waiting with the name of each server that it still waits for, one at a time.
func (s *Server) Survey(ctx context.Context, waiting func(name string)) []Surveyed {
	n := s.newSession(front.Client{})
	defer n.End(front.ErrEnded)
	start := time.Now()
	n.open(revision.Client{})
	leases := *n.leases.load()
	all := make([]Surveyed, len(leases))
	var wg sync.WaitGroup
	var telling sync.Mutex
	for i, l := range leases {
		wg.Go(func() {
			bounded, cancel := context.WithTimeout(ctx, s.policy.Load().StartupWait)
			defer cancel()
			l.AwaitOffer(bounded)
			if all[i].Upstream, all[i].Problem = l.Name(), l.Problem(); all[i].Problem == nil {
				if !l.Listed() && ctx.Err() == nil {
					telling.Lock()
					waiting(l.Name())
					telling.Unlock()
				}
				l.AwaitOffer(ctx)
				all[i].Problem = l.Problem()
			}
			if all[i].Problem == nil && !l.Listed() {
				all[i].Problem = context.Cause(ctx)
			}
			if all[i].Took = time.Since(start); all[i].Problem != nil {
				return
			}
			all[i].Offer = l.Offer()
			p := s.policy.Load()
			all[i].Status = l.Member.ToolStatus(p.Policy, all[i].Offer, p.PrefetchSettings(l.Member.Upstream))
		})
	}
	wg.Wait()
	v := n.view()
	for i, l := range leases { // in the order of the configuration, in which names are given to clients too
		if all[i].Offer != nil {
			all[i].Tools = v.Survey(l, all[i].Offer)
			s.catalog.NoteUnlisted(&all[i].Status, v.Policy, l.Member)
		}
	}
	return all
}
