package proxy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// Servers of the handshake era send questions (sampling, elicitation, roots)
// as requests; stateless ones end the call with a result that asks, and the
// client makes the call again with the answers (multi round-trip requests).
// This file joins a client of the one kind with a server of the other.

// maxRounds bounds how often one call may come back for more input.
const maxRounds = 32

// interruptible reports whether the answer to method may be a result that asks
// for input.
func interruptible(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// fulfil puts the questions of a stateless server's result to a client of the
// handshake era and makes the call again with the answers, until the result is
// complete.
func (x *request) fulfil(req *upstream.Request, result []byte) (upstream.Answer, error) {
	params := req.Params
	if params == nil {
		params = []byte("{}")
	}
	for range maxRounds {
		responses, err := x.putAll(jsonrpc.Get(result, "inputRequests"))
		if err != nil {
			return upstream.Answer{}, err
		}
		next := *req
		next.Params = params
		if responses != nil {
			next.Params = jsonrpc.Set(next.Params, "inputResponses", responses)
		}
		if state := jsonrpc.Get(result, "requestState"); state != nil {
			next.Params = jsonrpc.Set(next.Params, "requestState", state)
		}
		answer, callErr := x.run(x.ctx, x.lease, x.lease.Turn(), &next)
		if callErr != nil || answer.Error != nil || !revision.InputRequired(answer.Result) {
			return answer, callErr
		}
		result = answer.Result
	}
	return upstream.Answer{}, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: fmt.Sprintf("upstream %q asked for input %d times", x.lease.Name(), maxRounds)}
}

// putAll asks the client everything at once and returns the answers as one
// object, nil if nothing was asked.
func (x *request) putAll(requests []byte) ([]byte, error) {
	type asked struct {
		key, result []byte
		err         *jsonrpc.Error
	}
	var all []*asked
	var wg sync.WaitGroup
	for m := range jsonrpc.Members(requests) {
		a := &asked{key: slices.Clone(m.Name)}
		all = append(all, a)
		method, _ := jsonrpc.String(jsonrpc.Get(m.Value, "method"))
		params := jsonrpc.Get(m.Value, "params")
		wg.Go(func() { a.result, a.err = x.s.questions.ask(x.ctx, x.to, method, params) })
	}
	wg.Wait()
	if all == nil {
		return nil, nil
	}
	out := []byte("{")
	for _, a := range all {
		if a.err != nil {
			return nil, a.err
		}
		out = append(jsonrpc.AppendString(out, string(a.key)), ':')
		out = append(append(out, a.result...), ',')
	}
	out[len(out)-1] = '}'
	return out, nil
}

// question is what a server of the handshake era wants to know from a
// stateless client.
type question struct {
	method string
	params []byte
	reply  chan reply // capacity 1
}

// hold waits until a call to the same upstream takes q to the client, and for
// the client's answer.
func (s *session) hold(ctx context.Context, to chan<- *question, q *question) ([]byte, *jsonrpc.Error) {
	select {
	case to <- q:
	case <-ctx.Done():
		return nil, errQuestionWithdrawn
	case <-s.ctx.Done():
		return nil, errClientGone
	}
	select {
	case r := <-q.reply:
		return r.result, r.err
	case <-ctx.Done():
		return nil, errQuestionWithdrawn
	case <-s.ctx.Done():
		return nil, errClientGone
	}
}

// parkedFor is how long a call waits for its client to come back.
const parkedFor = 10 * time.Minute

// parked is a call that goes on upstream while its client fetches answers.
type parked struct {
	x      *request // the request that stands for it; nil: its client fetches answers
	began  *request // the request that began it
	of     *planRun // whose step it is; nil: nobody's
	lease  *leased
	method string
	target string // the tool, prompt or URI: another request may not take it up
	level  string // log level that it wants; "": no messages
	own    chan *question
	done   chan outcome // capacity 1
	cancel context.CancelCauseFunc
	open   map[string]*question // key in inputRequests → question
	expiry *time.Timer
}

type outcome struct {
	answer upstream.Answer
	from   source // of the answer, where it is another's
	err    error
}

// askAcross sends the request to a server of the handshake era on behalf of a
// stateless client. The call outlives this request if the server has
// questions.
func (x *request) askAcross(req *upstream.Request) (upstream.Answer, error) {
	call, cancel := context.WithCancelCause(x.s.ctx)
	p := &parked{
		lease: x.lease, method: x.msg.Method, target: x.target(),
		own: make(chan *question), done: make(chan outcome, 1), cancel: cancel,
		open: make(map[string]*question), x: x, began: x, of: x.of,
	}
	req.Ask = func(ctx context.Context, method string, params []byte) ([]byte, *jsonrpc.Error) {
		ctx, done := context.WithCancel(ctx)
		defer done()
		defer context.AfterFunc(call, done)() // after its end nobody takes questions
		return x.s.hold(ctx, p.own, &question{method: method, params: params, reply: make(chan reply, 1)})
	}
	req.Notify = func(method string, params []byte) { p.hear(x.s, method, params) }
	p.level = x.hop.LogLevel
	x.s.mu.Lock()
	x.s.across[p] = struct{}{}
	x.s.mu.Unlock()
	if p.level != "" {
		x.lease.SetLevel(x.s.levelAcross(x.lease))
	}
	turn := x.turn
	x.turn, x.gone = upstream.Turn{}, true // they are the call's, which goes on after the request
	x.s.work.Go(func() {
		defer turn.Leave()
		defer x.drop()
		o := x.fetch(call, turn, req)
		cancel(nil)
		x.s.mu.Lock()
		delete(x.s.across, p)
		x.s.mu.Unlock()
		p.done <- o
	})
	return x.await(p)
}

