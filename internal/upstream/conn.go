package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

const (
	invalidLogged = 5   // warnings per connection about invalid messages; further ones are logged at debug level
	invalidShown  = 200 // bytes of an invalid message shown in the log
)

var (
	// errClosed means that the connection ended before the request was sent.
	errClosed = errors.New("connection closed")
	// errEnded means that the connection ended after the request was sent.
	errEnded = errors.New("connection ended before the answer")
	// ErrTimeout means that Request.Timeout passed without an answer.
	ErrTimeout = errors.New("no answer within the timeout")
)

// A link carries whole JSON-RPC messages to and from one server: over a process's pipes,
// streamable HTTP, or HTTP+SSE. It does not interpret messages. It passes each message it reads
// to its [conn] on goroutines of its own. Its last call is conn.closed.
type link interface {
	// send sends one message. It waits neither for the answer nor for a server that does not
	// read. When ctx ends, the answer is no longer needed. An error means that the message
	// certainly did not reach the server.
	send(ctx context.Context, m outgoing) error
	// close closes the link and returns when its goroutines have ended.
	close()
}

// outgoing is one message to a server.
type outgoing struct {
	line     []byte       // the message without a line end; not modified or reused after send
	done     func()       // called once after send succeeded, when the message was delivered or dropped; may be nil
	id       int64        // the request id; 0 for a notification or a response
	isolated bool         // Request.Isolated
	fence    func() error // Request.Fence
	header   http.Header  // Mcp-Method, Mcp-Name and Mcp-Param-* headers; nil unless 2026-07-28 over HTTP
}

// conn is one connection of an instance to its server. Its message method routes incoming
// messages: an answer to its request, a request of the server to questions, anything else to the
// instance. It has more than 25 methods because links, requests and the handshake share it; the
// state of each is a part with its own mutex.
type conn struct {
	in      *instance
	link    link
	http    bool                   // requests have headers, and a stateless request is cancelled by closing its stream
	done    chan struct{}          // closed when the link has ended
	version atomic.Pointer[string] // negotiated revision; nil during the handshake
	invalid atomic.Int64           // number of lines or events that were not valid messages
	served  atomic.Bool            // a client's request was answered

	requests  *requests
	questions questions
	listening listenRequest

	mu    sync.Mutex
	err   error          // why the link ended; set before done is closed
	level string         // the log level sent last; empty if none
	work  sync.WaitGroup // the connection's goroutines, started with mu held
}

// newConn returns a connection. Its link must be set before it receives messages.
func newConn(in *instance) *conn {
	c := &conn{in: in, done: make(chan struct{}), requests: newRequests()}
	c.questions.c, c.questions.open = c, make(map[string]context.CancelFunc)
	return c
}

// ended reports whether the connection has ended.
func (c *conn) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// spawn runs f on a goroutine that close waits for. It returns false if the connection has ended.
func (c *conn) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.work.Go(f)
	return true
}

// revision returns the negotiated revision, or "" during the handshake.
func (c *conn) revision() string {
	if v := c.version.Load(); v != nil {
		return *v
	}
	return ""
}

func (c *conn) stateless() bool { return revision.Stateless(c.revision()) }

// setRevision sets the revision for all later messages.
func (c *conn) setRevision(version string) { c.version.Store(&version) }

// receive parses and handles the messages of a line or an event from the link, which name no
// request of ours. data must not contain line ends. buffer holds it, or is nil.
func (c *conn) receive(data []byte, buffer *jsonrpc.Buffer) {
	if bytes.HasPrefix(data, []byte("[")) {
		buffer = nil // the messages of a batch share its memory
	}
	for raw := range messages(data) {
		m, err := c.parse(raw)
		if err != nil {
			c.unreadable(m.ID, raw, err)
			continue
		}
		m.Buffer = buffer
		c.message(m, 0)
	}
}

// messages yields the messages in a line, an event or a body: the elements of a batch, which
// revision 2025-03-26 has, or data itself. In a batch, invalid UTF-8 is replaced by U+FFFD.
func messages(data []byte) iter.Seq[[]byte] {
	if bytes.HasPrefix(data, []byte("[")) {
		batch := data
		if repaired := jsonrpc.Repair(data); repaired != nil {
			batch = repaired
		}
		if jsonrpc.Valid(batch) {
			return jsonrpc.Elements(batch)
		}
	}
	return func(yield func([]byte) bool) { yield(data) }
}

// parse parses a message from the server. Invalid UTF-8 is replaced by U+FFFD, as most clients
// do, rather than losing the whole answer.
func (c *conn) parse(raw []byte) (jsonrpc.Message, error) {
	m, err := jsonrpc.Parse(raw)
	if err == nil {
		return m, nil
	}
	if repaired := jsonrpc.Repair(raw); repaired != nil && jsonrpc.Valid(repaired) {
		c.in.up.log.Debug("upstream sent invalid UTF-8: it is replaced by U+FFFD", "upstream", c.in.up.spec.Name)
		return jsonrpc.Parse(repaired)
	}
	return m, err
}

