package record

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// processLock says that a process runs: it goes with the process, however that ends. It is
// on a file beside the log, since on Windows a lock on the log itself would keep readers out.
// Where the file system has no locks, every process counts as ended.
type processLock struct{ lock *flock.Flock }

func lockPath(dir, process string) string { return filepath.Join(dir, process+".lock") }

// hold takes the lock, if it is not held where others look for it: the folder may have been
// tidied away. A reader that asks whether the process runs holds it for a moment, and one
// that tidies up removes the file.
func (l *processLock) hold(dir, process string) error {
	if l.held() {
		return nil
	}
	l.release()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for {
		l.lock = flock.New(lockPath(dir, process), flock.SetPermissions(0o600))
		_, err := l.lock.TryLockContext(ctx, time.Millisecond)
		switch {
		case lockless(err):
			return nil
		case err != nil:
			return err
		case l.held():
			return nil
		}
		_ = l.lock.Close() // of a file that is gone
	}
}

// held reports whether others see that the process runs.
func (l *processLock) held() bool {
	return l.lock != nil && l.lock.Locked() && isAt(l.lock, l.lock.Path())
}

// release gives the lock back. The file goes first: without it, the process has ended.
func (l *processLock) release() {
	if l.lock == nil {
		return
	}
	if l.held() {
		_ = os.Remove(l.lock.Path()) // Windows does not, while it is open
	}
	_ = l.lock.Close()
	l.lock = nil
}

// lockless reports whether an error says that a file was opened, and cannot be locked.
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

// running reports whether a process holds its lock.
func running(dir, process string) bool {
	lock := flock.New(lockPath(dir, process), flock.SetFlag(os.O_RDWR)) // never makes it
	free, err := lock.TryRLock()                                        // shared: others may ask at once
	_ = lock.Close()
	return err == nil && !free
}

// sweep removes what a process that was killed left beside its log. It does so under the lock,
// made anew if it is gone: else it could remove the lock that a process which begins has just
// taken.
func sweep(dir, process string) {
	lock := flock.New(lockPath(dir, process), flock.SetPermissions(0o600))
	if mine, _ := lock.TryLock(); mine && isAt(lock, lock.Path()) {
		_ = os.Remove(filepath.Join(dir, process+statusSuffix))
		_ = os.Remove(lock.Path())
	}
	_ = lock.Close()
}
