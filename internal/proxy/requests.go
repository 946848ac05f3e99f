package proxy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// requests is the set of a session's requests that are being served, and of the calls at its
// upstreams. Each request has a key that no other request has while its client may wait for the
// answer. A work's own request is not in it, but its call is.
type requests struct {
	inFlight *atomic.Int64 // requests being served: those of the session or, over HTTP, of all sessions of the server

	mu    sync.Mutex          // held while the session's context is cancelled
	open  map[string]*request // request.key → the request
	seq   uint64              // number of requests with unique keys
	calls []*upstreamCall     // calls without an answer, and prefetches, in the order in which they began
}

// maxRequests limits the requests in flight of one client on stdio, or of all sessions over HTTP.
const maxRequests = 2048

var tooManyRequests = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: fmt.Sprintf("too many requests are in flight; want at most %d", maxRequests)}

// add adds a request, or returns why it cannot. The key is made unique for a step of a plan, which has no id, for
// initialize, which no client may cancel, and if another client may use the same id.
func (r *requests) add(x *request) *jsonrpc.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.step != nil || x.s.identity.Multiplexed || x.msg.Method == "initialize" {
		r.seq++
		x.key = fmt.Sprintf("%s %d", x.key, r.seq)
	}
	switch other := r.open[x.key]; {
	case other != nil && !isCancelledByClient(other.ctx):
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("id %s is in use by a request that has no answer yet", x.key)}
	case x.s.ctx.Err() != nil:
		return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: context.Cause(x.s.ctx).Error()}
	case x.step == nil && r.inFlight.Add(1) > maxRequests: // a plan limits its steps
		r.inFlight.Add(-1)
		return tooManyRequests
	}
	r.open[x.key] = x
	x.s.running.Add(1)
	return nil
}

// forget removes a request, so that the client may reuse its id. Further calls do nothing.
func (r *requests) forget(x *request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[x.key] == x { // else another request has the id by now
		delete(r.open, x.key)
	}
}

// done ends a request that was added.
func (r *requests) done(x *request) {
	r.forget(x) // if it was not answered
	if x.step == nil {
		r.inFlight.Add(-1)
	}
	x.s.running.Done()
}

// find returns the request with the given key, or nil.
func (r *requests) find(key string) *request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[key]
}

// addCall adds a call, and assigns it to the request that makes it.
func (r *requests) addCall(c *upstreamCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.request != nil {
		c.request.call = c
	}
	r.calls = append(r.calls, c)
}

// removeCall removes a call that has been answered or given up.
func (r *requests) removeCall(c *upstreamCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.calls, c); i >= 0 {
		r.calls = slices.Delete(r.calls, i, i+1)
	}
}

// callsAt returns the calls that l's upstream may work on: those of the client, running or suspended, and
// the prefetches that it runs or may run. A server over stdio does not say which of them its
// questions and log messages belong to.
func (r *requests) callsAt(l *upstream.Lease) (calls, prefetches []*upstreamCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		switch {
		case c.lease.Lease != l:
		case c.fetch != nil:
			prefetches = append(prefetches, c)
		default:
			calls = append(calls, c)
		}
	}
	return calls, prefetches
}

// onlyAt returns the request with the only call at l, or with any of them if all belong to one plan.
// It returns nil if there are none or several.
func (r *requests) onlyAt(l *upstream.Lease) *request {
	calls, _ := r.callsAt(l)
	if len(calls) == 0 || slices.ContainsFunc(calls[1:], func(c *upstreamCall) bool { return !c.step().samePlan(calls[0].step()) }) {
		return nil
	}
	return calls[0].request
}