// unreadable handles a message that cannot be read. It logs it, and fails the request that it was
// meant to answer, if there is one: an answer has a result or an error, and a request of the
// server, whose ids are independent of ours, has a method before its params. id is the raw id in
// the message, nil if not found, and head is its beginning.
func (c *conn) unreadable(id, head []byte, err error) {
	c.logInvalid(head, err)
	answered, idErr := strconv.ParseInt(string(id), 10, 64)
	before, _, hasResult := bytes.Cut(head, []byte(`"result"`))
	if !hasResult {
		before, _, hasResult = bytes.Cut(head, []byte(`"error"`))
	}
	if idErr == nil && hasResult && !bytes.Contains(before, []byte(`"method"`)) {
		c.failRequest(answered, fmt.Errorf("its answer cannot be read: %w", err))
	}
}

// logInvalid logs input that is not a valid message.
func (c *conn) logInvalid(head []byte, err error) {
	c.in.change(func(s *state) { s.garbled = true })
	level := slog.LevelWarn
	if c.invalid.Add(1) > invalidLogged {
		level = slog.LevelDebug
	}
	up := c.in.up
	up.log.Log(context.Background(), level, "upstream sent something that is not an MCP message", "upstream", up.spec.Name, "err", err, "head", up.mask.Head(head, invalidShown))
}

// message handles one message from the link.
func (c *conn) message(m jsonrpc.Message, stream int64) {
	switch {
	case m.IsResponse():
		c.response(m)
	case m.IsRequest():
		c.questions.accept(m, c.requests.find(stream))
	case m.Method == "notifications/progress":
		c.progress(m.Params)
	case m.Method == "notifications/cancelled":
		c.cancelled(m.Params)
	default:
		c.notification(c.requests.find(stream), m.Method, m.Params)
	}
}

func (c *conn) response(m jsonrpc.Message) {
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	p := c.requests.remove(id)
	switch {
	case p != nil:
	case err != nil || id <= 0 || id > c.requests.lastID():
		c.logInvalid(m.Raw, errors.New("answer to an unknown request"))
		return
	default:
		c.requests.lateAnswer(id)
		return
	}
	if m.Error == nil && m.Result[0] != '{' {
		err = fmt.Errorf("%s: the result is not an object", p.req.Method)
	}
	p.finish(m, err)
}

// progress passes a progress notification to the request whose id is its token.
func (c *conn) progress(params []byte) {
	id, err := strconv.ParseInt(string(jsonrpc.Get(params, "progressToken")), 10, 64)
	if err != nil {
		return
	}
	p := c.requests.find(id)
	if p == nil {
		return // progress after the answer violates the specification
	}
	if p.timer != nil {
		p.timer.Reset(p.req.Timeout)
	}
	if p.req.Notify != nil {
		p.req.Notify("notifications/progress", params)
	}
}

// cancelled handles a cancellation from the server: of a request of its own, or, in the stateless
// era, of our listen request.
func (c *conn) cancelled(params []byte) {
	id := string(jsonrpc.Get(params, "requestId"))
	if c.questions.cancel(id) {
		return
	}
	if n, err := strconv.ParseInt(id, 10, 64); err == nil {
		if p := c.requests.find(n); p != nil && p.req.Method == "subscriptions/listen" {
			c.failRequest(n, errors.New("ended by the server"))
		}
	}
}

// failRequest fails a request that will not be answered.
func (c *conn) failRequest(id int64, err error) {
	if p := c.requests.remove(id); p != nil {
		if c.http && !neverRun(err) {
			c.requests.noteUnfinished(c.in.up.writeSettle())
		}
		p.finish(jsonrpc.Message{}, err)
	} else if !c.http {
		c.requests.lateAnswer(id) // its answer arrived but cannot be parsed
	}
}

// notify sends a notification if the connection is open.
func (c *conn) notify(method string, params []byte) {
	line := jsonrpc.AppendNotification(nil, method, params)
	if err := c.link.send(context.Background(), outgoing{line: line}); err != nil {
		c.in.up.log.Debug("notification not sent", "upstream", c.in.up.spec.Name, "method", method, "err", err)
	}
}

// gap records that notifications may have been missed, so any list may have changed.
func (c *conn) gap() {
	c.in.up.o.Invalidated("gap")
	for l := range Lists {
		c.in.markStale(l)
	}
}

// closed ends the connection and fails all pending requests. The link calls it once, last.
func (c *conn) closed(err error) {
	if err == nil {
		err = errEnded
	}
	c.in.noteInvalidated("exit")
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	waiting := c.requests.close()
	c.questions.close()
	close(c.done) // before the requests fail, because they read stderr
	for _, p := range waiting {
		// %v, not %w: err may mean "not run", and these requests may have run.
		p.finish(jsonrpc.Message{}, fmt.Errorf("%w: %v", errEnded, err))
	}
}

// close closes the connection and returns when its goroutines have ended.
func (c *conn) close() {
	c.link.close()
	<-c.done
	c.work.Wait()
}

// stderr returns the last lines of the process's stderr, or nil for a server over HTTP.
func (c *conn) stderr() []string {
	if p, ok := c.link.(*process); ok {
		return p.tail.list(c.in.up.mask)
	}
	return nil
}
