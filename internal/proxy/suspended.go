package proxy

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// Limits of suspended work.
const (
	suspendTimeout    = 10 * time.Minute // until the client must repeat its request
	maxSuspendedPlans = 32               // of one session
)

// suspended holds the calls and plans of one session that wait for input from a stateless
// client. The proxy answers the client's request with the questions and a handle for one
// use, and the call or plan continues. The client repeats its request with the replies and
// the handle, which resumes the work.
//
//	request ──► newWork ─► serve ──┬─► the work has ended: its result
//	  resume ────────────────▲     └─► input needed: suspend ─► questions and a handle
//	    ▲                                                            │
//	    └───────── repeated request with the handle ◄── client ◄─────┘
//
// A handle is valid while its work has no request. It becomes invalid when it is used, when
// it expires, when another request brings it, and when the session ends.
type suspended struct {
	start func(func()) // runs a function on a goroutine that the session waits for

	mu         sync.Mutex
	ended      bool                   // no more work may be suspended
	byHandle   map[string]*work       // handle → suspended work
	calling    map[*request]struct{}  // requests with an open call to a server of the handshake era, which may ask questions; the requests may be answered already
	unassigned map[*question]struct{} // questions that belong to no call and are not assigned to work
}

func newSuspended(start func(func())) suspended {
	return suspended{
		start: start, byHandle: make(map[string]*work),
		calling: make(map[*request]struct{}), unassigned: make(map[*question]struct{}),
	}
}

// inputRequired returns the result that asks the client the open questions, by key. The client
// returns the handle with its replies.
func inputRequired(handle string, open map[string]*question) []byte {
	requests := []byte("{}")
	for key, q := range open {
		request := jsonrpc.Set(nil, "method", jsonrpc.AppendString(nil, q.method))
		if q.params != nil {
			request = jsonrpc.Set(request, "params", q.params)
		}
		requests = jsonrpc.Set(requests, key, request)
	}
	out := jsonrpc.Set([]byte(`{"resultType":"input_required"}`), "inputRequests", requests)
	return jsonrpc.Set(out, "requestState", jsonrpc.AppendString(nil, handle))
}

func (s *suspended) plansLocked() (n int) {
	for _, w := range s.byHandle {
		if w.isPlan() {
			n++
		}
	}
	return n
}

// resume returns the suspended work for the handle in x, after passing the replies in x to
// the questions. It returns nil and no error if x has no handle, or one that may belong to a
// stateless server.
func (s *suspended) resume(x *request) (*work, *jsonrpc.Error) {
	handle, ok := jsonrpc.String(x.handle())
	if !ok {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.byHandle[handle]
	switch {
	case w == nil && !x.callsOwnTool() && (x.call == nil || x.call.lease.Stateless()):
		return nil, nil
	case w == nil:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.requestState: unknown, or used before"}
	case !repeats(x, w.first):
		s.abandonLocked(handle, errors.New("its handle was used with another request"))
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.requestState: of another request"}
	}
	delete(s.byHandle, handle)
	w.expiry.Stop()
	x.s.requests.bind(x, w.first.call)
	x.work, w.request = w, x
	close(w.resumed)
	w.resumed = nil
	replies := x.msg.Index.Get("inputResponses")
	for key, q := range w.open {
		if result := jsonrpc.Get(replies, key); result != nil {
			q.reply <- reply{result: bytes.Clone(result)}
			delete(w.open, key)
		}
	}
	w.requestInputLocked() // for questions without a reply
	s.assignLocked()
	return w, nil
}

// abandonLocked cancels the suspended work with the given handle, if any.
func (s *suspended) abandonLocked(handle string, cause error) {
	w := s.byHandle[handle]
	if w == nil {
		return
	}
	delete(s.byHandle, handle)
	w.expiry.Stop()
	w.cancel(cause)
	s.start(func() {
		<-w.done
		w.close(cause)
		w.abandoned(cause)
	})
}

// end cancels all suspended work. No more work can be suspended.
func (s *suspended) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for handle := range s.byHandle {
		s.abandonLocked(handle, cause)
	}
}

// any reports whether any work is suspended.
func (s *suspended) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byHandle) > 0
}

// enter registers the call of x as open until the returned function is called.
func (s *suspended) enter(x *request) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calling[x] = struct{}{}
	s.assignLocked()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calling, x)
	}
}

// callsTo returns the requests with an open call to l.
func (s *suspended) callsTo(l *upstream.Lease) []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callsToLocked(l)
}

func (s *suspended) callsToLocked(l *upstream.Lease) (found []*request) {
	for x := range s.calling {
		if x.call.lease.Lease == l {
			found = append(found, x)
		}
	}
	return found
}

// level returns the most verbose log level of the requests with an open call to l.
func (s *suspended) level(l *upstream.Lease) string {
	var levels []string
	for _, x := range s.callsTo(l) {
		levels = append(levels, x.hop.LogLevel)
	}
	return upstream.MostVerbose(levels...)
}

// soleWork returns the only work with open calls to l, or nil if there is not exactly one.
func (s *suspended) soleWork(l *upstream.Lease) *work {
	all := s.callsTo(l)
	if len(all) == 0 || slices.ContainsFunc(all, func(x *request) bool { return x.work != all[0].work }) {
		return nil
	}
	return all[0].work
}

// viaResult asks a stateless client with an input_required result for the work's current
// request. For a question that belongs to no call it uses any work with an open call to the
// same server, or the next such work.
type viaResult struct {
	*suspended
	work   *work
	prefix string // of the questions' keys
}

func (s viaResult) put(_ context.Context, questions []*question) *jsonrpc.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := questions[0]; q.server != nil {
		s.unassigned[q] = struct{}{}
		s.assignLocked()
		return nil
	}
	return s.work.addQuestionsLocked(s.prefix, questions)
}

func (s viaResult) withdraw(questions []*question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range questions {
		delete(s.unassigned, q)
		if q.work != nil {
			delete(q.work.open, q.key)
		}
	}
}

// assignLocked assigns each unassigned question to work that has an open call to the same server
// and a current request.
func (s *suspended) assignLocked() {
	for q := range s.unassigned {
		for _, x := range s.callsToLocked(q.server) {
			if x.work.request == nil {
				continue
			}
			delete(s.unassigned, q)
			if err := x.work.addQuestionsLocked(x.call.lease.Name()+".", []*question{q}); err != nil {
				q.reply <- reply{err: err}
			}
			break
		}
	}
}
