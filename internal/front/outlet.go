package front

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

const (
	// ioTimeout is the time limit of one write on a client's connection. A call may take longer, but
	// an unresponsive peer may not.
	ioTimeout = 30 * time.Second
	chunk     = 1 << 20 // bytes written under one deadline
	// maxUnread is the number of queued bytes above which a client without an open stream is
	// sent nothing more.
	maxUnread = 1 << 20
	// keepAlive is the interval of comments on a silent stream. It is shorter than the idle
	// timeouts of proxies and clients.
	keepAlive = 15 * time.Second
)

var (
	errAnswered    = errors.New("the request has been answered")
	errStreamEnded = errors.New("stream ended")
	errNotReading  = errors.New("the client does not read")
)

// queue is an outlet that holds messages until a stream to the client writes them.
// Send never blocks on the client: the reader goroutine of a server that other
// clients share calls it. The zero value is an empty queue.
type queue struct {
	mu     sync.Mutex
	lines  [][]byte
	size   int           // bytes of lines
	closed bool          // no more messages are accepted; the queued ones may still be written
	wake   chan struct{} // notifies the open stream of changes; capacity 1; nil if no stream is open
}

// Send appends a message, or returns an error if the queue is full or closed.
// Requests and responses are never dropped while a stream is open: one side waits
// for each.
func (q *queue) Send(line []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return errStreamEnded
	case q.wake == nil && q.size > maxUnread, q.size > backlog && jsonrpc.Get(line, "id") == nil:
		return errNotReading
	}
	q.lines = append(q.lines, line)
	q.size += len(line)
	q.wakeLocked()
	return nil
}

// Answer appends a copy of a response.
func (q *queue) Answer(line []byte) error { return q.Send(bytes.Clone(line)) }

// Connected reports whether a stream is open, and has not failed.
func (q *queue) Connected() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.wake != nil && !q.closed
}

// wakeLocked notifies the open stream, if any, that the queue has changed.
func (q *queue) wakeLocked() {
	select {
	case q.wake <- struct{}{}:
	default: // it has been notified already
	}
}

// close stops accepting messages. An open stream ends when it has written the rest.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wakeLocked()
}

// full reports whether more than backlog bytes are queued.
func (q *queue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size > backlog
}

// open ends the present stream, if any, and returns the wake channel of the next one.
func (q *queue) open() chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakeLocked()
	q.wake = make(chan struct{}, 1)
	return q.wake
}

// leave ends a stream.
func (q *queue) leave(wake chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.wake == wake {
		q.wake = nil
	}
}

// next removes and returns the first message, or nil if there is none for the stream. ended
// reports that the stream ends: another one was opened, or the queue is closed and empty.
func (q *queue) next(wake chan struct{}) (line []byte, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.wake != wake:
		return nil, true
	case len(q.lines) == 0:
		return nil, q.closed
	}
	line, q.lines[0] = q.lines[0], nil
	q.lines = q.lines[1:]
	q.size -= len(line)
	return line, false
}

// pump writes messages to the stream of events that wake was opened for, until the queue is
// closed and empty, disconnected is closed or another stream takes over, and returns nil then.
// It returns the error of a write.
func (q *queue) pump(w http.ResponseWriter, wake chan struct{}, disconnected <-chan struct{}) error {
	defer q.leave(wake)
	for {
		line, ended := q.next(wake)
		if line != nil {
			if err := writeEvent(w, "message", line); err != nil {
				return err
			}
			continue
		}
		if err := flush(w); err != nil || ended {
			return err
		}
		select {
		case <-wake:
		case <-time.After(keepAlive):
			renew(w)
			if _, err := io.WriteString(w, ":\n\n"); err != nil { // a comment, which clients ignore
				return err
			}
		case <-disconnected:
			return nil
		}
	}
}

// response is the outlet of one POST with a request or a batch. It becomes an event stream with
// the first message that is sent before the response; a response without one is sent as a JSON
// body.
type response struct {
	w         http.ResponseWriter
	log       *slog.Logger
	id        []byte // raw id of the request; nil for a batch
	stateless bool   // some errors have an HTTP status of their own
	named     bool   // calls a tool or a prompt: the method exists, whatever the server answers

	mu     sync.Mutex
	closed bool   // answered, or the handler is returning: no more messages are accepted
	stream *queue // nil until the response becomes a stream
	pumped sync.WaitGroup
}

