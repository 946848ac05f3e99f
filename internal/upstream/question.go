package upstream

import (
	"context"
	"errors"
	"strconv"

	"mcpschedd/internal/jsonrpc"
)

// asksPerConn bounds how many questions of one server may be open at once.
const asksPerConn = 64

// asked is a question of the server without its answer.
type asked struct {
	cancel context.CancelFunc
	after  int64 // the last request sent before it came: later ones have nothing to do with it
}

// question answers a request of the server on a goroutine of its own.
func (c *conn) question(m jsonrpc.Message, stream int64) {
	if m.Method == "ping" {
		c.reply(m.ID, []byte("{}"), nil)
		return
	}
	ask := c.listener.Ask
	if p := c.peek(stream); p != nil && p.req.Ask != nil {
		ask = p.req.Ask
	}
	if ask == nil {
		c.reply(m.ID, nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no client to ask: " + m.Method})
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	id := string(m.ID)
	c.mu.Lock()
	full := len(c.asked) >= asksPerConn || c.err != nil
	if !full {
		c.asked[id] = asked{cancel, c.next.Load()}
	}
	c.mu.Unlock()
	if full {
		cancel()
		c.reply(m.ID, nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "too many open requests to the client"})
		return
	}
	c.spawn(func() {
		defer cancel()
		result, err := ask(ctx, m.Method, m.Params)
		c.mu.Lock()
		delete(c.asked, id)
		c.mu.Unlock()
		if ctx.Err() == nil { // a withdrawn question wants no answer
			c.reply(m.ID, result, err)
		}
	})
}

func (c *conn) reply(id, result []byte, err *jsonrpc.Error) {
	var line []byte
	if err != nil {
		line = jsonrpc.AppendError(nil, id, err.Append(nil))
	} else {
		line = jsonrpc.AppendResult(nil, id, result)
	}
	if err := c.link.send(context.Background(), outgoing{line: line}); err != nil {
		c.log.Debug("answer not sent", "upstream", c.name, "err", err)
	}
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
