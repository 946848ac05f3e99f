package proxy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/record"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

const (
	// maxToolName is the length of a tool's name with clientPrefix above which some
	// clients drop the tool: 64 is the lowest limit of the model APIs in use, Claude
	// Code's own limit is 128.
	maxToolName  = 64
	clientPrefix = "mcp__mcpschedd__"
)

// Surveyed is the result of [Server.Survey] for one server.
type Surveyed struct {
	Upstream string
	Offer    *upstream.Offer // nil if Problem is set
	Problem  error           // why the server has no offer
	Took     time.Duration   // from its start to its offer
	Tools    []SurveyedTool  // in the server's order
	Status   record.UpstreamStatus
}

// SurveyedTool is a tool with its model and the server's annotations.
type SurveyedTool struct {
	Model   *valuemodel.Model
	Hints   valuemodel.Hints
	Hidden  bool   // not allowed by the configuration
	Listed  string // name that clients see; "" if it is not listed
	Warning string // problem with the name; "" if there is none
}

// Survey starts all servers concurrently and returns the offer of each. After
// Options.StartupWait it gives up on a server that has a problem, such as one that writes anything but MCP messages,
// and calls waiting with the name of each server that it still waits for, one at a time.
func (s *Server) Survey(ctx context.Context, waiting func(name string)) []Surveyed {
	n := s.newSession(front.Client{})
	defer n.End(front.ErrEnded)
	start := time.Now()
	n.open(revision.Client{})
	leases := n.leases.current()
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
			all[i].Status = newToolStatus(s.policy.Load(), l.member.Upstream, all[i].Offer)
		})
	}
	wg.Wait()
	for i, l := range leases { // in the order of the configuration, in which names are given to clients too
		if all[i].Offer != nil {
			all[i].Tools = surveyTools(n, l, all[i].Offer)
			noteUnlisted(&all[i].Status, s.names.unlisted(s.policy.Load(), l.member))
		}
	}
	return all
}

// WithServerClaims returns u with the server's own name, and the server's annotations of a
// tool. offer is the server's last offer, nil if the server was never connected.
func WithServerClaims(u valuemodel.Upstream, offer *upstream.Offer, tool string) (valuemodel.Upstream, valuemodel.Hints) {
	if offer == nil {
		return u, valuemodel.Hints{}
	}
	u.Server = jsonrpc.Text(offer.Server, "name")
	item, _ := offer.Find(upstream.Tools, tool)
	return u, toolHints(item.Raw)
}

// surveyTools returns a server's tools with the names that clients would see.
func surveyTools(n *session, l *sessionLease, offer *upstream.Offer) (all []SurveyedTool) {
	v := n.view()
	for _, item := range offer.Lists[upstream.Tools] {
		t := SurveyedTool{Model: v.model(l, item.Name), Hints: toolHints(item.Raw), Hidden: !l.member.allows(item.Name)}
		if !t.Hidden {
			t.Listed = v.nameOf(upstream.Tools, target{l.Name(), item.Name})
			if t.Listed != "" || !v.s.srv.names.taken(upstream.Tools, target{l.Name(), item.Name}) { // else the status says it
				t.Warning = nameWarning(item.Name, t.Listed)
			}
			if why := t.Model.Lacks(t.Hints); why != "" {
				t.Warning = fmt.Sprintf("no call of tool %q is cached or prefetched: %s", item.Name, why)
			}
		}
		all = append(all, t)
	}
	return all
}

// nameWarning returns a warning about the name under which a tool is listed, or "".
func nameWarning(tool, name string) string {
	switch {
	case name == "":
		return fmt.Sprintf("tool %q is not listed: the limit of names is reached", tool)
	case len(clientPrefix)+len(name) > maxToolName:
		return fmt.Sprintf("tool %q: %d characters with a client's prefix %q, but some clients accept only %d", name, len(clientPrefix)+len(name), clientPrefix, maxToolName)
	}
	return ""
}
