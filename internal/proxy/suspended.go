package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
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
// makes its request again, with the answers and the handle, and takes it up.
//
//	request ──► begin ─► await ─┬─► the work has ended: its answer
//	  resume ─────────────▲     └─► it has to ask: suspend ─► the questions and a handle
//	    ▲                                                          │
//	    └──────────── a request with the handle ◄── client ◄───────┘
//
// A handle leads to its work as long as the work has no request, and to nothing
// afterwards: it was used, it has expired, it came with another request, or the session
// has ended.
type suspended struct {
	start func(func()) // runs a function on a goroutine that the session waits for

	mu       sync.Mutex
	ended    bool // nothing is suspended any more
	byHandle map[string]suspension
	open     map[*openCall]struct{} // calls of stateless clients to servers that may ask
	stray    map[string]*question   // key → a question that belongs to no call
	strays   int                    // so far
}

// suspension is a work whose client fetches answers.
type suspension struct {
	*work
	expiry *time.Timer
}

// openCall is a call of a stateless client to a server of the handshake era, which asks
// while the call is under way.
type openCall struct {
	work  *work
	lease *upstream.Lease
	level string // of the log messages that the client wants; "": none
}

// identity is what the request that takes up a work must have in common with the one
// that began it.
type identity struct {
	method, target string            // of the same tool, prompt or resource
	arguments      [sha256.Size]byte // of a plan: their digest; zero for a call
}

// identity is that of the work which x begins or takes up. The arguments, nil for a call,
// are compared however they are formatted.
func (x *request) identity(arguments []byte) identity {
	same := identity{method: x.msg.Method}
	for _, member := range []string{"name", "uri"} {
		if raw := jsonrpc.Get(x.msg.Params, member); raw != nil {
			same.target = string(raw)
			break
		}
	}
	if arguments == nil {
		return same
	}
	if canonical, ok := jsonrpc.AppendCanonical(nil, arguments); ok {
		arguments = canonical
	}
	same.arguments = sha256.Sum256(arguments)
	return same
}

// begin makes a work of the request x; arguments are those of a plan.
func (s *suspended) begin(x *request, arguments []byte, what suspendable) *work {
	w := &work{
		of: s, what: what, began: x, same: x.identity(arguments), request: x, running: 1,
		asking: make(chan struct{}, 1), done: make(chan struct{}), open: make(map[string]*question),
	}
	w.ctx, w.cancel = context.WithCancelCause(x.s.ctx)
	x.work = w
	return w
}

// suspend keeps w for the client's next request, and returns the result that asks what
// is open. It is nil if nothing is; the error says why w cannot be suspended.
func (s *suspended) suspend(w *work) (asks []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := s.lendLocked(w)
	switch {
	case len(open) == 0:
		return nil, nil
	case s.ended:
		err = errSessionEnded
	case w.isPlan() && s.plansLocked() >= maxSuspendedPlans:
		err = fmt.Errorf("%d plans of this client wait for its answers already", maxSuspendedPlans)
	}
	if err != nil {
		s.refuseLentLocked(w, err)
		return nil, err
	}
	handle := rand.Text()
	if s.byHandle == nil {
		s.byHandle = make(map[string]suspension)
	}
	w.request, w.back = nil, make(chan struct{})
	select {
	case <-w.asking: // all that is open is asked now
	default:
	}
	s.byHandle[handle] = suspension{w, time.AfterFunc(suspendedFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.abandonLocked(handle, fmt.Errorf("the client did not answer within %v", suspendedFor))
	})}
	return inputRequired(handle, open), nil
}

