package upstream

import (
	"context"
	"errors"
	"strconv"

	"mcpschedd/internal/jsonrpc"
)

// asksPerConn bounds how many questions of one server may be open at once, those
// included whose answer is on its way.
const asksPerConn = 64

// asked is a question of the server without its answer.
type asked struct {
	cancel context.CancelFunc
	after  int64 // the last request sent before it came: later ones have nothing to do with it
}

// question answers a request of the server on a goroutine of its own.
func (c *conn) question(m jsonrpc.Message, stream int64) {
	if m.Method == "ping" {
		c.reply(jsonrpc.AppendResult(nil, m.ID, []byte("{}")))
		return
	}
	var ask askFunc
	if p := c.peek(stream); p != nil && p.req.Ask != nil {
		ask = p.req.Ask
	} else if c.unbound.asker != nil {
		ask = c.unbound.asker(p, m.Method)
	}
	if ask == nil {
		c.refuse(m.ID, jsonrpc.CodeMethodNotFound, "no client to ask: "+m.Method)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	id := string(m.ID)
	c.mu.Lock()
	_, twice := c.asked[id]
	full := len(c.asked)+c.replies.answers >= asksPerConn || c.err != nil
	if !full && !twice {
		c.asked[id] = asked{cancel, c.next.Load()}
	}
	c.mu.Unlock()
	switch {
	case twice: // a refusal would answer the first
		cancel()
		c.counts.unanswered.Add(1)
		return
	case full:
		cancel()
		c.refuse(m.ID, jsonrpc.CodeInternal, "too many open requests to the client")
		return
	}
	c.spawn(func() {
		defer cancel()
		result, err := ask(ctx, m.Method, m.Params)
		c.mu.Lock()
		delete(c.asked, id)
		c.replies.answers++
		c.mu.Unlock()
		switch {
		case ctx.Err() != nil: // a withdrawn question wants no answer
			c.answerTaken()
		case err != nil:
			c.answer(jsonrpc.AppendError(nil, m.ID, err.Append(nil)))
		default:
			c.answer(jsonrpc.AppendResult(nil, m.ID, result))
		}
	})
}

// withdraw ends a question that the server no longer wants answered, or, in
// the stateless era, our listen request.
func (c *conn) withdraw(params []byte) {
	id := string(jsonrpc.Get(params, "requestId"))
	c.mu.Lock()
	q, ok := c.asked[id]
	c.mu.Unlock()
	if ok {
		q.cancel()
		return
	}
	if n, err := strconv.ParseInt(id, 10, 64); err == nil {
		if p := c.peek(n); p != nil && p.req.Method == "subscriptions/listen" {
			c.lost(n, errors.New("ended by the server"))
		}
	}
}
