package front

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// maxUnread is the number of queued bytes above which a client without an open
// stream is sent nothing more.
const maxUnread = 1 << 20

// keepAlive is the interval of comments on a silent stream. It is shorter than the
// idle timeouts of proxies and clients.
const keepAlive = 15 * time.Second

var (
	errStreamEnded = errors.New("stream ended")
	errNotReading  = errors.New("the client does not read")
)

// queue is an outlet that holds messages until a stream to the client writes them.
// Send never blocks on the client: the reader goroutine of a server that other
// clients share calls it.
type queue struct {
	wake chan struct{} // capacity 1; receives when there may be a new message

	mu      sync.Mutex
	lines   [][]byte
	size    int           // bytes of lines
	closed  bool          // no more messages are accepted; the queued ones may still be written
	pumping chan struct{} // closed when another stream takes over; nil if no stream is open
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// Send appends a message, or returns an error if the queue is full or closed.
// Requests and responses are never dropped while a stream is open: one side waits
// for each.
func (q *queue) Send(line []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return errStreamEnded
	case q.pumping == nil && q.size > maxUnread, q.size > backlog && jsonrpc.Get(line, "id") == nil:
		return errNotReading
	}
	q.lines = append(q.lines, line)
	q.size += len(line)
	q.signal()
	return nil
}

// Answer appends a copy of a response.
func (q *queue) Answer(line []byte) error { return q.Send(bytes.Clone(line)) }

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next removes and returns the first message, or nil if the queue is empty. ended
// reports that the queue is empty and closed.
func (q *queue) next() (line []byte, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		return nil, q.closed
	}
	line, q.lines[0] = q.lines[0], nil
	q.lines = q.lines[1:]
	q.size -= len(line)
	return line, false
}

// close stops accepting messages. An open stream ends when it has written the rest.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

// full reports whether more than backlog bytes are queued.
func (q *queue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size > backlog
}

// pump writes messages to a stream of events until the queue is closed and empty,
// disconnected is closed or another pump takes over, and returns nil then. It
// returns the error of a write.
func (q *queue) pump(w http.ResponseWriter, disconnected <-chan struct{}) error {
	replaced := q.takeOver()
	defer q.endPump(replaced)
	for {
		select {
		case <-replaced: // the other pump writes the rest
			return nil
		default:
		}
		line, ended := q.next()
		if line != nil {
			if err := writeEvent(w, "message", line); err != nil {
				return err
			}
			continue
		}
		if err := flush(w); ended || err != nil {
			return err
		}
		select {
		case <-q.wake:
		case <-time.After(keepAlive):
			renew(w)
			if _, err := io.WriteString(w, ":\n\n"); err != nil { // a comment, which clients ignore
				return err
			}
		case <-replaced:
			return nil
		case <-disconnected:
			return nil
		}
	}
}

// takeOver stops the current pump, if any, and registers the caller as the new one.
// The returned channel is closed when another pump takes over.
func (q *queue) takeOver() (replaced chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pumping != nil {
		close(q.pumping)
	}
	q.pumping = make(chan struct{})
	return q.pumping
}

// endPump unregisters a pump. It signals the next pump, since the old one may have
// consumed a wake-up.
func (q *queue) endPump(mine chan struct{}) {
	q.mu.Lock()
	if q.pumping == mine {
		q.pumping = nil
	}
	q.mu.Unlock()
	q.signal()
}
