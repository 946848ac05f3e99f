package proxy

import (
	"fmt"
	"slices"
	"sync"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
)

// requests are the requests of a session that are being served. Each has a key that
// no other has as long as its client may wait for its answer.
type requests struct {
	serving *sync.WaitGroup // the session's: it ends after its requests

	mu     sync.Mutex
	open   map[string]*request // request.key → the request
	seq    uint64              // requests so far, of clients whose ids may clash
	closed bool                // no more are taken
}

// add takes in a request, or says why not. unique: its id may be another client's
// too.
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

// forget lets the client use the request's id again.
func (r *requests) forget(x *request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[x.key] == x { // else another request has its id by now
		delete(r.open, x.key)
	}
}

// done is the end of a request that add took in.
func (r *requests) done(x *request) {
	if !x.answered.Load() { // else it was forgotten before its answer
		r.forget(x)
	}
	r.serving.Done()
}

// find returns the request with a key, nil if there is none.
func (r *requests) find(key string) *request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[key]
}

// bind says what is asked of an upstream for a request.
func (r *requests) bind(x *request, c *upstreamCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.call = c
}

// at returns the requests for an upstream that have no answer yet; awaited: only those of
// which the upstream is at a call.
func (r *requests) at(l *leased, awaited bool) (found []*request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.open {
		if c := x.call; c != nil && c.lease.Lease == l.Lease && !(awaited && c.answered.Load()) && !x.answered.Load() {
			found = append(found, x)
		}
	}
	return found
}

// only returns the only open request for an upstream, any of them if they are all of
// one plan; nil if there are none or several.
func (r *requests) only(l *leased) *request {
	all := r.at(l, false)
	if len(all) == 0 || slices.ContainsFunc(all[1:], func(x *request) bool { return !x.part.samePlan(all[0].part) }) {
		return nil
	}
	return all[0]
}

// close takes no more requests.
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
