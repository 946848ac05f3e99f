package record

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
)

const (
	retryAfter = time.Minute    // nothing is written for so long after an error
	bufferSize = 64 << 10       // lines that are written at once
	freshFor   = 24 * time.Hour // a lock that cannot be held counts as held for so long after it was touched
)

// file writes the lines of one process, in parts. A lock on a file beside them says that
// the process runs; it goes with the process, however that ends. It is not on the parts
// themselves, since on Windows that would keep readers out.
//
// Some file systems have no locks (networks, containers). There the file stands for the
// lock: the process touches it when it writes and removes it when it ends.
type file struct {
	dir, process string
	begin        []byte // the first line of each part
	rotateBytes  int64
	rotateAge    time.Duration
	keepBytes    int64
	keepAge      time.Duration
	log          *slog.Logger
	lost         *atomic.Int64
	create       func(path string) (*os.File, error)

	lock  *flock.Flock // nil: not yet
	bare  bool         // the file system has no locks
	part  int          // of the next file
	f     *os.File     // nil: none is open
	size  int64        // of f
	since time.Time    // f was opened
	lines []byte       // that wait to be written
	spoke bool         // there are lines besides the first
	retry time.Time    // nothing is tried before; zero: there was no error
}

func newFile(o Options, process string, begin []byte, log *slog.Logger, lost *atomic.Int64) *file {
	if o.create == nil {
		o.create = create
	}
	return &file{
		dir: o.Dir, process: process, begin: append(begin, '\n'), log: log, lost: lost, create: o.create,
		rotateBytes: cmp.Or(o.RotateBytes, 16<<20), rotateAge: cmp.Or(o.RotateAge, 24*time.Hour),
		keepBytes: cmp.Or(o.KeepBytes, 512<<20), keepAge: cmp.Or(o.KeepAge, 30*24*time.Hour),
	}
}

func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
}

// add adds a line to what is written next. A part ends before it grows too large.
func (w *file) add(text []byte) {
	size := max(w.size, int64(len(w.begin)))
	if full := size+int64(len(w.lines)+len(text)) >= w.rotateBytes; full || len(w.lines)+len(text) > bufferSize {
		w.flush()
		if full && w.size > int64(len(w.begin)) {
			w.shut()
		}
	}
	w.lines = append(append(w.lines, text...), '\n')
}

// flush writes the lines that wait, and makes the file even without any.
func (w *file) flush() {
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
func (w *file) ready() bool {
	if w.f != nil && (time.Since(w.since) >= w.rotateAge || !isAt(w.f, w.f.Name()) || !w.locked()) {
		w.shut()
	}
	if w.f != nil {
		return true
	}
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
func (w *file) fail(err error) {
	w.shut()
	if w.retry.IsZero() {
		w.log.Warn("record: not written", "dir", w.dir, "err", err, "again_in", retryAfter)
	}
	w.retry = time.Now().Add(retryAfter)
}

// open begins the next part. The lock is there before the file is: a file without one is
// that of a process that has ended.
func (w *file) open() error {
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return err
	}
	if err := w.hold(); err != nil {
		return err
	}
	f, err := w.create(filepath.Join(w.dir, fmt.Sprintf("%s.%03d.jsonl", w.process, w.part)))
	if err != nil {
		return err
	}
	w.part++
	if _, err := f.Write(w.begin); err != nil {
		_ = f.Close() // the first error says it all
		_ = os.Remove(f.Name())
		return err
	}
	w.f, w.size, w.since = f, int64(len(w.begin)), time.Now()
	retain(w.dir, w.keepBytes, w.keepAge)
	return nil
}

// shut closes the part.
func (w *file) shut() {
	if w.f != nil {
		_ = w.f.Close() // each write has reported its own errors
		w.f, w.size = nil, 0
	}
}

// finish ends the log. One that holds nothing but its first line is removed.
func (w *file) finish() {
	if len(w.lines) > 0 {
		w.flush()
	}
	if w.f != nil && !w.spoke {
		path := w.f.Name()
		w.shut()
		_ = os.Remove(path) // if it stays, it says that nothing happened
	}
	w.shut()
	w.release()
}

// hold takes the process's lock. A reader that asks whether the process runs holds it for
// a moment, and one that tidies up removes the file.
func (w *file) hold() error {
	if w.locked() {
		return nil
	}
	w.release()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for {
		w.lock = flock.New(lockPath(w.dir, w.process), flock.SetPermissions(0o600))
		_, err := w.lock.TryLockContext(ctx, time.Millisecond)
		switch {
		case lockless(err):
			if !w.bare {
				w.log.Warn("record: no locks here: a process that is killed counts as running for a day", "dir", w.dir, "err", err)
			}
			w.bare = true
			return nil
		case err != nil:
			return err
		case w.locked():
			return nil
		}
		_ = w.lock.Close() // of a file that is gone
	}
}

// locked reports whether the lock is held, and where others look for it.
func (w *file) locked() bool {
	switch {
	case w.lock == nil:
		return false
	case w.bare:
		now := time.Now()
		return !errors.Is(os.Chtimes(w.lock.Path(), now, now), os.ErrNotExist)
	}
	return w.lock.Locked() && isAt(w.lock, w.lock.Path())
}

// release gives the lock back. The file goes first: without it, the process has ended.
func (w *file) release() {
	if w.lock == nil {
		return
	}
	if w.locked() {
		_ = os.Remove(w.lock.Path()) // Windows does not, while it is open
	}
	_ = w.lock.Close()
	w.lock = nil
}

// lockless reports whether an error says that a file was opened, and that the file system
// has no locks.
func lockless(err error) bool {
	_, unopened := errors.AsType[*os.PathError](err)
	return err != nil && !unopened && !errors.Is(err, context.DeadlineExceeded)
}

// isAt reports whether an open file is the one at a path.
func isAt(f interface{ Stat() (os.FileInfo, error) }, path string) bool {
	own, err := f.Stat()
	if err != nil {
		return false
	}
	other, err := os.Stat(path)
	return err == nil && os.SameFile(own, other)
}

func lockPath(dir, process string) string { return filepath.Join(dir, process+".lock") }

// running reports whether a process holds its lock.
func running(dir, process string) bool {
	path := lockPath(dir, process)
	lock := flock.New(path, flock.SetFlag(os.O_RDWR)) // never makes it
	free, err := lock.TryRLock()                      // shared: others may ask at once
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	_ = lock.Close()
	if lockless(err) {
		info, err := os.Stat(path)
		return err == nil && time.Since(info.ModTime()) < freshFor
	}
	return err == nil && !free
}

// tidy removes the lock of a process that was killed.
func tidy(path string) {
	lock := flock.New(path, flock.SetFlag(os.O_RDWR))
	mine, err := lock.TryLock()
	if mine && isAt(lock, path) || lockless(err) { // a process that is only slow makes it again
		_ = os.Remove(path)
	}
	_ = lock.Close()
}
