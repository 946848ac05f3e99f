package proxy

import (
	"context"

	"mcpschedd/internal/jsonrpc"
)

// ask puts questions to a client, all at once, and waits for the answers, which it
// returns in their order. A client of the handshake era is asked by requests on the
// stream to, nil: the session's own; a stateless one with the next answer to a request
// of w, where the keys of the questions begin with prefix.
func (s *session) ask(ctx context.Context, to outlet, w *work, prefix string, questions ...*question) ([][]byte, *jsonrpc.Error) {
	if w != nil && w.began.stateless {
		return w.ask(ctx, prefix, questions)
	}
	return s.questions.askAll(ctx, to, questions)
}

// askClient puts questions to the client whose request, or step of a plan, x is.
func (x *request) askClient(ctx context.Context, questions ...*question) ([][]byte, *jsonrpc.Error) {
	prefix := "q"
	if x.part != nil {
		prefix = x.part.step + "."
	}
	return x.s.ask(ctx, x.to, x.work, prefix, questions...)
}

// question takes a question of an upstream that its transport does not tie to
// a request. A client of the handshake era is asked on the stream of the only
// request open there, else on its own; a stateless one with the next answer it
// gets from that upstream.
func (s *session) question(l *leased) func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) {
	w := s.suspended.only(l.Lease) // later it may be another client's
	return func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
		q := newQuestion(method, params)
		switch {
		case s.asksForAGuess(l, method):
			return nil, cannotBeAsked("a prefetch")
		case s.client.facts().handshake():
			return first(s.ask(ctx, s.streamOf(l), nil, "", q))
		case w != nil && (s.identity.pooled || w.isPlan()): // whichever of a plan's calls it is about
			return first(s.ask(ctx, nil, w, l.Name()+".", q))
		case s.identity.pooled: // of several clients, none may see another's question
			return nil, cannotBeAsked(method)
		default:
			return s.suspended.askStray(ctx, s.ctx.Done(), l, q)
		}
	}
}

// first is the answer to a single question.
func first(answers [][]byte, err *jsonrpc.Error) ([]byte, *jsonrpc.Error) {
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

// streamOf returns the outlet of the session's only open request to l, nil if
// there are none or several.
func (s *session) streamOf(l *leased) outlet {
	if x := s.only(l); x != nil {
		return x.to
	}
	return nil
}

// only returns the session's only open request to l, any of them if they are all of
// one plan, nil if there are none or several.
func (s *session) only(l *leased) *request {
	var found *request
	for _, x := range s.requests.at(l) {
		if found != nil && !x.part.samePlan(found.part) {
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
