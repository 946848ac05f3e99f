package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

const (
	garbageLogged = 5   // warnings of one connection about what is no message; the rest would drown what matters
	garbageShown  = 200 // bytes of each in the log
)

var (
	// errClosed: the connection ended before the request was sent.
	errClosed = errors.New("connection closed")
	// errEnded: the connection ended while the request was with the server.
	errEnded = errors.New("connection ended before the answer")
	// ErrTimeout: the request's own timeout passed without an answer.
	ErrTimeout = errors.New("no answer within the timeout")
)

// conn is one live connection of an instance to its server. Its message method sorts
// what the server sends: an answer goes to its request, a question of the server to
// questions, anything else to the instance. It has more than 25 methods because links, requests
// and the handshake all meet here; what each of them keeps is a part with a mutex of its own.
type conn struct {
	in      *instance
	link    link
	http    bool                   // over HTTP: headers, and a stateless request is cancelled by dropping its stream
	done    chan struct{}          // closed once the link has ended
	version atomic.Pointer[string] // negotiated revision; nil during the handshake
	garbled atomic.Int64           // lines or events that were no message
	served  atomic.Bool            // a client's request has been answered

	requests  *requests
	questions questions
	level     sentLevel
	listening listening

	mu   sync.Mutex
	err  error          // why the link ended; set before done closes
	work sync.WaitGroup // the connection's own goroutines, started under mu
}

// newConn makes a connection; its link is set before it reads.
func newConn(in *instance) *conn {
	c := &conn{in: in, done: make(chan struct{}), requests: newRequests()}
	c.questions.c, c.questions.open = c, make(map[string]question)
	c.listening.c = c
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

// spawn runs f on a goroutine that close waits for; false if the connection
// has ended.
func (c *conn) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.work.Go(f)
	return true
}

// revision returns the negotiated revision, "" during the handshake.
func (c *conn) revision() string {
	if v := c.version.Load(); v != nil {
		return *v
	}
	return ""
}

func (c *conn) stateless() bool { return revision.Stateless(c.revision()) }

// setRevision sets the revision of all later messages.
func (c *conn) setRevision(version string) { c.version.Store(&version) }

// message takes one message from the link. stream is the id of the request on the
// response stream of which it came, 0 where the transport does not tell.
func (c *conn) message(m jsonrpc.Message, stream int64) {
	switch {
	case m.IsResponse():
		c.response(m)
	case m.IsRequest():
		c.questions.take(m, c.requests.find(stream))
	case m.Method == "notifications/progress":
		c.progress(m.Params)
	case m.Method == "notifications/cancelled":
		c.withdrawn(m.Params)
	default:
		c.notification(c.requests.find(stream), m.Method, m.Params)
	}
}

func (c *conn) response(m jsonrpc.Message) {
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	p := c.requests.take(id, 0)
	switch {
	case p != nil:
	case err != nil || id <= 0 || id > c.requests.lastID():
		c.garbage(m.Raw, errors.New("answer to a request that was never made"))
		return
	default:
		c.requests.late(id)
		return
	}
	if m.Error == nil && m.Result[0] != '{' {
		err = fmt.Errorf("%s: the result is no object", p.req.Method)
	}
	p.finish(m, err)
}

// progress passes a progress notification to the request that has its token as its id.
func (c *conn) progress(params []byte) {
	id, err := strconv.ParseInt(string(jsonrpc.Get(params, "progressToken")), 10, 64)
	if err != nil {
		return
	}
	p := c.requests.find(id)
	if p == nil {
		return // after its answer: the specification forbids it
	}
	if p.timer != nil {
		p.timer.Reset(p.req.Timeout)
	}
	if p.req.Notify != nil {
		p.req.Notify("notifications/progress", params)
	}
}

// withdrawn ends a question that the server no longer wants answered, or, in the
// stateless era, our listen request.
func (c *conn) withdrawn(params []byte) {
	id := string(jsonrpc.Get(params, "requestId"))
	if c.questions.withdraw(id) {
		return
	}
	if n, err := strconv.ParseInt(id, 10, 64); err == nil {
		if p := c.requests.find(n); p != nil && p.req.Method == "subscriptions/listen" {
			c.lost(n, errors.New("ended by the server"))
		}
	}
}

// lost ends a request that will not be answered.
func (c *conn) lost(id int64, err error) {
	var goesOn time.Duration
	if c.http && !neverRun(err) {
		goesOn = c.in.up.writeSettle()
	}
	if p := c.requests.take(id, goesOn); p != nil {
		p.finish(jsonrpc.Message{}, err)
	} else if !c.http {
		c.requests.late(id) // its answer came, and cannot be read
	}
}

// garbage logs what was no message.
func (c *conn) garbage(head []byte, err error) {
	c.in.status.change(func(s *state) { s.garbled = true })
	level := slog.LevelWarn
	if c.garbled.Add(1) > garbageLogged {
		level = slog.LevelDebug
	}
	up := c.in.up
	up.log.Log(context.Background(), level, "upstream sent something that is no MCP message", "upstream", up.spec.Name, "err", err, "head", up.mask.Head(head, garbageShown))
}

// gap notes that notifications may have been missed, so that every list may have changed.
func (c *conn) gap() {
	c.in.up.o.Invalidated("gap")
	for l := range Lists {
		c.in.refresh(l)
	}
}

// closed ends the connection, once, when its link is of no more use. It answers whatever
// still waits, which the server will not.
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
	close(c.done) // first: a request that fails asks for the last lines on stderr
	for _, p := range waiting {
		// Not wrapped: what ended the connection may say "not run", and these
		// may have been.
		p.finish(jsonrpc.Message{}, fmt.Errorf("%w: %v", errEnded, err))
	}
}

// close ends the connection and returns when nothing of it is left.
func (c *conn) close() {
	c.link.close()
	<-c.done
	c.work.Wait()
}

// stderr returns the last lines that the server's process wrote there.
func (c *conn) stderr() []string {
	if p, ok := c.link.(*process); ok {
		return p.last.list(c.in.up.mask)
	}
	return nil
}
