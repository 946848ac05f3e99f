package proxy

import (
	"context"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// question is what a server wants to know from its client.
type question struct {
	method string
	params []byte
	reply  chan reply      // capacity 1
	key    string          // its id, or its key in inputRequests; "": it was not asked yet
	first  *question       // of those that one call waits for
	server *upstream.Lease // of a question that belongs to no call: where it comes from
	work   *work           // that asks it; nil: none does
}

// reply is the client's answer to a question, or why there is none.
type reply struct {
	result []byte
	err    *jsonrpc.Error
}

func newQuestion(method string, params []byte) *question {
	return &question{method: method, params: params, reply: make(chan reply, 1)}
}

// way is one of the ways in which questions reach a client: by requests (byRequest),
// where it is of the handshake era, or with the answer to its own request (byAnswer).
type way interface {
	// put asks the questions, which then get their replies, or says why it does not.
	put(ctx context.Context, questions []*question) *jsonrpc.Error
	// withdraw takes back those of the questions that have no answer.
	withdraw(questions []*question)
}

// ask puts questions to a client and waits for all the answers, which it returns in
// their order.
func (s *session) ask(ctx context.Context, by way, questions ...*question) ([][]byte, *jsonrpc.Error) {
	defer by.withdraw(questions)
	if err := by.put(ctx, questions); err != nil {
		return nil, err
	}
	answers := make([][]byte, len(questions))
	for i, q := range questions {
		select {
		case r := <-q.reply:
			if r.err != nil {
				return nil, r.err
			}
			answers[i] = r.result
		case <-ctx.Done():
			return nil, errQuestionWithdrawn
		case <-s.ctx.Done():
			return nil, errClientGone
		}
	}
	return answers, nil
}

// way is the one to the client of the request. The keys of questions that go with an
// answer begin with prefix.
func (x *request) way(prefix string) way {
	if x.stateless {
		return byAnswer{&x.s.suspended, x.work, prefix}
	}
	return byRequest{&x.s.questions, x.to}
}

// question puts a server's question, asked while it works on this request, to its client.
func (x *request) question(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
	return first(x.s.ask(ctx, x.way(x.part.prefix()), newQuestion(method, params)))
}

// question takes a question of an upstream that its transport does not tie to
// a request. A client of the handshake era is asked on the stream of the only
// request open there, else on its own; a stateless one with the next answer it
// gets from that upstream.
func (s *session) question(l *leased) func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) {
	w, calls := s.suspended.only(l.Lease) // later it may be another client's
	return func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
		if s.asksForPrefetch(l, method) {
			return nil, cannotBeAsked("a prefetch")
		}
		for _, c := range calls { // it may be about any of them
			if err := c.mayAsk(ctx); err != nil {
				return nil, err
			}
		}
		q, by := newQuestion(method, params), way(byAnswer{&s.suspended, w, l.Name() + "."})
		switch {
		case s.client.facts().handshake():
			on := byRequest{&s.questions, nil}
			if x := s.requests.only(l); x != nil {
				on.to = x.to
			}
			by = on
		case !s.identity.pooled:
			q.server = l.Lease
		case w == nil: // of several clients, none may see another's question
			return nil, cannotBeAsked(method)
		}
		return first(s.ask(ctx, by, q))
	}
}

// first is the answer to the only question.
func first(answers [][]byte, err *jsonrpc.Error) ([]byte, *jsonrpc.Error) {
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

// capable reports whether a client with such capabilities can be asked by that method.
func capable(capabilities []byte, method string) bool {
	needed := map[string]string{"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}[method]
	return needed == "" || jsonrpc.Get(capabilities, needed) != nil
}

var (
	errQuestionWithdrawn = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "withdrawn"}
	errClientGone        = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: front.ErrEnded.Error()}
)

func cannotBeAsked(what string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the client cannot be asked: " + what}
}
