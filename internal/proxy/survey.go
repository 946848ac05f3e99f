package proxy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/record"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

const (
	// longName is how long a tool's name may be, as clients send it to their
	// model behind "mcp__mcpschedd__", before some drop the tool: 64 is the
	// least limit of the model APIs in use, Claude Code's own is 128.
	longName     = 64
	clientPrefix = "mcp__mcpschedd__"
)

// Surveyed is what a survey found at one upstream.
type Surveyed struct {
	Upstream string
	Offer    *upstream.Offer // nil: it could not be asked
	Problem  error           // why not
	Took     time.Duration   // from its start to its answer
	Tools    []SurveyedTool  // in its order
	Status   record.UpstreamStatus
}

// SurveyedTool is one tool, and what its server says of it.
type SurveyedTool struct {
	Model   *valuemodel.Model
	Hints   valuemodel.Hints
	Hidden  bool   // the operator leaves it out
	Listed  string // the name that clients see; "": it is left out
	Warning string // what a client may not take; "": nothing
}

// Survey starts every upstream, all at once, and says what each offers. One that writes what
// is no MCP message is given up after Options.StartupWait.
func (s *Server) Survey(ctx context.Context) []Surveyed {
	n := s.newSession(front.Client{})
	defer n.End(front.ErrEnded)
	began := time.Now()
	n.open(upstream.Client{})
	leases := n.leases.current()
	all := make([]Surveyed, len(leases))
	var wg sync.WaitGroup
	for i, l := range leases {
		wg.Go(func() {
			problem := answersSurvey(ctx, l, s.policy.Load().StartupWait)
			all[i] = Surveyed{Upstream: l.Name(), Offer: l.Offer(), Problem: problem, Took: time.Since(began)}
		})
	}
	wg.Wait()
	for i, l := range leases {
		if all[i].Offer != nil {
			all[i].Tools = surveyTools(n, l, all[i].Offer)
			all[i].Status = newToolStatus(s.policy.Load(), l.member.Upstream, all[i].Offer)
		}
	}
	return all
}

// answersSurvey waits until what an upstream offers is known; else it says why it is not:
// after a wait if it writes what is no MCP message.
func answersSurvey(ctx context.Context, l *leased, wait time.Duration) error {
	soon, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	l.AwaitOffer(soon)
	if why := l.Garbled(); l.Offer() == nil && why != nil {
		return why
	}
	l.AwaitOffer(ctx)
	switch problem := l.Problem(); {
	case l.Offer() != nil:
		return nil
	case problem != nil:
		return problem
	default:
		return fmt.Errorf("no answer: %w", context.Cause(ctx))
	}
}

// Said adds to what the operator says of a server what that said last of itself, and gives
// what it said of a tool; of a server never connected, offer is nil.
func Said(u valuemodel.Upstream, offer *upstream.Offer, tool string) (valuemodel.Upstream, valuemodel.Hints) {
	if offer == nil {
		return u, valuemodel.Hints{}
	}
	u.Server, _ = jsonrpc.String(jsonrpc.Get(offer.Server, "name"))
	item, _ := offer.Find(upstream.Tools, tool)
	return u, toolHints(item.Raw)
}

// surveyTools are an upstream's tools as clients would see them.
func surveyTools(n *session, l *leased, offer *upstream.Offer) (all []SurveyedTool) {
	p := n.srv.policy.Load()
	for _, item := range offer.Lists[upstream.Tools] {
		t := SurveyedTool{Model: n.srv.catalog.model(p, l, item.Name), Hints: toolHints(item.Raw), Hidden: !l.member.allows(item.Name)}
		if !t.Hidden {
			t.Listed = n.identity.view.nameOf(p, upstream.Tools, target{l.Name(), item.Name})
			t.Warning = nameWarning(item.Name, t.Listed)
		}
		all = append(all, t)
	}
	return all
}

// nameWarning says what is amiss with the name under which a tool is listed.
func nameWarning(tool, name string) string {
	switch {
	case name == "":
		return fmt.Sprintf("tool %q is left out: another upstream has the name, and name_style is \"never\", or the names before it take all the room", tool)
	case len(clientPrefix)+len(name) > longName:
		return fmt.Sprintf("tool %q: %d characters with a client's prefix %q, more than the %d that some clients take", name, len(clientPrefix)+len(name), clientPrefix, longName)
	}
	return ""
}
