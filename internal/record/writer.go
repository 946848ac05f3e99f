package record

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mcpschedd/internal/state"
)

const (
	writeEvery = 250 * time.Millisecond // delay in which lines and changes of the status are batched
	retryAfter = time.Minute            // pause in writing after an error
	bufferSize = 64 << 10               // bytes of lines that are buffered
)

// writer writes the log files and the status of one process. It writes whole lines only. It is
// used by one goroutine.
type writer struct {
	log     *Log
	o       Options // with defaults filled in
	begin   *Event
	first   []byte // first line of each file
	encoder *encoder

	lock          processLock
	next          int // number of the next file
	f             *os.File
	size          int64     // of f
	opened        time.Time // when f was opened
	taken         []queued  // events last taken from the queue
	lines         []byte    // not written yet
	retryAt       time.Time // time of the next attempt after an error; zero if there was none
	statusChanged bool      // since it was last written
	status        []byte    // last one written, without its time
}

func newWriter(o Options, begin *Event, l *Log) *writer {
	if len(o.Key) == 0 {
		o.Key = make([]byte, 32)
		rand.Read(o.Key)
	}
	if o.create == nil {
		o.create = create
	}
	o.RotateBytes, o.RotateAge = cmp.Or(o.RotateBytes, 16<<20), cmp.Or(o.RotateAge, 24*time.Hour)
	o.KeepBytes, o.KeepAge = cmp.Or(o.KeepBytes, 512<<20), cmp.Or(o.KeepAge, 30*24*time.Hour)
	w := &writer{log: l, o: o, begin: begin, encoder: newEncoder()}
	w.encoder.mac, w.encoder.scrub = hmac.New(sha256.New, o.Key), l.scrub
	first, _ := w.encoder.encode(begin) // strings and numbers always encode
	w.first = bytes.Clone(first)
	return w
}

func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
}

// run writes until the log is closed. It batches the lines of each writeEvery.
func (w *writer) run() {
	w.flush()
	w.markStatus()
	due := time.After(writeEvery)
	for {
		select {
		case <-w.log.queue.wake:
			if w.log.queue.batchReady() {
				w.take()
			}
		case <-w.log.changed:
			w.markStatus()
		case <-due:
			due = nil
			w.take()
			w.flush()
			continue
		case a := <-w.log.flushes:
			w.take()
			w.flush()
			if a.last != nil {
				w.end(a.last)
			}
			close(a.done)
			if a.last != nil {
				return
			}
		}
		if due == nil {
			due = time.After(writeEvery)
		}
	}
}

func (w *writer) markStatus() { w.statusChanged = w.o.Status != nil }

// take encodes the queued events.
func (w *writer) take() {
	w.taken = w.log.queue.take(w.taken)
	for i := range w.taken {
		w.event(&w.taken[i].event, w.taken[i].full)
	}
	clear(w.taken) // release what they refer to
}

// event encodes an event and buffers its line.
func (w *writer) event(e *Event, full bool) {
	w.encoder.hash(e, full)
	text, err := w.encoder.encode(e)
	if err != nil || len(text) > maxLine {
		w.log.lost.Add(1)
		return
	}
	w.line(text)
}

// line buffers a line, which ends in a newline. It first writes the buffer if it is full, and
// closes the file if that would grow too large.
func (w *writer) line(text []byte) {
	size := max(w.size, int64(len(w.first)))
	if full := size+int64(len(w.lines)+len(text)) > w.o.RotateBytes; full || len(w.lines)+len(text) > bufferSize {
		w.write()
		if full && w.size > int64(len(w.first)) {
			w.closeFile()
		}
	}
	w.lines = append(w.lines, text...)
}

// flush writes the buffered lines, and the status if it has changed.
func (w *writer) flush() {
	if len(w.lines) > 0 {
		w.write()
	}
	if w.statusChanged {
		w.statusChanged = false
		if err := w.writeStatus(); err != nil { // writing lines fails for the same reason, and warns
			w.log.logger.Debug("record: status not written", "dir", w.o.Dir, "err", err)
		}
	}
}

