package upstream

import (
	"context"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// Each reply over HTTP is a POST. A server may send requests and pings faster than it accepts the
// replies, so both are limited.
const (
	maxQuestions = 64               // requests of one connection without a delivered reply; further ones are dropped
	maxPings     = 96               // the limit for pings, which are answered even while requests wait for a person
	replyTimeout = 30 * time.Second // for delivering a reply
)

// questions is the table of the server's unanswered requests on one connection.
type questions struct {
	c *conn

	mu     sync.Mutex
	closed bool
	open   map[string]context.CancelFunc // raw id → cancels the request; until its reply is delivered
}

// accept answers a request of the server on a new goroutine. p is our request whose response
// stream carried it, or nil. It drops the request if there are too many, or one with the same id:
// an error response would answer that one.
func (q *questions) accept(m jsonrpc.Message, p *pending) {
	ask, limit := pong, maxPings
	if m.Method != "ping" {
		limit = maxQuestions
		if p != nil && p.req.Ask != nil {
			ask = p.req.Ask
		} else {
			ask = q.c.in.asker(q.c, p, m.Method)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	if !q.add(string(m.ID), cancel, limit) {
		cancel()
		q.c.in.up.counts.unanswered.Add(1)
		return
	}
	q.c.spawn(func() {
		defer cancel()
		q.answer(ctx, m, ask)
	})
}

// pong answers a ping.
func pong(context.Context, string, []byte) ([]byte, *jsonrpc.Error) { return []byte("{}"), nil }

// answer obtains the reply and sends it, unless the server has cancelled its request.
func (q *questions) answer(ctx context.Context, m jsonrpc.Message, ask askFunc) {
	result, rpcErr := ask(ctx, m.Method, m.Params)
	line := jsonrpc.AppendResult(nil, m.ID, result)
	if rpcErr != nil {
		line = jsonrpc.AppendError(nil, m.ID, rpcErr.Append(nil))
	}
	delivery, cancel := context.WithTimeout(context.Background(), replyTimeout)
	done := func() {
		cancel()
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.open, string(m.ID))
	}
	if ctx.Err() != nil || q.c.link.send(delivery, outgoing{line: line, done: done}) != nil {
		done()
	}
}

// add registers a request. It returns false if the id is in use or limit is reached.
func (q *questions) add(id string, cancel context.CancelFunc, limit int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open[id] != nil || q.closed || len(q.open) >= limit {
		return false
	}
	q.open[id] = cancel
	return true
}

// cancel cancels a request of the server. It returns false if there is none with this id.
func (q *questions) cancel(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	cancel := q.open[id]
	if cancel != nil {
		cancel()
	}
	return cancel != nil
}

// waiting reports whether the server is waiting for a reply.
func (q *questions) waiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.open) > 0
}

// close cancels all requests of the server and drops later ones.
func (q *questions) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, cancel := range q.open {
		cancel()
	}
}
