package events

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// retryAfter is how long nothing is written after an error.
const retryAfter = time.Minute

// file writes the lines of one process, in parts. One goroutine at a time uses it.
type file struct {
	dir         string
	process     string // in the names of its files: not the log's own, where another process had that
	begin       []byte // the first line of each part
	rotateBytes int64
	rotateAge   time.Duration
	keepBytes   int64
	keepAge     time.Duration
	log         *slog.Logger
	create      func(path string) (*os.File, error)

	lock   *flock.Flock // held while the process runs; nil: not yet
	bare   bool         // it cannot be, here: the file is all there is
	part   int          // of the next file
	f      *os.File     // nil: none is open
	size   int64        // of f
	opened time.Time
	spoke  bool      // there are lines besides the first
	retry  time.Time // before that nothing is tried; zero: all is well
}

func newFile(o Options, process string, begin []byte, log *slog.Logger) *file {
	return &file{
		dir: o.Dir, process: process, begin: append(begin, '\n'), log: log, create: create,
		rotateBytes: cmp.Or(o.RotateBytes, 16<<20), rotateAge: cmp.Or(o.RotateAge, 24*time.Hour),
		keepBytes: cmp.Or(o.KeepBytes, 512<<20), keepAge: cmp.Or(o.KeepAge, 30*24*time.Hour),
	}
}

func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
}

// write writes whole lines, and returns how many of them it could not. It makes
// the file even without lines.
func (w *file) write(lines []byte) (lost int64) {
	for {
		if !w.ready() {
			return int64(bytes.Count(lines, newline))
		}
		if len(lines) == 0 {
			return lost
		}
		some := w.fitting(lines)
		if len(some) == 0 {
			w.shut()
			continue
		}
		written := w.put(some)
		lines = lines[written:]
		w.spoke = w.spoke || written > 0
	}
}

var newline = []byte("\n")

// fitting is as many lines as the part has room for, and at least one in an empty
// part.
func (w *file) fitting(lines []byte) []byte {
	room := w.rotateBytes - w.size
	if int64(len(lines)) <= room {
		return lines
	}
	if end := bytes.LastIndexByte(lines[:max(room, 0)], '\n'); end >= 0 {
		return lines[:end+1]
	}
	if w.size > int64(len(w.begin)) {
		return nil
	}
	return lines[:bytes.IndexByte(lines, '\n')+1]
}

// put writes lines at once, and returns how many bytes of whole ones are in the file.
// After an error the file is shut.
func (w *file) put(lines []byte) int {
	n, err := w.f.Write(lines)
	if err == nil {
		w.size += int64(n)
		return n
	}
	whole := bytes.LastIndexByte(lines[:n], '\n') + 1
	if whole < n {
		_ = w.f.Truncate(w.size + int64(whole)) // else whoever reads the file finds that its last line is cut short
	}
	w.fail(err)
	return whole
}

// fail warns once of what is wrong, and has it tried again later.
func (w *file) fail(err error) {
	w.shut()
	if w.retry.IsZero() {
		w.log.Warn("events: not recorded", "dir", w.dir, "err", err, "again_in", retryAfter)
	}
	w.retry = time.Now().Add(retryAfter)
}

// ready makes sure that there is a file to write to.
func (w *file) ready() bool {
	if w.f != nil && time.Since(w.opened) >= w.rotateAge || w.f != nil && !w.there() {
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

// there reports whether the file and its lock are where they were made: somebody may
// have tidied the folder away.
func (w *file) there() bool {
	own, err := w.f.Stat()
	return err == nil && isAt(own, w.f.Name()) && w.locked()
}

func isAt(own os.FileInfo, path string) bool {
	other, err := os.Stat(path)
	return err == nil && os.SameFile(own, other)
}

// open begins the next part. The lock is there before the file is: a file without one
// is that of a process that has ended.
func (w *file) open() error {
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return err
	}
	f, err := w.claim()
	if err != nil {
		return err
	}
	w.part++
	if _, err := f.Write(w.begin); err != nil {
		_ = f.Close() // the first error says it all
		_ = os.Remove(f.Name())
		return err
	}
	w.f, w.size, w.opened = f, int64(len(w.begin)), time.Now()
	retain(w.dir, w.keepBytes, w.keepAge)
	return nil
}

// claim makes the file of the next part, under the lock. Where there is somebody
// else's, the process takes another name; from there on it looks like another one.
func (w *file) claim() (f *os.File, err error) {
	for range 3 {
		if err = w.hold(); err == nil {
			f, err = w.create(filepath.Join(w.dir, fmt.Sprintf("%s.%03d.jsonl", w.process, w.part)))
		}
		if !errors.Is(err, errTaken) && !errors.Is(err, os.ErrExist) {
			return f, err
		}
		w.release()
		w.process, w.part = another(w.process), 0
	}
	return nil, err
}

// shut closes the part.
func (w *file) shut() {
	if w.f != nil {
		_ = w.f.Close() // each write has reported its own errors
		w.f = nil
	}
}

// finish ends the record, with a last line unless that is empty. A record that says nothing else goes.
func (w *file) finish(last []byte) (lost int64) {
	switch {
	case w.spoke:
		if len(last) > 0 {
			lost = w.write(last)
		}
		w.shut()
	case w.f != nil:
		path := w.f.Name()
		w.shut()
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			w.log.Warn("events: an empty record stays", "path", path, "err", err)
		}
	}
	w.release()
	return lost
}
