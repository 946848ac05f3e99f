package events

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// A process that writes holds a lock on a file beside its parts. The lock goes with
// the process, however that ends. It is not on the parts themselves, since on Windows
// that would keep readers out.
//
// Some file systems have no locks (networks, containers). There the file stands for
// the lock: the process touches it when it writes and removes it when it ends, and one
// that was not touched for a day is that of a process that was killed.

// freshFor is how long a lock that cannot be held counts as held.
const freshFor = 24 * time.Hour

var errTaken = errors.New("another process has the lock")

// lockless reports whether an error says that a file was opened, and that the file
// system has no locks.
func lockless(err error) bool {
	_, unopened := errors.AsType[*os.PathError](err)
	return err != nil && !unopened && !errors.Is(err, context.DeadlineExceeded)
}

// nameOf names a process. In a container each may have the same id, hence the chance.
func nameOf(began time.Time, pid int) string {
	return another(began.UTC().Format(stamp) + "-" + strconv.Itoa(pid) + "-")
}

// another is another name of a process.
func another(process string) string {
	var random [4]byte
	rand.Read(random[:])
	return process[:strings.LastIndexByte(process, '-')+1] + hex.EncodeToString(random[:])
}

func lockPath(dir, process string) string { return filepath.Join(dir, process+".lock") }

// hold takes the process's lock. Who asks whether the process runs, or tidies up,
// may be faster by a moment; the latter removes the file. Whoever has it for longer is
// another process of that name: errTaken.
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
		case errors.Is(err, context.DeadlineExceeded):
			return errTaken
		case lockless(err):
			w.unlocked(err)
			return nil
		case err != nil:
			return err
		case w.locked():
			return nil
		}
		_ = w.lock.Close() // of a file that is gone
	}
}

// unlocked is told once that the lock is no more than a file.
func (w *file) unlocked(err error) {
	if !w.bare {
		w.log.Warn("events: no locks here: a process that is killed counts as running for a day", "dir", w.dir, "err", err)
	}
	w.bare = true
}

// locked reports whether the lock is held, and where others look for it.
func (w *file) locked() bool {
	if w.lock != nil && w.bare {
		return touch(w.lock.Path())
	}
	if w.lock == nil || !w.lock.Locked() {
		return false
	}
	own, err := w.lock.Stat()
	return err == nil && isAt(own, w.lock.Path())
}

// touch says that the process still runs; false if the file is gone.
func touch(path string) bool {
	now := time.Now()
	return !errors.Is(os.Chtimes(path, now, now), os.ErrNotExist)
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
	if err == nil && mine {
		if own, err := lock.Stat(); err == nil && isAt(own, path) {
			_ = os.Remove(path) // nobody else does who has not got the lock
		}
	}
	_ = lock.Close()
	if lockless(err) {
		_ = os.Remove(path) // a process that is only slow makes it again
	}
}
