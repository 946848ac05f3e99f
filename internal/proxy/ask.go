package proxy

import (
	"context"

	"mcpschedd/internal/jsonrpc"
)

// question takes a question of an upstream that its transport does not tie to
// a request. A client of the handshake era is asked on the stream of the only
// request open there, else on its own; a stateless one with the next answer it
// gets from that upstream.
func (s *session) question(l *leased) func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) {
	p := s.onlyAcross(l) // later it may be another client's
	return func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
		if s.asksForAGuess(l, method) {
			return nil, cannotBeAsked("a prefetch")
		}
		if s.client.facts().handshake() {
			return s.questions.ask(ctx, s.streamOf(l), method, params)
		}
		if p != nil && p.of != nil { // whichever of its calls it is about, the plan's client is to answer
			answers, err := p.of.askLater(ctx, []asked{{l.Name(), method, params}})
			if err != nil {
				return nil, err
			}
			return answers[0], nil
		}
		q := &question{method: method, params: params, reply: make(chan reply, 1)}
		if !s.pooled {
			return s.hold(ctx, l.questions, q)
		}
		if p == nil { // of several clients, none may see another's question
			return nil, cannotBeAsked(method)
		}
		return s.hold(ctx, p.own, q)
	}
}

// onlyAcross returns the session's only open call to l that its client can be
// asked through, any of them if they are all of one plan, nil if there are none or
// several.
func (s *session) onlyAcross(l *leased) *parked {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *parked
	for p := range s.across {
		if p.lease.Lease != l.Lease {
			continue
		}
		if found != nil && !sameRun(found.of, p.of) {
			return nil
		}
		found = p
	}
	return found
}

// streamOf returns the outlet of the session's only open request to l, nil if
// there are none or several.
func (s *session) streamOf(l *leased) outlet {
	if x := s.only(l); x != nil {
		return x.to
	}
	return nil
}

// sameRun reports whether two calls are of one plan: then one client waits for both.
func sameRun(a, b *planRun) bool { return a != nil && a == b }

// only returns the session's only open request to l, any of them if they are all of
// one plan, nil if there are none or several.
func (s *session) only(l *leased) *request {
	var found *request
	for _, x := range s.requests.at(l) {
		if found != nil && !sameRun(found.of, x.of) {
			return nil
		}
		found = x
	}
	return found
}

// isAnswered reports whether the request has its answer: its client may know that
// before the request has left.
func (x *request) isAnswered() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.answered
}