// write writes the buffered lines.
func (w *writer) write() {
	lines := w.lines
	w.lines = w.lines[:0]
	if cap(lines) > 2*bufferSize {
		w.lines = nil
	}
	if !w.ready() {
		w.log.lost.Add(int64(bytes.Count(lines, newline)))
		return
	}
	n, err := w.f.Write(lines)
	if err != nil {
		whole := bytes.LastIndexByte(lines[:n], '\n') + 1
		_ = w.f.Truncate(w.size + int64(whole)) // remove the incomplete last line
		w.log.lost.Add(int64(bytes.Count(lines[whole:], newline)))
		w.fail(err)
		n = whole
	}
	w.size += int64(n)
}

// ready reports whether there is a file to write to, and opens one if necessary. It checks that
// the open file is still at its path, since the folder may have been removed.
func (w *writer) ready() bool {
	if w.f != nil && time.Since(w.opened) < w.o.RotateAge && isFileAt(w.f, w.f.Name()) && w.lock.acquire(w.o.Dir, w.begin.Process) == nil {
		return true
	}
	w.closeFile()
	if time.Now().Before(w.retryAt) {
		return false
	}
	if err := w.open(); err != nil {
		w.fail(err)
		return false
	}
	w.retryAt = time.Time{}
	return true
}

// fail closes the file until retryAfter has passed. It logs only the first of several errors in
// a row.
func (w *writer) fail(err error) {
	w.closeFile()
	if w.retryAt.IsZero() {
		w.log.logger.Warn("record: not written", "dir", w.o.Dir, "err", err, "again_in", retryAfter)
	}
	w.retryAt = time.Now().Add(retryAfter)
}

// claim creates the folder and takes the lock. This comes before any file is created, as a file
// without a lock counts as that of an ended process.
func (w *writer) claim() error {
	if err := os.MkdirAll(w.o.Dir, 0o700); err != nil {
		return err
	}
	return w.lock.acquire(w.o.Dir, w.begin.Process)
}

// open creates the next file.
func (w *writer) open() error {
	if err := w.claim(); err != nil {
		return err
	}
	f, err := w.o.create(filepath.Join(w.o.Dir, fmt.Sprintf("%s.%03d.jsonl", w.begin.Process, w.next)))
	if err != nil {
		return err
	}
	w.next++
	if _, err := f.Write(w.first); err != nil {
		_ = f.Close() // the error of the write is returned
		_ = os.Remove(f.Name())
		return err
	}
	w.f, w.size, w.opened = f, int64(len(w.first)), time.Now()
	removeOld(w.o.Dir, w.o.KeepBytes, w.o.KeepAge)
	return nil
}

// closeFile closes the file, if one is open.
func (w *writer) closeFile() {
	if w.f != nil {
		_ = w.f.Close() // errors of writes were handled before
		w.f, w.size = nil, 0
	}
}

// end writes the last line if events are on and there is a file, and removes status and lock.
func (w *writer) end(last *Event) {
	if w.next > 0 && !w.log.off.Load() {
		if text, err := w.encoder.encode(last); err == nil {
			w.line(text)
			w.write()
		}
	}
	if w.status != nil {
		_ = os.Remove(statusPath(w.o.Dir, w.begin.Process)) // on failure it is ignored for want of a lock
	}
	w.closeFile()
	w.lock.release()
}

// writeStatus writes the status file if the status has changed.
func (w *writer) writeStatus() error {
	if err := w.claim(); err != nil {
		return err
	}
	if w.status == nil {
		removeOld(w.o.Dir, w.o.KeepBytes, w.o.KeepAge)
	}
	s, path := w.o.Status(), statusPath(w.o.Dir, w.begin.Process)
	s.Process, s.PID, s.Since = w.begin.Process, w.begin.PID, FormatTime(w.begin.At)
	s.Program, s.Transport, s.Dir, s.Lost = w.begin.Program, w.begin.Transport, w.begin.Dir, w.log.Lost()
	now, err := json.Marshal(&s)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil && bytes.Equal(now, w.status) {
		return nil
	}
	s.Updated = FormatTime(time.Now())
	text, _ := json.Marshal(&s) // cannot fail, like the first
	dir, err := state.Open(w.o.Dir)
	if err == nil {
		err = dir.Write(filepath.Base(path), text)
	}
	if err == nil {
		w.status = now
	}
	return err
}