// levelAcross is the most verbose log level that an open call to l wants.
func (s *session) levelAcross(l *leased) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var levels []string
	for p := range s.across {
		if p.lease.Lease == l.Lease && p.level != "" {
			levels = append(levels, p.level)
		}
	}
	return upstream.MostVerbose(levels...)
}

// hear passes what the upstream says to whichever request stands for the call.
func (p *parked) hear(s *session, method string, params []byte) {
	s.mu.Lock()
	x := p.x
	s.mu.Unlock()
	if x != nil {
		x.hear(method, params)
	}
}

// target is what the request is about, for comparing a later one with it.
func (x *request) target() string {
	for _, member := range []string{"name", "uri"} {
		if raw := jsonrpc.Get(x.msg.Params, member); raw != nil {
			return string(raw)
		}
	}
	return ""
}

// await waits for the call to end or to ask. With a question it answers the
// client with what is asked, and parks the call.
func (x *request) await(p *parked) (upstream.Answer, error) {
	select {
	case o := <-p.done:
		x.entry.from = o.from
		return o.answer, o.err
	case q := <-p.own:
		return x.park(p, q)
	case q := <-p.lease.questions:
		return x.park(p, q)
	case <-x.ctx.Done():
		p.cancel(context.Cause(x.ctx))
		return upstream.Answer{}, context.Cause(x.ctx)
	}
}

// park keeps the call for the client's next request and returns the result
// that asks. Questions the client said it cannot answer are refused here.
func (x *request) park(p *parked, q *question) (upstream.Answer, error) {
	for more := true; more; {
		if !capable(x.hop.Capabilities, q.method) {
			q.reply <- reply{err: cannotBeAsked(q.method)}
		} else {
			p.open[fmt.Sprintf("q%d", len(p.open)+1)] = q
		}
		select {
		case q = <-p.own:
		case q = <-p.lease.questions:
		default:
			more = false
		}
	}
	if len(p.open) == 0 {
		return x.await(p)
	}
	if why := context.Cause(x.ctx); why != nil {
		p.end(why)
		return upstream.Answer{}, why
	}
	return x.shelve(p)
}

// shelve puts the call away under a new single-use handle and returns the
// result that asks its open questions; an error if nobody would answer them.
func (x *request) shelve(p *parked) (upstream.Answer, error) {
	s, handle := x.s, rand.Text()
	s.mu.Lock()
	if s.closed || s.deaf() {
		s.mu.Unlock()
		p.end(errSessionEnded)
		return upstream.Answer{}, errSessionEnded
	}
	p.x, x.asked = nil, true
	s.parked[handle] = p
	p.expiry = time.AfterFunc(parkedFor, func() {
		if s.unshelve(handle) != nil {
			p.abandon(fmt.Errorf("the client did not answer within %v", parkedFor))
		}
	})
	s.mu.Unlock()
	return upstream.Answer{Result: inputRequired(handle, maps.All(p.open)), Stateless: true}, nil
}

// inputRequired is the result that asks questions, by their keys; the handle comes
// back with the answers.
func inputRequired(handle string, open iter.Seq2[string, *question]) []byte {
	out := []byte(`{"resultType":"input_required","inputRequests":{`)
	for key, q := range open {
		out = append(jsonrpc.AppendString(out, key), `:{"method":`...)
		out = jsonrpc.AppendString(out, q.method)
		if q.params != nil {
			out = append(append(out, `,"params":`...), q.params...)
		}
		out = append(out, "},"...)
	}
	out[len(out)-1] = '}'
	out = jsonrpc.AppendString(append(out, `,"requestState":`...), handle)
	return append(out, '}')
}

func (s *session) unshelve(handle string) *parked {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.parked[handle]
	delete(s.parked, handle)
	if p != nil {
		p.expiry.Stop()
	}
	return p
}

// abandon ends a call whose client will not come back to it.
func (p *parked) abandon(why error) {
	p.end(why)
	p.began.tell(upstream.Answer{}, why)
}

// end answers the open questions with why the call ends.
func (p *parked) end(why error) {
	for _, q := range p.open {
		q.reply <- reply{err: &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: why.Error()}}
	}
	p.cancel(why)
}

// resume takes up a parked call with the answers its client has fetched, and
// reports whether x was such a request. A handle that is not ours may be the
// upstream's own.
func (x *request) resume() bool {
	handle, ok := jsonrpc.String(jsonrpc.Get(x.msg.Params, "requestState"))
	if !ok || !x.stateless {
		return false
	}
	p := x.s.unshelve(handle)
	if p == nil {
		if x.lease == nil || x.lease.Stateless() {
			return false
		}
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.requestState: unknown, or used before"})
		return true
	}
	x.turn.Leave()
	if p.method != x.msg.Method || p.target != x.target() {
		p.abandon(errors.New("its handle came with another request"))
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.requestState: of another request"})
		return true
	}
	x.token = revision.Token(x.msg.Params)
	x.s.mu.Lock()
	p.x, x.began = x, p.began
	x.s.mu.Unlock()
	x.s.requests.bind(x, p.lease)
	responses := jsonrpc.Get(x.msg.Params, "inputResponses")
	for key, q := range p.open {
		if result := jsonrpc.Get(responses, key); result != nil {
			q.reply <- reply{result: result}
			delete(p.open, key)
		}
	}
	if len(p.open) > 0 { // ask again for what is missing
		x.answer(x.shelve(p))
		return true
	}
	x.answer(x.await(p))
	return true
}
