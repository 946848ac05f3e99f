package upstream

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// A link carries whole JSON-RPC messages to and from one server: over a process's pipes,
// streamable HTTP, or HTTP+SSE. It does not interpret messages. It passes each message it reads
// to its [conn] on goroutines of its own. Its last call is conn.closed.
type link interface {
	// send sends one message. It waits neither for the answer nor for a server that does not
	// read. When ctx ends, the answer is no longer needed. An error means that the message
	// certainly did not reach the server.
	send(ctx context.Context, m outgoing) error
	// close begins to close the link. It calls conn.closed when its goroutines have ended.
	close()
}

// outgoing is one message to a server.
type outgoing struct {
	line     []byte       // without a line end; not modified after send
	done     func()       // called once if send succeeds: over stdio by send, over HTTP when the exchange has ended; may be nil
	id       int64        // the request id; 0 for a notification or a response
	isolated bool         // Request.Isolated
	fence    func() error // Request.Fence
	header   http.Header  // Mcp-Method, Mcp-Name and Mcp-Param-* headers; nil unless 2026-07-28 over HTTP
}

// conn is one connection of an instance to its server. Its message method routes incoming
// messages: an answer to its request, a request of the server to questions, anything else to the
// instance. The state of each part has a mutex of its own.
type conn struct {
	in      *instance
	link    link
	http    bool            // requests have headers, and a stateless request is cancelled by closing its stream
	life    context.Context // done when the link has ended; its cause is the reason
	end     context.CancelCauseFunc
	version atomic.Value // revision of all later messages; a string, "" during the handshake
	invalid atomic.Int64 // number of lines or events that were not valid messages
	served  atomic.Bool  // a client's request was answered

	requests  requests
	questions questions
	listening listenRequest

	mu         sync.Mutex
	level      string          // the log level sent last; empty if none
	subscribed map[string]bool // resources that it was asked to report
	work       sync.WaitGroup  // the connection's goroutines, started with mu held
}

// newConn returns a connection. Its link must be set before it receives messages.
func newConn(in *instance) *conn {
	c := &conn{in: in, subscribed: make(map[string]bool)}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.requests.waiting, c.requests.late = make(map[int64]*pending), make(map[int64]func(jsonrpc.Message))
	c.requests.tasks, c.requests.unfinished = make(map[int64]func([]byte)), make(map[*Lease]time.Time)
	c.questions.c, c.questions.replies, c.questions.open = c, make(chan struct{}, maxReplies), make(map[string]question)
	return c
}

// spawn runs f on a goroutine that close waits for. It returns false if the connection has ended.
func (c *conn) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return false
	}
	c.work.Go(f)
	return true
}

// revision returns the negotiated revision, or "" during the handshake.
func (c *conn) revision() string {
	version, _ := c.version.Load().(string)
	return version
}

func (c *conn) stateless() bool { return revision.Stateless(c.revision()) }

// failRequest fails a request that will not be answered.
func (c *conn) failRequest(id int64, err error) {
	if p := c.requests.remove(id, false, c.http && !notRun(err)); p != nil {
		p.finish(jsonrpc.Message{}, err)
	} else if !c.http {
		c.requests.lateAnswer(id, jsonrpc.Message{}) // its answer arrived but cannot be parsed
	}
}

// notify sends a notification if the connection is open.
func (c *conn) notify(method string, params []byte) {
	line := jsonrpc.AppendNotification(nil, method, params)
	if err := c.link.send(context.Background(), outgoing{line: line}); err != nil {
		c.in.up.log.Debug("notification not sent", "method", method, "err", err)
	}
}

// noteGap records that notifications may have been missed, so any list may have changed.
func (c *conn) noteGap() {
	c.in.up.o.Invalidated("gap")
	for l := range Lists {
		c.in.markStale(l)
	}
}

// closed ends the connection and fails all pending requests. The link calls it once, last.
func (c *conn) closed(err error) {
	if err != errStopped || c.in.wrote.Load() { // else its session has ended, and has changed nothing
		c.in.noteInvalidated("exit")
	}
	waiting := c.requests.close()
	c.mu.Lock()
	c.end(err) // before the requests fail, because they read stderr
	c.mu.Unlock()
	for _, p := range waiting {
		// %v, not %w: err may mean "not run", and these requests may have run.
		p.finish(jsonrpc.Message{}, fmt.Errorf("%w: %v", errEnded, err))
	}
}

// awaitAnswers waits for the answers to the requests of sessions if the upstream has retired.
func (c *conn) awaitAnswers() {
	grace := time.Duration(c.in.up.retired.Load())
	if grace == 0 {
		return
	}
	select {
	case <-c.requests.lastAnswered():
	case <-c.life.Done():
	case <-c.in.up.o.StopFast:
	case <-time.After(grace):
	}
}

