package proxy

import (
	"context"
	"log/slog"
	"strconv"
	"sync"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
)

// clientQuestions are the requests that the proxy makes of one client of the handshake
// era, on behalf of servers. It owns their ids.
type clientQuestions struct {
	log          *slog.Logger
	out          front.Outlet    // the session's own stream; nil: it has none
	capabilities func() []byte   // of the client, as it last declared them
	ended        <-chan struct{} // closed when the session ends
	ready        chan struct{}   // closed once the client takes requests and notifications
	readyOnce    sync.Once

	mu    sync.Mutex
	asked int                  // so far
	open  map[string]*question // raw id → the question without an answer
}

// setReady notes that the client takes requests and notifications from now on.
func (c *clientQuestions) setReady() { c.readyOnce.Do(func() { close(c.ready) }) }

// isReady reports whether the client takes requests and notifications.
func (c *clientQuestions) isReady() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

// byRequest asks a client of the handshake era on the stream of one of its requests, or,
// where to is nil, on the session's own.
type byRequest struct {
	*clientQuestions
	to front.Outlet
}

// put makes a request of each question, once the client takes requests.
func (c byRequest) put(ctx context.Context, questions []*question) *jsonrpc.Error {
	select {
	case <-c.ready:
	case <-ctx.Done():
		return errQuestionWithdrawn
	case <-c.ended:
		return errClientGone
	}
	for _, q := range questions {
		if !capable(c.capabilities(), q.method) {
			return cannotBeAsked(q.method)
		}
		c.note(q)
		if err := c.send(jsonrpc.AppendRequest(nil, []byte(q.key), q.method, q.params)); err != nil {
			c.forget(q.key)
			return err
		}
	}
	return nil
}

// withdraw cancels those of the questions that are still open at the client.
func (c byRequest) withdraw(questions []*question) {
	for _, q := range questions {
		if c.forget(q.key) == nil {
			continue // it has been answered, or was never asked
		}
		select {
		case <-c.ended:
			return
		default:
		}
		params := []byte(`{"requestId":` + q.key + `}`)
		if err := c.send(jsonrpc.AppendNotification(nil, "notifications/cancelled", params)); err != nil {
			c.log.Debug("cancellation not delivered", "method", q.method, "err", err)
		}
	}
}

// send writes a message to the stream, or to the session's own where the stream has just
// ended with the answer to its request.
func (c byRequest) send(message []byte) *jsonrpc.Error {
	why := "it has no stream open"
	for _, to := range []front.Outlet{c.to, c.out} {
		if to == nil {
			continue
		}
		err := to.Send(message)
		if err == nil {
			return nil
		}
		why = err.Error()
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the client cannot be reached: " + why}
}

// note opens a question under a new id.
func (c *clientQuestions) note(q *question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	q.key = `"mcpschedd-` + strconv.Itoa(c.asked) + `"`
	if c.open == nil {
		c.open = make(map[string]*question)
	}
	c.open[q.key] = q
}

// forget closes the question with that raw id; nil: none is open.
func (c *clientQuestions) forget(id string) *question {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.open[id]
	delete(c.open, id)
	return q
}

// answered takes the client's answer to a question.
func (c *clientQuestions) answered(m jsonrpc.Message) {
	q := c.forget(string(m.ID))
	switch {
	case q == nil || m.Error == nil && m.Result == nil:
		c.log.Debug("answer to a request that is not open", "id", string(m.ID))
	case m.Error != nil:
		q.reply <- reply{err: &jsonrpc.Error{Code: code(m.Error), Message: message(m.Error), Data: jsonrpc.Get(m.Error, "data")}}
	default:
		q.reply <- reply{result: m.Result}
	}
}

// awaits reports whether an answer with that raw id is wanted.
func (c *clientQuestions) awaits(id []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[string(id)] != nil
}

func code(object []byte) int {
	n, err := strconv.Atoi(string(jsonrpc.Get(object, "code")))
	if err != nil {
		return jsonrpc.CodeInternal
	}
	return n
}

func message(object []byte) string {
	s, _ := jsonrpc.String(jsonrpc.Get(object, "message"))
	return s
}
