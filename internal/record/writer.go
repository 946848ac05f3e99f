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
	writeEvery = 250 * time.Millisecond // how long a line, or a change of the status, waits for others
	retryAfter = time.Minute            // nothing is written for so long after an error
	bufferSize = 64 << 10               // lines that are written at once
)

// writer writes the lines of one process into files, one after the other and whole lines
// only, and its status. One goroutine uses it.
type writer struct {
	log     *Log
	o       Options // bounds, with their defaults
	begin   *Event
	first   []byte // the line that each file begins with
	encoder *encoder

	lock   processLock
	next   int // number of the next file
	f      *os.File
	size   int64     // of f
	since  time.Time // f was opened
	taken  []queued  // from the queue last
	lines  []byte    // that wait to be written
	retry  time.Time // nothing is tried before; zero: there was no error
	stale  bool      // the status may be another
	status []byte    // as it was written last, but for the time
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
	first, _ := w.encoder.encode(begin) // it is made of strings and numbers
	w.first = bytes.Clone(first)
	return w
}

func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
}

// run writes until the log is closed. What is to be written waits a moment for more.
func (w *writer) run() {
	w.flush()
	w.changed()
	due := time.After(writeEvery)
	for {
		select {
		case <-w.log.queue.wake:
			if w.log.queue.crowded() {
				w.take()
			}
		case <-w.log.changed:
			w.changed()
		case <-due:
			due = nil
			w.take()
			w.flush()
			continue
		case a := <-w.log.asks:
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

func (w *writer) changed() { w.stale = w.o.Status != nil }

// take makes lines of the events that wait.
func (w *writer) take() {
	w.taken = w.log.queue.take(w.taken)
	for i := range w.taken {
		w.event(&w.taken[i].event, w.taken[i].full)
	}
	clear(w.taken) // what they refer to
}

// event makes a line of one.
func (w *writer) event(e *Event, full bool) {
	w.encoder.hash(e, full)
	text, err := w.encoder.encode(e)
	if err != nil || len(text) > maxLine {
		w.log.lost.Add(1)
		return
	}
	w.line(text)
}

// line adds one, with its end, to what is written next. A file ends before it grows too large.
func (w *writer) line(text []byte) {
	size := max(w.size, int64(len(w.first)))
	if full := size+int64(len(w.lines)+len(text)) > w.o.RotateBytes; full || len(w.lines)+len(text) > bufferSize {
		w.write()
		if full && w.size > int64(len(w.first)) {
			w.shut()
		}
	}
	w.lines = append(w.lines, text...)
}

// flush writes what waits.
func (w *writer) flush() {
	if len(w.lines) > 0 {
		w.write()
	}
	if w.stale {
		w.stale = false
		if err := w.tell(); err != nil { // the same as that of the lines, or soon
			w.log.logger.Debug("record: status not written", "dir", w.o.Dir, "err", err)
		}
	}
}

// write writes the lines that wait.
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
		_ = w.f.Truncate(w.size + int64(whole)) // a reader would find the last line cut short
		w.log.lost.Add(int64(bytes.Count(lines[whole:], newline)))
		w.fail(err)
		n = whole
	}
	w.size += int64(n)
}

// ready makes sure that there is a file to write to, where readers look for it: the folder
// may have been tidied away.
func (w *writer) ready() bool {
	if w.f != nil && time.Since(w.since) < w.o.RotateAge && isAt(w.f, w.f.Name()) && w.lock.hold(w.o.Dir, w.begin.Process) == nil {
		return true
	}
	w.shut()
	if time.Now().Before(w.retry) {
		return false
	}
	if err := w.open(); err != nil {
		w.fail(err)
		return false
	}
	w.retry = time.Time{}
	return true
}

// fail warns once of what is wrong, and has it tried again later.
func (w *writer) fail(err error) {
	w.shut()
	if w.retry.IsZero() {
		w.log.logger.Warn("record: not written", "dir", w.o.Dir, "err", err, "again_in", retryAfter)
	}
	w.retry = time.Now().Add(retryAfter)
}

// claim makes the folder and takes the lock. The lock is there before any file is: a file
// without one is that of a process that has ended.
func (w *writer) claim() error {
	if err := os.MkdirAll(w.o.Dir, 0o700); err != nil {
		return err
	}
	return w.lock.hold(w.o.Dir, w.begin.Process)
}

// open begins the next file.
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
		_ = f.Close() // the first error says it all
		_ = os.Remove(f.Name())
		return err
	}
	w.f, w.size, w.since = f, int64(len(w.first)), time.Now()
	retain(w.o.Dir, w.o.KeepBytes, w.o.KeepAge)
	return nil
}

// shut closes the file.
func (w *writer) shut() {
	if w.f != nil {
		_ = w.f.Close() // each write has reported its own errors
		w.f, w.size = nil, 0
	}
}

// end writes the last line, if lines are wanted and there are any.
func (w *writer) end(last *Event) {
	if w.next > 0 && !w.log.off.Load() {
		if text, err := w.encoder.encode(last); err == nil {
			w.line(text)
			w.write()
		}
	}
	if w.status != nil {
		_ = os.Remove(statusPath(w.o.Dir, w.begin.Process)) // without its lock it counts for nothing
	}
	w.shut()
	w.lock.release()
}

// tell writes the status, whole, if it says something new.
func (w *writer) tell() error {
	if err := w.claim(); err != nil {
		return err
	}
	if w.status == nil {
		retain(w.o.Dir, w.o.KeepBytes, w.o.KeepAge)
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
	text, _ := json.Marshal(&s) // as before
	dir, err := state.Open(w.o.Dir)
	if err == nil {
		err = dir.Write(filepath.Base(path), text)
	}
	if err == nil {
		w.status = now
	}
	return err
}
