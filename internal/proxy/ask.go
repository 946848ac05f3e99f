package proxy

import (
	"context"
	"strconv"

	"mcpschedd/internal/jsonrpc"
)

// put makes a request of a client of the handshake era and waits for its
// answer. It goes out on to, the stream of the request it belongs to, or, nil,
// on the session's own.
func (s *session) put(ctx context.Context, to outlet, method string, params []byte) ([]byte, *jsonrpc.Error) {
	if to == nil {
		to = s.out
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "withdrawn"}
	case <-s.ctx.Done():
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: errSessionEnded.Error()}
	}
	s.mu.Lock()
	if needs := capabilityFor(method); needs != "" && jsonrpc.Get(s.client.Capabilities, needs) == nil {
		s.mu.Unlock()
		return nil, cannotBeAsked(method)
	}
	s.asks++
	id := append(strconv.AppendInt([]byte(`"mcpschedd-`), int64(s.asks), 10), '"')
	reply := make(chan jsonrpc.Message, 1)
	s.asked[string(id)] = reply
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.asked, string(id))
		s.mu.Unlock()
	}()
	if to == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the client cannot be reached"}
	}
	request := jsonrpc.AppendRequest(nil, id, method, params)
	err := to.Send(request)
	if err != nil && s.out != nil && to != s.out { // the request it came with has just been answered
		to = s.out
		err = to.Send(request)
	}
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the client cannot be reached: " + err.Error()}
	}
	select {
	case m := <-reply:
		if m.Error != nil {
			return nil, &jsonrpc.Error{Code: code(m.Error), Message: message(m.Error), Data: jsonrpc.Get(m.Error, "data")}
		}
		return m.Result, nil
	case <-ctx.Done(): // the server withdrew it, or is gone
		params := append(append([]byte(`{"requestId":`), id...), '}')
		if err := to.Send(jsonrpc.AppendNotification(nil, "notifications/cancelled", params)); err != nil {
			s.srv.log.Debug("cancellation not delivered", "method", method, "err", err)
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "withdrawn"}
	case <-s.ctx.Done():
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: errSessionEnded.Error()}
	}
}

func code(object []byte) int {
	n, err := strconv.Atoi(string(jsonrpc.Get(object, "code")))
	if err != nil {
		return jsonrpc.CodeInternal
	}
	return n
}

func message(object []byte) string {
	s, _ := jsonrpc.String(jsonrpc.Get(object, "message"))
	return s
}

// answered takes the client's answer to a request of ours.
func (s *session) answered(m jsonrpc.Message) {
	s.mu.Lock()
	reply := s.asked[string(m.ID)]
	delete(s.asked, string(m.ID))
	s.mu.Unlock()
	if reply == nil || m.Error == nil && m.Result == nil {
		s.srv.log.Debug("answer to a request that is not open", "id", string(m.ID))
		return
	}
	reply <- m
}

// awaits reports whether an answer of the client with that raw id is wanted.
func (s *session) awaits(id []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[string(id)] != nil
}

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
		if !s.statelessOnly() {
			return s.put(ctx, s.streamOf(l), method, params)
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

func cannotBeAsked(method string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the client cannot be asked: " + method}
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
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *request
	for _, x := range s.inflight {
		if x.lease == nil || x.lease.Lease != l.Lease || x.isAnswered() {
			continue
		}
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
