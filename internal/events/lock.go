package events

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// A process that writes holds a lock on a file beside its parts. The lock goes with
// the process, however that ends. It is not on the parts themselves, since on Windows
// that would keep readers out.

func lockPath(dir, process string) string { return filepath.Join(dir, process+".lock") }

// hold takes the process's lock. Who asks whether the process runs, or tidies up,
// may be faster by a moment; the latter removes the file.
func (w *file) hold() error {
	if w.locked() {
		return nil
	}
	w.release()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for {
		w.lock = flock.New(lockPath(w.dir, w.process), flock.SetPermissions(0o600))
		if _, err := w.lock.TryLockContext(ctx, time.Millisecond); err != nil {
			return err
		}
		if w.locked() {
			return nil
		}
		_ = w.lock.Close() // of a file that is gone
	}
}

// locked reports whether the lock is held, and where others look for it.
func (w *file) locked() bool {
	if w.lock == nil || !w.lock.Locked() {
		return false
	}
	own, err := w.lock.Stat()
	return err == nil && isAt(own, w.lock.Path())
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
	lock := flock.New(lockPath(dir, process), flock.SetFlag(os.O_RDWR)) // never makes it
	free, err := lock.TryRLock()                                        // shared: others may ask at once
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	_ = lock.Close()
	return err == nil && !free
}

// tidy removes the lock of a process that was killed.
func tidy(path string) {
	lock := flock.New(path, flock.SetFlag(os.O_RDWR))
	if mine, err := lock.TryLock(); err == nil && mine {
		if own, err := lock.Stat(); err == nil && isAt(own, path) {
			_ = os.Remove(path) // nobody else does who has not got the lock
		}
	}
	_ = lock.Close()
}