// close closes the connection and returns when its goroutines have ended.
func (c *conn) close() {
	c.link.close()
	<-c.life.Done()
	c.work.Wait()
}

// stderr returns the last lines of the process's stderr, or nil for a server over HTTP.
func (c *conn) stderr() []string {
	if p, ok := c.link.(*process); ok {
		return p.tail.list()
	}
	return nil
}

const (
	// maxLater is how many later requests are sent before a cancelled one, or one that started a task, is
	// forgotten.
	maxLater = 4096
	// defaultWriteSettle is the default of Options.WriteSettle.
	defaultWriteSettle = time.Minute
)

// requests is the table of one connection's requests: the ones without an answer, the most
// recently cancelled ones, which may still be answered, and those that continue as tasks. Each request is removed exactly once,
// and the remover reports its outcome.
type requests struct {
	mu         sync.Mutex
	newest     int64                           // the highest id so far
	waiting    map[int64]*pending              // nil once the connection has ended
	answered   chan struct{}                   // closed when no request of a session waits; nil unless its upstream has retired
	late       map[int64]func(jsonrpc.Message) // id of a cancelled request → its Request.Late
	tasks      map[int64]func(params []byte)   // id of an answered request → receives the progress of its task
	unfinished map[*Lease]time.Time            // until then a message may be about a request of the lease that was given up, or a task
}

// mayConcernOthers reports whether a message that names no request may concern another client than that of
// l: another session has a request in flight, or gave one up recently. In a multiplexed session that may
// have been another client.
func (r *requests) mayConcernOthers(l *Lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.waiting {
		if p.lease != nil && p.lease != l {
			return true
		}
	}
	for other, until := range r.unfinished {
		if (other != l || l.listener.Multiplexed) && time.Now().Before(until) {
			return true
		}
	}
	return false
}

// noteUnfinished records that for Options.WriteSettle the server may send messages about a request of l
// that is not pending.
func (r *requests) noteUnfinished(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteUnfinishedLocked(l)
}

func (r *requests) noteUnfinishedLocked(l *Lease) {
	now := time.Now()
	maps.DeleteFunc(r.unfinished, func(_ *Lease, until time.Time) bool { return !now.Before(until) })
	r.unfinished[l] = now.Add(l.in.up.writeSettle())
}

// addTask records that an answered request continues as a task, with the func that receives its
// progress.
func (r *requests) addTask(id int64, progress func(params []byte)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks[id] = progress
}

// task returns the func that receives the progress of a task, or nil if the request started none.
func (r *requests) task(id int64) func(params []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tasks[id]
}

// add assigns an id to a request and adds it to the table. It returns an error if the connection has
// ended, or accepts no requests of sessions any more.
func (r *requests) add(p *pending) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.waiting == nil:
		return errClosed
	case p.lease != nil && p.lease.in.up.retired.Load() > 0:
		return &unsentError{errReplaced}
	}
	r.newest++
	p.id = r.newest
	r.waiting[p.id] = p
	delete(r.late, p.id-maxLater)
	delete(r.tasks, p.id-maxLater)
	return nil
}

// find returns the pending request with this id, or nil.
func (r *requests) find(id int64) *pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[id]
}

// remove removes and returns the pending request with this id, or nil. If mayAnswer is true, its
// Request.Late is kept for an answer that still arrives. If unfinished is true, the server may still run it.
func (r *requests) remove(id int64, mayAnswer, unfinished bool) *pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.waiting[id]
	delete(r.waiting, id)
	if p != nil && mayAnswer && p.req.Late != nil {
		r.late[id] = p.req.Late
	}
	if p != nil && unfinished && p.lease != nil { // a request of the proxy itself concerns no client
		r.noteUnfinishedLocked(p.lease)
	}
	if p != nil && p.lease != nil && r.answered != nil {
		r.noteAnsweredLocked()
	}
	return p
}

// lastAnswered returns a channel that is closed when no request of a session waits. None may be added any more.
func (r *requests) lastAnswered() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered = make(chan struct{})
	r.noteAnsweredLocked()
	return r.answered
}

func (r *requests) noteAnsweredLocked() {
	for _, p := range r.waiting {
		if p.lease != nil {
			return
		}
	}
	close(r.answered)
}

// lateAnswer handles the answer to a request that is not pending. It returns false if there was
// no such request.
func (r *requests) lateAnswer(id int64, m jsonrpc.Message) (known bool) {
	r.mu.Lock()
	late, known := r.late[id], id > 0 && id <= r.newest
	delete(r.late, id)
	r.mu.Unlock()
	if late != nil {
		late(m)
	}
	return known
}

// close removes and returns all pending requests, and rejects later ones.
func (r *requests) close() (waiting map[int64]*pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting = r.waiting
	r.waiting = nil
	clear(r.late)
	clear(r.tasks)
	return waiting
}
