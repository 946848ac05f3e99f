package front

import (
	"bytes"
	"errors"
	"log/slog"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// What is kept for a client that does not read. Messages with an id are never
// dropped: somebody waits for them, or for the answer to them.
const (
	heldNotes = 256     // notifications
	heldBytes = 1 << 20 // bytes of notifications
)

// keepAlive is how long a stream may be silent: less than what proxies on the
// way, and clients, take for a dead connection.
const keepAlive = 15 * time.Second

var (
	errStreamEnded = errors.New("stream ended")
	errNotReading  = errors.New("the client does not read")
)

// queue is an outlet whose messages wait until a stream to the client takes
// them. Send never waits for the client: it is called by the reader of an
// upstream that may serve others too.
type queue struct {
	log  *slog.Logger
	wake chan struct{} // capacity 1: there may be something new to write

	mu        sync.Mutex
	lines     [][]byte
	size      int           // bytes of lines
	notes     int           // how many of lines are notifications
	noteBytes int           // bytes of those
	dropped   int           // notifications given up since a stream last took one
	closed    bool          // nothing more is taken; what waits may still be written
	reader    chan struct{} // closed when another stream takes over; nil: none is open
	room      chan struct{} // closed when size is below backlog again; nil: it is
}

func newQueue(log *slog.Logger) *queue {
	return &queue{log: log, wake: make(chan struct{}, 1)}
}

// Send puts a message at the end. Where too many notifications wait, the
// oldest is given up.
func (q *queue) Send(line []byte) error {
	note := jsonrpc.Get(line, "id") == nil
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return errStreamEnded
	case !note && q.reader == nil && q.size > backlog:
		return errNotReading
	}
	q.lines = append(q.lines, line)
	q.count(line, note, 1)
	for q.notes > heldNotes || q.noteBytes > heldBytes && q.notes > 1 {
		q.dropOldestLocked()
	}
	q.signal()
	return nil
}

// Answer makes a queue an outlet for answers too.
func (q *queue) Answer(line []byte) error { return q.Send(bytes.Clone(line)) }

func (q *queue) count(line []byte, note bool, by int) {
	q.size += by * len(line)
	if note {
		q.notes += by
		q.noteBytes += by * len(line)
	}
	switch {
	case q.size > backlog && q.room == nil:
		q.room = make(chan struct{})
	case q.size <= backlog && q.room != nil:
		close(q.room)
		q.room = nil
	}
}

func (q *queue) dropOldestLocked() {
	for i, line := range q.lines {
		if jsonrpc.Get(line, "id") == nil {
			q.lines = append(q.lines[:i], q.lines[i+1:]...)
			q.count(line, true, -1)
			break
		}
	}
	if q.dropped++; q.dropped == 1 {
		q.log.Warn("client reads too slowly: its oldest notifications are dropped", "kept", q.notes)
	}
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next takes the first message. ended says that none will come any more.
func (q *queue) next() (line []byte, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		return nil, q.closed
	}
	line = q.lines[0]
	q.lines[0] = nil
	q.lines = q.lines[1:]
	q.count(line, jsonrpc.Get(line, "id") == nil, -1)
	q.dropped = 0
	return line, false
}

// putBack returns a message that could not be written, for the next stream.
func (q *queue) putBack(line []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.lines = append([][]byte{line}, q.lines...)
		q.count(line, jsonrpc.Get(line, "id") == nil, 1)
	}
}

// close takes no more messages; a stream ends once it has written the rest.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

// full returns a channel that is closed when fewer than backlog bytes wait;
// nil: it is so now.
func (q *queue) full() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.room
}

// pump writes messages to e until the queue has been closed and is empty
// (nil), gone is closed, another pump takes over (nil), or writing fails.
func (q *queue) pump(e *sseWriter, gone <-chan struct{}) error {
	mine := make(chan struct{})
	q.mu.Lock()
	if q.reader != nil {
		close(q.reader)
	}
	q.reader = mine
	q.mu.Unlock()
	defer q.release(mine)
	beat := time.NewTimer(keepAlive)
	defer beat.Stop()
	for {
		select {
		case <-mine:
			return nil
		default:
		}
		line, ended := q.next()
		var err error
		switch {
		case line != nil:
			if err = e.message(line); err != nil {
				q.putBack(line)
			}
		case ended:
			return e.flush()
		default:
			err = e.flush()
		}
		if err != nil {
			return err
		}
		if line != nil {
			continue
		}
		beat.Reset(keepAlive)
		select {
		case <-q.wake:
		case <-beat.C:
			if err := e.comment(); err != nil {
				return err
			}
		case <-mine:
		case <-gone:
			return nil
		}
	}
}

// release ends a pump's hold; a wake-up it may have taken goes to the next.
func (q *queue) release(mine chan struct{}) {
	q.mu.Lock()
	if q.reader == mine {
		q.reader = nil
	}
	q.mu.Unlock()
	q.signal()
}
