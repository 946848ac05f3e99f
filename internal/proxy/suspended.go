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

// Bounds of what is suspended.
const (
	suspendedFor      = 10 * time.Minute // until the client must have come back
	maxSuspendedPlans = 32               // of one session
)

// suspended are the calls and plans of one session that may be suspended: what a server
// asks a stateless client goes to it with the answer to its request, together with a
// handle that is good for one request. The call or plan goes on meanwhile. The client
// makes its request again, with the replies and the handle, and takes it up.
//
//	request ──► newWork ─► attend ─┬─► the work has ended: its answer
//	  resume ────────────────▲     └─► it has to ask: suspend ─► the questions and a handle
//	    ▲                                                            │
//	    └───────────── a request with the handle ◄── client ◄────────┘
//
// A handle leads to its work as long as the work has no request, and to nothing
// afterwards: it was used, it has expired, it came with another request, or the session
// has ended.
type suspended struct {
	start func(func()) // runs a function on a goroutine that the session waits for

	mu       sync.Mutex
	ended    bool                   // nothing is suspended any more
	byHandle map[string]*work       // handle → the work that it takes up
	calling  map[*request]struct{}  // with a call under way to a server of the handshake era, which may ask; some have been answered with questions
	stray    map[*question]struct{} // questions that belong to no call and that no work asks
}

func newSuspended(start func(func())) suspended {
	return suspended{
		start: start, byHandle: make(map[string]*work),
		calling: make(map[*request]struct{}), stray: make(map[*question]struct{}),
	}
}

// inputRequired is the result that asks questions, by their keys; the handle comes back
// with the answers.
func inputRequired(handle string, open map[string]*question) []byte {
	requests := []byte("{}")
	for key, q := range open {
		asked := jsonrpc.Set(nil, "method", jsonrpc.AppendString(nil, q.method))
		if q.params != nil {
			asked = jsonrpc.Set(asked, "params", q.params)
		}
		requests = jsonrpc.Set(requests, key, asked)
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

// resume takes up the work whose handle x brings, and hands out the replies that x
// brings. It returns nil without an error if x brings no handle of the proxy's, but
// perhaps one of its server's.
func (s *suspended) resume(x *request) (*work, *jsonrpc.Error) {
	handle, ok := jsonrpc.String(x.msg.Index.Get("requestState"))
	if !ok || !x.stateless {
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
		s.abandonLocked(handle, errors.New("its handle came with another request"))
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
	w.requestInputLocked() // again what is missing
	s.placeLocked()
	return w, nil
}

// abandonLocked ends the work under a handle, if there is one: its client will not come
// back to it.
func (s *suspended) abandonLocked(handle string, why error) {
	w := s.byHandle[handle]
	if w == nil {
		return
	}
	delete(s.byHandle, handle)
	w.expiry.Stop()
	w.cancel(why)
	s.start(func() {
		<-w.done
		w.close(why)
		w.abandoned(why)
	})
}

// end abandons all that is suspended, and lets nothing else be.
func (s *suspended) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for handle := range s.byHandle {
		s.abandonLocked(handle, why)
	}
}

// any reports whether a client is awaited.
func (s *suspended) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byHandle) > 0
}

// enter notes that the call of x is under way until the function it returns is called.
func (s *suspended) enter(x *request) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calling[x] = struct{}{}
	s.placeLocked()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calling, x)
	}
}

// at are the requests with a call under way to l.
func (s *suspended) at(l *upstream.Lease) []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.atLocked(l)
}

func (s *suspended) atLocked(l *upstream.Lease) (found []*request) {
	for x := range s.calling {
		if x.call.lease.Lease == l {
			found = append(found, x)
		}
	}
	return found
}

// level is the most verbose log level that a call under way to l wants.
func (s *suspended) level(l *upstream.Lease) string {
	var levels []string
	for _, x := range s.at(l) {
		levels = append(levels, x.hop.LogLevel)
	}
	return upstream.MostVerbose(levels...)
}

// only is the work that has calls under way to l; nil if there is none, or several.
func (s *suspended) only(l *upstream.Lease) *work {
	all := s.at(l)
	if len(all) == 0 || slices.ContainsFunc(all, func(x *request) bool { return x.work != all[0].work }) {
		return nil
	}
	return all[0].work
}

// byAnswer asks a stateless client with the next answer to a request of a work, under
// keys with a prefix. The work of a question that belongs to no call is any with a call
// to the same server, the next one if there is none.
type byAnswer struct {
	*suspended
	work   *work
	prefix string
}

func (s byAnswer) put(_ context.Context, questions []*question) *jsonrpc.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := questions[0]; q.server != nil {
		s.stray[q] = struct{}{}
		s.placeLocked()
		return nil
	}
	return s.work.addQuestionsLocked(s.prefix, questions)
}

func (s byAnswer) withdraw(questions []*question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range questions {
		delete(s.stray, q)
		if q.work != nil {
			delete(q.work.open, q.key)
		}
	}
}

// placeLocked gives the questions that belong to no call to work that has one under way
// to the same server, and a request to answer.
func (s *suspended) placeLocked() {
	for q := range s.stray {
		for _, x := range s.atLocked(q.server) {
			if x.work.request == nil {
				continue
			}
			delete(s.stray, q)
			if err := x.work.addQuestionsLocked(x.call.lease.Name()+".", []*question{q}); err != nil {
				q.reply <- reply{err: err}
			}
			break
		}
	}
}
