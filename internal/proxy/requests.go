package proxy

import (
	"fmt"
	"slices"
	"sync"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
)

// requests is the set of a session's requests that are being served. Each has a key that no
// other request has while its client may wait for the answer.
type requests struct {
	serving *sync.WaitGroup // the session's, which waits for its requests

	mu     sync.Mutex
	open   map[string]*request // request.key → the request
	seq    uint64              // number of requests with unique keys
	closed bool                // no more requests may be added
}

// add adds a request, or returns why it cannot. If unique is set, another client may use the
// same id, and the key is made unique.
func (r *requests) add(x *request, unique bool) *jsonrpc.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if unique {
		r.seq++
		x.key = fmt.Sprintf("%s %d", x.key, r.seq)
	}
	switch other := r.open[x.key]; {
	case other != nil && !isWithdrawn(other.ctx):
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("id %s is in use by a request that has no answer yet", x.key)}
	case r.closed:
		return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: front.ErrEnded.Error()}
	}
	r.open[x.key] = x
	r.serving.Add(1)
	return nil
}

// forget removes a request, so that the client may reuse its id.
func (r *requests) forget(x *request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[x.key] == x { // else another request has the id by now
		delete(r.open, x.key)
	}
}

// done ends a request that was added.
func (r *requests) done(x *request) {
	if !x.answered.Load() { // else write has called forget
		r.forget(x)
	}
	r.serving.Done()
}

// find returns the request with the given key, or nil.
func (r *requests) find(key string) *request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[key]
}

// bind sets the upstream call of a request.
func (r *requests) bind(x *request, c *upstreamCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.call = c
}

// callsTo returns the unanswered requests with a call at l. If awaited is set, it returns only
// those whose call the upstream still works on.
func (r *requests) callsTo(l *sessionLease, awaited bool) (found []*request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.open {
		if c := x.call; c != nil && c.lease.Lease == l.Lease && !(awaited && c.answered.Load()) && !x.answered.Load() {
			found = append(found, x)
		}
	}
	return found
}

// only returns the only open request at l, or any of them if all belong to one plan. It
// returns nil if there are none or several.
func (r *requests) only(l *sessionLease) *request {
	all := r.callsTo(l, false)
	if len(all) == 0 || slices.ContainsFunc(all[1:], func(x *request) bool { return !x.step.samePlan(all[0].step) }) {
		return nil
	}
	return all[0]
}

// close closes the set to new requests.
func (r *requests) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

func (r *requests) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}
