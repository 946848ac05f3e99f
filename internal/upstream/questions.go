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
	mostQuestions = 64               // of one server that it has no answer to, or has not taken the answer to; more get none
	mostReplies   = 96               // likewise with pings, which are answered beside questions that wait for a person
	replyTime     = 30 * time.Second // for an answer to be taken
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
	after  int64 // the id of our last request before it came: later ones have nothing to do with it; 0: it has to do with none
}

// take answers a request of the server on a goroutine of its own. p is our request
// on the stream of which it came, nil if there is none. It leaves the request unanswered
// if there are too many, or one of its id: a refusal would answer that one.
func (q *questions) take(m jsonrpc.Message, p *pending) {
	ask, after, most := pong, int64(0), mostReplies
	if m.Method != "ping" {
		after, most = q.c.requests.lastID(), mostQuestions
		if p != nil && p.req.Ask != nil {
			ask = p.req.Ask
		} else {
			ask = q.c.in.asker(q.c, p, m.Method)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	if !q.add(string(m.ID), question{cancel, after}, most) {
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

// answer finds out the answer to a question and sends it; one that was withdrawn wants
// none.
func (q *questions) answer(ctx context.Context, m jsonrpc.Message, ask askFunc) {
	result, bad := ask(ctx, m.Method, m.Params)
	q.mu.Lock()
	delete(q.open, string(m.ID))
	q.sent++
	q.mu.Unlock()
	if ctx.Err() != nil {
		q.taken()
		return
	}
	line := jsonrpc.AppendResult(nil, m.ID, result)
	if bad != nil {
		line = jsonrpc.AppendError(nil, m.ID, bad.Append(nil))
	}
	ctx, cancel := context.WithTimeout(context.Background(), replyTime)
	taken := func() {
		cancel()
		q.taken()
	}
	if err := q.c.link.send(ctx, outgoing{line: line, taken: taken}); err != nil {
		taken()
		q.c.in.up.log.Debug("answer not sent", "upstream", q.c.in.up.spec.Name, "err", err)
	}
}

// add notes a question, unless there is one of that id, or as many as there may be.
func (q *questions) add(id string, asked question, most int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, known := q.open[id]; known || q.closed || len(q.open)+q.sent >= most {
		return false
	}
	q.open[id] = asked
	return true
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