// inputRequired is the result that asks questions, by their keys; the handle comes back
// with the answers.
func inputRequired(handle string, open map[string]*question) []byte {
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

func (s *suspended) plansLocked() (n int) {
	for _, w := range s.byHandle {
		if w.isPlan() {
			n++
		}
	}
	return n
}

// resume takes up the work whose handle x brings, and gives it the answers that x
// brings. It returns nil without an error if x brings no handle of the proxy's, but
// perhaps one of its server's.
func (s *suspended) resume(x *request, arguments []byte) (*work, *jsonrpc.Error) {
	handle, ok := jsonrpc.String(jsonrpc.Get(x.msg.Params, "requestState"))
	if !ok || !x.stateless {
		return nil, nil
	}
	x.token = revision.Token(x.msg.Params)
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.byHandle[handle]
	switch {
	case w.work == nil && x.own == nil && (x.lease == nil || x.lease.Stateless()):
		return nil, nil
	case w.work == nil:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.requestState: unknown, or used before"}
	case w.same != x.identity(arguments):
		s.abandonLocked(handle, errors.New("its handle came with another request"))
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.requestState: of another request"}
	}
	delete(s.byHandle, handle)
	w.expiry.Stop()
	x.work, w.request = w.work, x
	x.s.requests.bind(x, w.began.lease)
	close(w.back)
	s.answerLocked(w.work, jsonrpc.Get(x.msg.Params, "inputResponses"))
	w.askIfDueLocked() // for what is missing
	return w.work, nil
}

// answerLocked gives the servers the answers that the client has brought.
func (s *suspended) answerLocked(w *work, responses []byte) {
	answered := func(key string, q *question) bool {
		result := jsonrpc.Get(responses, key)
		if result != nil {
			q.reply <- reply{result: bytes.Clone(result)}
		}
		return result != nil
	}
	for key, q := range w.open {
		if answered(key, q) {
			delete(w.open, key)
		}
	}
	for key, q := range s.stray {
		if q.lent != w {
			continue
		}
		if q.lent = nil; answered(key, q) {
			delete(s.stray, key)
		}
	}
}

// abandonLocked ends the work under a handle, if there is one: its client will not come
// back to it.
func (s *suspended) abandonLocked(handle string, why error) {
	w, ok := s.byHandle[handle]
	if !ok {
		return
	}
	delete(s.byHandle, handle)
	w.expiry.Stop()
	s.refuseLentLocked(w.work, why)
	w.cancel(why)
	s.start(func() {
		<-w.done
		w.what.abandoned(why)
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

// opened notes that a call is under way until the function it returns is called.
func (s *suspended) opened(c *openCall) (closed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[*openCall]struct{})
	}
	s.open[c] = struct{}{}
	c.work.askIfDueLocked()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, c)
	}
}

// level is the most verbose log level that a call under way to l wants.
func (s *suspended) level(l *upstream.Lease) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var levels []string
	for c := range s.open {
		if c.lease == l && c.level != "" {
			levels = append(levels, c.level)
		}
	}
	return upstream.MostVerbose(levels...)
}

// only returns the work of the only call under way to l, or of all of them if they are
// of one plan; nil if there are none or several.
func (s *suspended) only(l *upstream.Lease) (found *work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		switch {
		case c.lease != l:
		case found != nil && found != c.work:
			return nil
		default:
			found = c.work
		}
	}
	return found
}

// askStray puts a question that belongs to no call: it goes to the client with the next
// answer to a call under way to l, and waits for one if there is none.
func (s *suspended) askStray(ctx context.Context, session <-chan struct{}, l *leased, q *question) ([]byte, *jsonrpc.Error) {
	q.lease = l.Lease
	s.mu.Lock()
	s.strays++
	key := fmt.Sprintf("%s/%d", l.Name(), s.strays) // as no step of a plan is called
	if s.stray == nil {
		s.stray = make(map[string]*question)
	}
	s.stray[key] = q
	for c := range s.open {
		c.work.askIfDueLocked()
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.stray, key)
	}()
	select {
	case r := <-q.reply:
		return r.result, r.err
	case <-ctx.Done():
		return nil, errQuestionWithdrawn
	case <-session:
		return nil, errClientGone
	}
}

// carriesLocked reports whether q belongs to no call and may go to the client with the
// answer to a request of w.
func (s *suspended) carriesLocked(w *work, q *question) bool {
	if q.lent != nil {
		return false
	}
	for c := range s.open {
		if c.work == w && c.lease == q.lease {
			return true
		}
	}
	return false
}

// lendLocked returns the questions that w is to ask: its own, and those that belong to
// no call, which it has until its client is back.
func (s *suspended) lendLocked(w *work) map[string]*question {
	open := make(map[string]*question)
	for key, q := range w.open {
		open[key] = q
	}
	for key, q := range s.stray {
		switch {
		case !s.carriesLocked(w, q):
		case !w.canAnswer(q):
			q.reply <- reply{err: cannotBeAsked(q.method)}
			delete(s.stray, key)
		default:
			q.lent = w
			open[key] = q
		}
	}
	return open
}

// refuseLentLocked answers the questions that belong to no call and were to be asked by
// w with why they are not.
func (s *suspended) refuseLentLocked(w *work, why error) {
	for key, q := range s.stray {
		if q.lent == w {
			q.reply <- reply{err: &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: why.Error()}}
			delete(s.stray, key)
		}
	}
}