func (r *response) Send(line []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errAnswered
	}
	if r.stream == nil {
		r.stream = new(queue)
		wake := r.stream.open() // already, as a queue without a stream refuses large messages
		r.pumped.Go(func() { r.pump(wake) })
	}
	return r.stream.Send(line)
}

// Connected reports whether the response has become a stream that is still written.
func (r *response) Connected() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stream != nil && r.stream.Connected()
}

// pump writes the stream until it is closed or the client disconnects.
func (r *response) pump(wake chan struct{}) {
	err := openEvents(r.w)
	if err == nil {
		err = r.stream.pump(r.w, wake, nil)
	}
	if err != nil {
		r.stream.close()
		r.log.Debug("client stream broken", "err", err)
	}
}

func (r *response) Answer(line []byte) error {
	if r.id == nil { // other responses of the batch may follow
		return r.Send(bytes.Clone(line))
	}
	r.mu.Lock()
	answered := r.closed
	r.closed = true
	if r.stream != nil && !answered {
		defer r.mu.Unlock() // until the queue has the response, finish must not close it
		return r.stream.Answer(line)
	}
	r.mu.Unlock()
	if answered {
		return errAnswered
	}
	return writeJSON(r.w, r.status(line), line)
}

// finish closes the response and returns when all writes to it have ended. A cancelled
// request gets an empty event stream, a batch without responses 202 Accepted.
func (r *response) finish() {
	r.mu.Lock()
	answered, stream := r.closed, r.stream
	r.closed = true
	r.mu.Unlock()
	switch {
	case stream != nil:
		stream.close()
		r.pumped.Wait()
	case answered:
	case r.id == nil:
		writeStatus(r.w, http.StatusAccepted)
	default:
		if err := openEvents(r.w); err != nil {
			r.log.Debug("answer not delivered", "err", err)
		}
	}
}

// status returns the HTTP status for a response.
func (r *response) status(line []byte) int {
	const head = len(`{"jsonrpc":"2.0","id":`)
	if !r.stateless || !bytes.HasPrefix(line[min(head+len(r.id), len(line)):], []byte(`,"error":`)) {
		return http.StatusOK
	}
	code, err := strconv.Atoi(string(jsonrpc.Get(jsonrpc.Get(line, "error"), "code")))
	switch {
	case err != nil:
	case code == jsonrpc.CodeMethodNotFound && !r.named: // clients take 404 for a missing endpoint
		return http.StatusNotFound
	case revision.Modern(code):
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// renew sets the deadline of the next write. Only a test's recorder has no deadlines.
func renew(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(ioTimeout))
}

// writeAll writes b in chunks, so that a client which reads slowly but steadily receives
// all of a large message.
func writeAll(w http.ResponseWriter, b []byte) error {
	for part := range slices.Chunk(b, chunk) {
		renew(w)
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// writeStatus writes a status without a body.
func writeStatus(w http.ResponseWriter, status int) {
	renew(w)
	w.WriteHeader(status)
}

// writeJSON writes a JSON body.
func writeJSON(w http.ResponseWriter, status int, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status) // sent together with the body
	return writeAll(w, body)
}

// refuse writes a JSON-RPC error. It ignores a failed write: the client has
// disconnected.
func refuse(w http.ResponseWriter, status int, id []byte, rpcErr *jsonrpc.Error) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	_ = writeJSON(w, status, jsonrpc.AppendError(nil, id, rpcErr.Append(nil)))
}

// openEvents sends the head of a stream of server-sent events.
func openEvents(w http.ResponseWriter) error {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // keeps nginx from buffering events
	w.WriteHeader(http.StatusOK)
	return flush(w)
}

// writeEvent writes an event without copying data. It may be buffered until flush is called.
func writeEvent(w http.ResponseWriter, kind string, data []byte) error {
	renew(w)
	if _, err := io.WriteString(w, "event: "+kind+"\ndata: "); err != nil {
		return err
	}
	if err := writeAll(w, data); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n\n")
	return err
}

func flush(w http.ResponseWriter) error {
	renew(w)
	return http.NewResponseController(w).Flush()
}
