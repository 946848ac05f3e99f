package record

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// processLock is a file lock that shows that a process is running: the system releases it
// however the process ends. The locked file lies beside the log, since on Windows a lock on the
// log itself would keep readers out. On file systems without locks every process counts as ended.
type processLock struct{ lock *flock.Flock }

func lockPath(dir, process string) string { return filepath.Join(dir, process+".lock") }

// acquire takes the lock unless it is already held at its path: the folder may have been
// removed since. It retries for up to a second, as isRunning holds the lock for a moment and
// removeLeftovers removes the file.
func (l *processLock) acquire(dir, process string) error {
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
		case isLockUnsupported(err):
			return nil
		case err != nil:
			return err
		case l.held():
			return nil
		}
		_ = l.lock.Close() // the locked file was removed
	}
}

// held reports whether the lock is held, on the file that other processes see.
func (l *processLock) held() bool {
	return l.lock != nil && l.lock.Locked() && isFileAt(l.lock, l.lock.Path())
}

// release removes the lock file and then releases the lock.
func (l *processLock) release() {
	if l.lock == nil {
		return
	}
	if l.held() {
		_ = os.Remove(l.lock.Path()) // fails on Windows while the file is open
	}
	_ = l.lock.Close()
	l.lock = nil
}

// isLockUnsupported reports whether an error means that the file was opened but cannot be locked.
func isLockUnsupported(err error) bool {
	_, unopened := errors.AsType[*os.PathError](err)
	return err != nil && !unopened && !errors.Is(err, context.DeadlineExceeded)
}

// isFileAt reports whether an open file is the file at a path.
func isFileAt(f interface{ Stat() (os.FileInfo, error) }, path string) bool {
	own, err := f.Stat()
	if err != nil {
		return false
	}
	other, err := os.Stat(path)
	return err == nil && os.SameFile(own, other)
}

// isRunning reports whether a process holds its lock.
func isRunning(dir, process string) bool {
	lock := flock.New(lockPath(dir, process), flock.SetFlag(os.O_RDWR)) // without O_CREATE
	free, err := lock.TryRLock()                                        // shared, so that several processes can ask at once
	_ = lock.Close()
	return err == nil && !free
}

// removeLeftovers removes the status and lock files of a killed process. It holds the lock
// meanwhile, and creates the file if necessary: otherwise it could remove the lock that a
// starting process has just taken.
func removeLeftovers(dir, process string) {
	lock := flock.New(lockPath(dir, process), flock.SetPermissions(0o600))
	if mine, _ := lock.TryLock(); mine && isFileAt(lock, lock.Path()) {
		_ = os.Remove(filepath.Join(dir, process+statusSuffix))
		_ = os.Remove(lock.Path())
	}
	_ = lock.Close()
}
