package record

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

const (
	retryAfter = time.Minute // nothing is written for so long after an error
	bufferSize = 64 << 10    // lines that are written at once
)

// parts writes the lines of one process into files, one after the other: whole lines only.
type parts struct {
	dir, process string
	begin        []byte  // the first line of each
	o            Options // bounds, with their defaults
	log          *slog.Logger
	lost         *atomic.Int64

	lock  processLock
	next  int // number of the next part
	f     *os.File
	size  int64     // of f
	since time.Time // f was opened
	lines []byte    // that wait to be written
	spoke bool      // there are lines besides the first
	retry time.Time // nothing is tried before; zero: there was no error
}

func newParts(o Options, process string, begin []byte, log *slog.Logger, lost *atomic.Int64) *parts {
	if o.create == nil {
		o.create = create
	}
	o.RotateBytes, o.RotateAge = cmp.Or(o.RotateBytes, 16<<20), cmp.Or(o.RotateAge, 24*time.Hour)
	o.KeepBytes, o.KeepAge = cmp.Or(o.KeepBytes, 512<<20), cmp.Or(o.KeepAge, 30*24*time.Hour)
	return &parts{dir: o.Dir, process: process, begin: append(begin, '\n'), o: o, log: log, lost: lost}
}

func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
}

// add adds a line to what is written next. A part ends before it grows too large.
func (w *parts) add(text []byte) {
	size := max(w.size, int64(len(w.begin)))
	if full := size+int64(len(w.lines)+len(text)) >= w.o.RotateBytes; full || len(w.lines)+len(text) > bufferSize {
		w.flush()
		if full && w.size > int64(len(w.begin)) {
			w.shut()
		}
	}
	w.lines = append(append(w.lines, text...), '\n')
}

// flush writes the lines that wait, and makes the file even without any.
func (w *parts) flush() {
	lines := w.lines
	w.lines = w.lines[:0]
	if cap(lines) > 2*bufferSize {
		w.lines = nil
	}
	if !w.ready() {
		w.lost.Add(int64(bytes.Count(lines, newline)))
		return
	}
	n, err := w.f.Write(lines)
	if err != nil {
		whole := bytes.LastIndexByte(lines[:n], '\n') + 1
		_ = w.f.Truncate(w.size + int64(whole)) // a reader would find the last line cut short
		w.lost.Add(int64(bytes.Count(lines[whole:], newline)))
		w.fail(err)
		n = whole
	}
	w.size += int64(n)
	w.spoke = w.spoke || n > 0
}

// ready makes sure that there is a file to write to, where readers look for it: the folder
// may have been tidied away.
func (w *parts) ready() bool {
	if w.f != nil && (time.Since(w.since) >= w.o.RotateAge || !isAt(w.f, w.f.Name())) {
		w.shut()
	}
	if w.f != nil && w.lock.hold(w.dir, w.process) == nil {
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
func (w *parts) fail(err error) {
	w.shut()
	if w.retry.IsZero() {
		w.log.Warn("record: not written", "dir", w.dir, "err", err, "again_in", retryAfter)
	}
	w.retry = time.Now().Add(retryAfter)
}

// claim makes the folder and takes the lock. The lock is there before any file is: a file
// without one is that of a process that has ended.
func (w *parts) claim() error {
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return err
	}
	return w.lock.hold(w.dir, w.process)
}

// open begins the next part.
func (w *parts) open() error {
	if err := w.claim(); err != nil {
		return err
	}
	f, err := w.o.create(filepath.Join(w.dir, fmt.Sprintf("%s.%03d.jsonl", w.process, w.next)))
	if err != nil {
		return err
	}
	w.next++
	if _, err := f.Write(w.begin); err != nil {
		_ = f.Close() // the first error says it all
		_ = os.Remove(f.Name())
		return err
	}
	w.f, w.size, w.since = f, int64(len(w.begin)), time.Now()
	retain(w.dir, w.o.KeepBytes, w.o.KeepAge)
	return nil
}

// shut closes the part.
func (w *parts) shut() {
	if w.f != nil {
		_ = w.f.Close() // each write has reported its own errors
		w.f, w.size = nil, 0
	}
}

// finish ends the log. One that holds nothing but its first line is removed.
func (w *parts) finish() {
	if len(w.lines) > 0 {
		w.flush()
	}
	if w.f != nil && !w.spoke {
		_ = os.Remove(w.f.Name()) // if it stays, it says that nothing happened
	}
	w.shut()
	w.lock.release()
}
