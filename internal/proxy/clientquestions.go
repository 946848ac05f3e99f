package proxy

import (
	"context"
	"log/slog"
	"strconv"
	"sync"

	"mcpschedd/internal/jsonrpc"
)

// clientQuestions are the requests that the proxy makes of one client of the handshake
// era, on behalf of servers. It owns their ids and the way of each answer to the server
// that waits for it.
type clientQuestions struct {
	log          *slog.Logger
	out          outlet          // the session's own stream; nil: it has none
	capabilities func() []byte   // of the client, as it last declared them
	ended        <-chan struct{} // closed when the session ends
	ready        chan struct{}   // closed once the client takes requests and notifications
	readyOnce    sync.Once

	mu      sync.Mutex
	asked   int                   // so far
	replies map[string]chan reply // raw id of an open request → its answer; capacity 1
}

// reply is the client's answer to a question, or why there is none.
type reply struct {
	result []byte
	err    *jsonrpc.Error
}

var (
	errQuestionWithdrawn = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "withdrawn"}
	errClientGone        = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: errSessionEnded.Error()}
)

func cannotBeAsked(what string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the client cannot be asked: " + what}
}

func cannotBeReached(why string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the client cannot be reached" + why}
}

// capable reports whether a client with such capabilities can be asked by that method.
func capable(capabilities []byte, method string) bool {
	needed := map[string]string{"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}[method]
	return needed == "" || jsonrpc.Get(capabilities, needed) != nil
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

// askAll makes requests of the client, all at once, and returns the answers in their
// order.
func (c *clientQuestions) askAll(ctx context.Context, to outlet, questions []*question) ([][]byte, *jsonrpc.Error) {
	var all sync.WaitGroup
	replies := make([]reply, len(questions))
	for i, q := range questions {
		all.Go(func() { replies[i].result, replies[i].err = c.ask(ctx, to, q.method, q.params) })
	}
	all.Wait()
	answers := make([][]byte, len(questions))
	for i, r := range replies {
		if r.err != nil {
			return nil, r.err
		}
		answers[i] = r.result
	}
	return answers, nil
}

// ask makes a request of the client, once that is ready, and waits for its answer. The
// request goes out on to, the stream of the client's request that it belongs to, or,
// where to is nil, on the session's own.
func (c *clientQuestions) ask(ctx context.Context, to outlet, method string, params []byte) ([]byte, *jsonrpc.Error) {
	select {
	case <-c.ready:
	case <-ctx.Done():
		return nil, errQuestionWithdrawn
	case <-c.ended:
		return nil, errClientGone
	}
	if !capable(c.capabilities(), method) {
		return nil, cannotBeAsked(method)
	}
	id, answer := c.open()
	defer c.close(id)
	to, err := c.send(to, jsonrpc.AppendRequest(nil, []byte(id), method, params))
	if err != nil {
		return nil, err
	}
	select {
	case r := <-answer:
		return r.result, r.err
	case <-ctx.Done(): // the server withdrew it, or is gone
		params := append(append([]byte(`{"requestId":`), id...), '}')
		if err := to.Send(jsonrpc.AppendNotification(nil, "notifications/cancelled", params)); err != nil {
			c.log.Debug("cancellation not delivered", "method", method, "err", err)
		}
		return nil, errQuestionWithdrawn
	case <-c.ended:
		return nil, errClientGone
	}
}

// send writes a request to the stream to, or to the session's own where that is nil or
// has just ended with the answer to its request. It returns the stream that took it.
func (c *clientQuestions) send(to outlet, request []byte) (outlet, *jsonrpc.Error) {
	if to == nil {
		to = c.out
	}
	if to == nil {
		return nil, cannotBeReached("")
	}
	err := to.Send(request)
	if err != nil && c.out != nil && to != c.out {
		to = c.out
		err = to.Send(request)
	}
	if err != nil {
		return nil, cannotBeReached(": " + err.Error())
	}
	return to, nil
}

// open returns the raw id of a new request, and where its answer will come.
func (c *clientQuestions) open() (id string, answer chan reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	id, answer = `"mcpschedd-`+strconv.Itoa(c.asked)+`"`, make(chan reply, 1)
	if c.replies == nil {
		c.replies = make(map[string]chan reply)
	}
	c.replies[id] = answer
	return id, answer
}

// close makes an answer to the request unwanted, and returns where it would have come; nil
// where none is wanted any more.
func (c *clientQuestions) close(id string) chan reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := c.replies[id]
	delete(c.replies, id)
	return answer
}

// answered takes the client's answer to a request of ours.
func (c *clientQuestions) answered(m jsonrpc.Message) {
	answer := c.close(string(m.ID))
	switch {
	case answer == nil || m.Error == nil && m.Result == nil:
		c.log.Debug("answer to a request that is not open", "id", string(m.ID))
	case m.Error != nil:
		answer <- reply{err: &jsonrpc.Error{Code: code(m.Error), Message: message(m.Error), Data: jsonrpc.Get(m.Error, "data")}}
	default:
		answer <- reply{result: m.Result}
	}
}

// awaits reports whether an answer with that raw id is wanted.
func (c *clientQuestions) awaits(id []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replies[string(id)] != nil
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
