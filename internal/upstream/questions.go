package upstream

import (
	"context"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// Over HTTP each answer to a server is a POST, and a server may ask, or ping, faster than
// it takes them.
const (
	mostQuestions = 64               // of one server may be open at once, those included of which the answer is on its way
	mostReplies   = 96               // likewise, before one of the proxy's own is dropped
	replyTime     = 30 * time.Second // for one of the proxy's own to be taken
)

// questions is the table of the server's requests over one connection that have no
// answer yet.
type questions struct {
	c *conn

	mu     sync.Mutex
	closed bool
	open   map[string]question // raw id of the server's → the question
	sent   int                 // answers that the server has not taken so far
}

type question struct {
	cancel context.CancelFunc
	after  int64 // the id of our last request before it came: later ones have nothing to do with it
}

// take answers a request of the server on a goroutine of its own. p is our request
// on the stream of which it came, nil if there is none.
func (q *questions) take(m jsonrpc.Message, p *pending) {
	if m.Method == "ping" {
		q.reply(jsonrpc.AppendResult(nil, m.ID, []byte("{}")))
		return
	}
	var ask askFunc
	if p != nil && p.req.Ask != nil {
		ask = p.req.Ask
	} else {
		ask = q.c.in.asker(q.c, p, m.Method)
	}
	ctx, cancel := context.WithCancel(context.Background())
	switch known, full := q.add(string(m.ID), cancel); {
	case known: // a refusal would answer the first
		q.c.in.up.counts.unanswered.Add(1)
	case full:
		err := &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "too many open requests to the client"}
		q.reply(jsonrpc.AppendError(nil, m.ID, err.Append(nil)))
	default:
		q.c.spawn(func() {
			q.answer(ctx, m, ask)
			cancel()
		})
		return
	}
	cancel()
}

// answer finds out the answer to a question and sends it; one that was withdrawn wants
// none.
func (q *questions) answer(ctx context.Context, m jsonrpc.Message, ask askFunc) {
	result, err := ask(ctx, m.Method, m.Params)
	q.mu.Lock()
	delete(q.open, string(m.ID))
	q.sent++
	q.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		q.taken()
	case err != nil:
		q.send(context.Background(), jsonrpc.AppendError(nil, m.ID, err.Append(nil)), q.taken)
	default:
		q.send(context.Background(), jsonrpc.AppendResult(nil, m.ID, result), q.taken)
	}
}

// add notes a question, unless there is one of that id or there are too many.
func (q *questions) add(id string, cancel context.CancelFunc) (known, full bool) {
	after := q.c.requests.lastID()
	q.mu.Lock()
	defer q.mu.Unlock()
	_, known = q.open[id]
	full = len(q.open)+q.sent >= mostQuestions || q.closed
	if !known && !full {
		if q.open == nil {
			q.open = make(map[string]question)
		}
		q.open[id] = question{cancel, after}
	}
	return known, full
}

// reply sends an answer of the proxy's own, unless the server has not taken too many.
func (q *questions) reply(line []byte) {
	q.mu.Lock()
	full := len(q.open)+q.sent >= mostReplies
	if !full {
		q.sent++
	}
	q.mu.Unlock()
	if full {
		q.c.in.up.counts.unanswered.Add(1)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), replyTime)
	q.send(ctx, line, func() {
		cancel()
		q.taken()
	})
}

// send sends an answer; taken is called when the server has taken it, or will not.
func (q *questions) send(ctx context.Context, line []byte, taken func()) {
	if err := q.c.link.send(ctx, outgoing{line: line, taken: taken}); err != nil {
		taken()
		q.c.in.up.log.Debug("answer not sent", "upstream", q.c.in.up.spec.Name, "err", err)
	}
}

func (q *questions) taken() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent--
}

// withdraw ends a question; false if there is none of that id.
func (q *questions) withdraw(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	open, ok := q.open[id]
	if ok {
		open.cancel()
	}
	return ok
}

// mayConcern reports whether the server waits for the answer to a question that it
// may have asked because of our request of that id.
func (q *questions) mayConcern(request int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, open := range q.open {
		if request <= open.after {
			return true
		}
	}
	return false
}

// close ends all questions, after which there are no others.
func (q *questions) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, open := range q.open {
		open.cancel()
	}
}
