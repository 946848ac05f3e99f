package front

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// mostUnread is how many bytes may wait for a client that has no stream open before
// further notifications are dropped. Messages with an id are never dropped: an answer is
// waited for, by the client or from it.
const mostUnread = 1 << 20

// keepAlive is how long a stream may be silent: less than what proxies on the
// way, and clients, take for a dead connection.
const keepAlive = 15 * time.Second

var (
	errStreamEnded = errors.New("stream ended")
	errNotReading  = errors.New("the client does not read")
)

// queue is an outlet: its messages wait until a stream to the client takes
// them. Send never waits for the client: it is called by the reader of an
// upstream that may serve others too.
type queue struct {
	log  *slog.Logger
	wake chan struct{} // capacity 1: there may be something new to write

	mu       sync.Mutex
	lines    [][]byte
	size     int           // bytes of lines
	dropping bool          // notifications were dropped since a stream last took a message
	closed   bool          // nothing more is taken; what waits may still be written
	pumping  chan struct{} // closed when another stream takes over; nil: none is open
}

func newQueue(log *slog.Logger) *queue {
	return &queue{log: log, wake: make(chan struct{}, 1)}
}

// Send puts a message at the end, unless too much waits already.
func (q *queue) Send(line []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	note, read, most := jsonrpc.Get(line, "id") == nil, q.pumping != nil, backlog
	if note && !read {
		most = mostUnread
	}
	switch {
	case q.closed:
		return errStreamEnded
	case q.size > most && note:
		if !q.dropping {
			q.log.Warn("client reads too slowly: notifications are dropped", "waiting", len(q.lines))
		}
		q.dropping = true
		return errNotReading
	case q.size > most && !read:
		return errNotReading
	}
	q.lines = append(q.lines, line)
	q.size += len(line)
	q.signal()
	return nil
}

// Answer makes a queue an outlet for answers too.
func (q *queue) Answer(line []byte) error { return q.Send(bytes.Clone(line)) }

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next takes the first message; nil: there is none. ended says that none will come
// any more.
func (q *queue) next() (line []byte, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		return nil, q.closed
	}
	q.dropping = false
	line, q.lines[0] = q.lines[0], nil
	q.lines = q.lines[1:]
	q.size -= len(line)
	return line, false
}

// putBack returns a message that could not be written, for the next stream.
func (q *queue) putBack(line []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines = slices.Insert(q.lines, 0, line)
	q.size += len(line)
}

// close takes no more messages; a stream ends once it has written the rest.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

// full reports whether as many bytes wait as may.
func (q *queue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size > backlog
}

// pump writes messages to e until the queue has been closed and is empty
// (nil), gone is closed, another pump takes over (nil), or writing fails.
func (q *queue) pump(e events, gone <-chan struct{}) error {
	replaced := q.takeOver()
	defer q.release(replaced)
	for {
		select {
		case <-replaced: // what waits is for the other
			return nil
		default:
		}
		line, ended := q.next()
		if line != nil {
			if err := e.write("message", line); err != nil {
				q.putBack(line)
				return err
			}
			continue
		}
		if err := e.flush(); ended || err != nil {
			return err
		}
		select {
		case <-q.wake:
		case <-time.After(keepAlive):
			if err := e.comment(); err != nil {
				return err
			}
		case <-replaced:
			return nil
		case <-gone:
			return nil
		}
	}
}

// takeOver ends the pump there is, and returns what tells the new one of its own end.
func (q *queue) takeOver() (replaced chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pumping != nil {
		close(q.pumping)
	}
	q.pumping = make(chan struct{})
	return q.pumping
}

// release ends a pump's hold; a wake-up it may have taken goes to the next.
func (q *queue) release(mine chan struct{}) {
	q.mu.Lock()
	if q.pumping == mine {
		q.pumping = nil
	}
	q.mu.Unlock()
	q.signal()
}
