package jsonrpc

import (
	"context"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// joinSize (bytes) is how much short lines are joined to before they are written,
// and the length beyond which a line is not copied for the sake of its line end.
const joinSize = 32 << 10

// Writer writes lines to a peer in the order of Send, from any goroutine, and
// never makes its callers wait for a peer that does not read.
//
// Where nothing is queued, Send writes by itself if it can do so without blocking
// (pipes and sockets on Linux): the common message costs one system call and no
// change of goroutine. What the peer does not take at once is left to a goroutine
// that lives as long as something is queued. The queue has no limit of its own:
// see [Writer.Drained].
type Writer struct {
	w       io.Writer
	direct  *direct       // nil if w cannot be written without blocking
	close   func() error  // closes w, once
	stuck   bool          // closing w does not end a write that waits for the peer
	drained chan struct{} // closed from the beginning: Drained's answer if there is no need to wait
	run     sync.WaitGroup

	mu     sync.Mutex
	busy   bool     // somebody writes to w; the buffer is theirs
	buffer []byte   // lines on their way to w, with their line ends
	queue  [][]byte // lines that wait, without their line ends
	queued int      // bytes that wait or are being written by the goroutine
	waits  []wait
	err    error         // why nothing is written any more
	ended  chan struct{} // closed with err
}

// wait is a channel to close when no more than limit bytes are queued.
type wait struct {
	limit int
	ready chan struct{}
}

// NewWriter returns a Writer to w. It owns w from now on: nobody else writes to
// it, and Close closes it if it is an [io.Closer]. A file's Fd must not be called
// any more, since that could make its writes block.
func NewWriter(w io.Writer) *Writer {
	out := &Writer{w: w, close: sync.OnceValue(closer(w)), drained: make(chan struct{}), ended: make(chan struct{})}
	if file, ok := w.(*os.File); ok {
		out.direct = newDirect(file)
		out.stuck = !interruptible(file, out.direct)
	}
	close(out.drained)
	return out
}

func closer(w io.Writer) func() error {
	if c, ok := w.(io.Closer); ok {
		return c.Close
	}
	return func() error { return nil }
}

// pollable says whether the runtime waits for the file instead of a thread in a
// system call: only then does it have deadlines.
func pollable(file *os.File) bool { return file.SetWriteDeadline(time.Time{}) == nil }

// Send writes line, which must hold no LF, and a line end. The caller must not
// change line afterwards: while the peer does not read, the Writer keeps it, not
// a copy.
//
// The error is the one that ended the Writer, [os.ErrClosed] after Close; the
// peer has not got the whole line then. Without an error the line may still be
// lost with the peer.
func (w *Writer) Send(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if w.busy || w.direct == nil {
		w.queue = append(w.queue, line)
		w.queued += len(line) + 1
		w.drainLocked()
		return nil
	}

	w.busy = true
	w.mu.Unlock()
	n, err := w.sendDirect(line)
	w.mu.Lock()
	w.busy = false

	if err != nil {
		w.endLocked(err)
		return w.err
	}
	if n <= len(line) {
		if w.err != nil {
			return w.err
		}
		w.queue = slices.Insert(w.queue, 0, line[n:]) // others may have queued theirs meanwhile
		w.queued += len(line) - n + 1
	}
	w.drainLocked()
	return nil
}

// sendDirect writes as much of line and its line end as w takes at once.
func (w *Writer) sendDirect(line []byte) (n int, err error) {
	w.buffer = w.buffer[:0]
	if len(line) > joinSize {
		// A second system call is cheaper than a copy.
		if n, err = w.direct.write(line); n < len(line) || err != nil {
			return n, err
		}
	} else {
		w.buffer = append(w.buffer, line...)
	}
	w.buffer = append(w.buffer, '\n')
	more, err := w.direct.write(w.buffer)
	return n + more, err
}

// drainLocked sees to it that what is queued gets written.
func (w *Writer) drainLocked() {
	if !w.busy && len(w.queue) > 0 {
		w.busy = true
		w.run.Go(w.drain)
	}
}

// drain writes until nothing is queued.
func (w *Writer) drain() {
	for {
		w.mu.Lock()
		lines := w.queue
		w.queue = nil
		if len(lines) == 0 {
			w.busy = false
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		w.writeLines(lines)
	}
}

// writeLines joins short lines and leaves long ones where they are.
func (w *Writer) writeLines(lines [][]byte) {
	w.buffer = w.buffer[:0]
	for i, line := range lines {
		lines[i] = nil // to be freed as soon as it is written
		if len(line) > joinSize {
			w.writeBuffer()
			w.write(line)
		} else {
			w.buffer = append(w.buffer, line...)
		}
		w.buffer = append(w.buffer, '\n')
		if len(w.buffer) >= joinSize {
			w.writeBuffer()
		}
	}
	w.writeBuffer()
}

func (w *Writer) writeBuffer() {
	w.write(w.buffer)
	w.buffer = w.buffer[:0]
}

// write writes all of p, unless the Writer has ended.
func (w *Writer) write(p []byte) {
	w.mu.Lock()
	ended := w.err != nil
	w.mu.Unlock()
	if ended || len(p) == 0 {
		return
	}
	n, err := w.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		w.endLocked(err)
	case w.err == nil:
		w.queued -= n
		w.wakeLocked()
	}
}

// endLocked drops what is queued; nothing is written any more.
func (w *Writer) endLocked(err error) {
	if w.err == nil {
		w.err = err
		close(w.ended)
	}
	w.queue, w.queued = nil, 0
	w.wakeLocked()
}

func (w *Writer) wakeLocked() {
	w.waits = slices.DeleteFunc(w.waits, func(wait wait) bool {
		if w.err == nil && w.queued > wait.limit {
			return false
		}
		close(wait.ready)
		return true
	})
}

// Queued returns how many bytes wait for the peer to read.
func (w *Writer) Queued() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queued
}

// Drained returns a channel that is closed when no more than limit bytes are
// queued, or the Writer has ended. Whoever reads the peer's requests waits for it
// before each, so that a peer that asks without reading is no longer heard:
//
//	select {
//	case <-out.Drained(1 << 20):
//	case <-ctx.Done():
//	}
func (w *Writer) Drained(limit int) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || w.queued <= limit {
		return w.drained
	}
	for _, wait := range w.waits {
		if wait.limit == limit {
			return wait.ready
		}
	}
	ready := make(chan struct{})
	w.waits = append(w.waits, wait{limit, ready})
	return ready
}

// Ended returns a channel that is closed when nothing is written any more: the
// peer has closed its end, or Close was called.
func (w *Writer) Ended() <-chan struct{} { return w.ended }

// Flush waits until everything that was sent is written. The error is ctx's, or
// the one that ended the Writer.
func (w *Writer) Flush(ctx context.Context) error {
	select {
	case <-w.Drained(0):
	case <-ctx.Done():
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close drops what is queued, closes the underlying writer if it is an
// [io.Closer], which also ends a write that waits for the peer, and returns when
// the Writer's goroutine has ended. The peer may be left with half a line: Flush
// first, with a deadline. Close may be called more than once.
//
// It does not wait for a write to a file that cannot be interrupted, such as a
// terminal or a pipe in blocking mode.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.endLocked(os.ErrClosed)
	w.mu.Unlock()
	err := w.close()
	if !w.stuck {
		w.run.Wait()
	}
	return err
}
